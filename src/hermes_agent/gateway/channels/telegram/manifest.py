from hermes_agent.gateway.channel import Manifest, SettingField

MANIFEST = Manifest(
    name="telegram",
    title="Telegram",
    about="A bot in private chats, groups and topics",
    module="hermes_agent.gateway.channels.telegram.channel",
    packages=("telegram", "markdown_it"),
    extra="telegram",
    fields=(
        SettingField("token", "the bot's token, from @BotFather", secret=True, required=True),
        SettingField(
            "address",
            "another Bot API server, such as one of your own",
            default="https://api.telegram.org",
        ),
    ),
    longest=4_000,
    edits=True,
    buttons=True,
    files=True,
    voice=True,
    groups=True,
    threads=True,
    typing=True,
    per_second=1.0,
    steps=(
        "Open a chat with @BotFather on Telegram, send /newbot, and choose a name.",
        "It gives a token, which is asked for below.",
        "For groups: /setprivacy there, Disable, if it is to hear what is not addressed to it.",
        "Write anything to your bot, so that it may write to you.",
    ),
)
