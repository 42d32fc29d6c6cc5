from hermes_agent.gateway.channel import Manifest, SettingField

MANIFEST = Manifest(
    name="ntfy",
    title="ntfy",
    about="Push notifications to phones, by ntfy.sh or a server of your own; what is written to "
    "the topic comes in. Whoever knows the topic can write there: protect it.",
    module="hermes_agent.gateway.channels.ntfy.channel",
    fields=(
        SettingField("topic", "the topic, long and hard to guess", required=True),
        SettingField("address", "the server", default="https://ntfy.sh"),
        SettingField("token", "an access token, where the topic is protected", secret=True),
        SettingField(
            "press_token",
            "a token that may only write, which buttons carry; without it a protected topic has "
            "no buttons",
            secret=True,
        ),
        SettingField(
            "proof_seconds", "how long what was written may take to come to us", default="10"
        ),
        SettingField("home", "the topic for what is said to nobody in particular"),
    ),
    longest=3_500,
    buttons=True,
    files=True,
    voice=True,
    proof="round-trip",
    per_second=1.0,
    steps=(
        "Install the ntfy app and subscribe to a topic with a long random name.",
        "hermes config set channels.ntfy.topic YOUR-TOPIC",
        "Let the topic in: `hermes gateway pair ntfy`, and send the code to the topic.",
    ),
)
