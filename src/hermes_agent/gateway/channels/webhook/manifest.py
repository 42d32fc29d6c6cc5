from hermes_agent.gateway.channel import Manifest, SettingField

MANIFEST = Manifest(
    name="webhook",
    title="Webhook",
    about="Programs of any kind: what they post to /channels/webhook/in is a message, to "
    "/channels/webhook/alertmanager, grafana or pagerduty an alert; answers are posted to `url`.",
    module="hermes_agent.gateway.channels.webhook.channel",
    fields=(
        SettingField("token", "what callers must know: as bearer, or to sign with", True, True),
        SettingField(
            "alert_token", "what monitoring systems must know; without it no alerts", True
        ),
        SettingField("url", "where messages go to, as JSON; without it nothing can be sent"),
        SettingField(
            "text", "where the text stands in what is posted, as `data.body`", default="text"
        ),
        SettingField("sender", "where it says who wrote", default="sender"),
        SettingField("name", "where it says how they are called", default="name"),
        SettingField("chat", "where it says in which conversation", default="chat"),
        SettingField(
            "id", "where its id stands; what comes twice under one id is one", default="id"
        ),
        SettingField("home", "the conversation for what is said to nobody in particular"),
    ),
    longest=100_000,
    buttons=True,
    files=True,
    voice=True,
    threads=True,
    knows_twice=True,
    proof="round-trip",
    steps=(
        "Let it be reached: `hermes config set gateway.listen 127.0.0.1:9912`.",
        "Write a long random token into ~/.hermes/.env, as WEBHOOK_TOKEN=…",
        "hermes config set channels.webhook.token WEBHOOK_TOKEN",
        "Say who may write, by what they call themselves: channels.webhook.allow.",
    ),
)
