from hermes_agent.gateway.channel import Manifest, SettingField

MANIFEST = Manifest(
    name="discord",
    title="Discord",
    about="A bot in direct messages, servers and threads",
    module="hermes_agent.gateway.channels.discord.channel",
    packages=("discord", "markdown_it"),
    extra="discord",
    fields=(
        SettingField("token", "the bot's token", secret=True, required=True),
        SettingField(
            "probe_chat",
            "id of a channel where the bot may write and delete a word now and then, to see that "
            "it comes back; without it only what Discord says of known chats is compared",
        ),
        SettingField("address", "another server", default="https://discord.com/api/v10"),
    ),
    longest=2_000,
    edits=True,
    buttons=True,
    files=True,
    voice=True,
    groups=True,
    threads=True,
    typing=True,
    knows_twice=True,
    knows_for=120.0,  # "the past few minutes", as Discord says
    per_second=1.0,
    steps=(
        "On discord.com/developers/applications: New Application, then Bot, then Reset Token.",
        "The token is shown once; it is asked for below.",
        "On the same page switch on Message Content Intent.",
        "OAuth2, URL Generator: scope bot; Send Messages, Attach Files, Read Message History.",
        "Open the address it gives and add the bot to your server; then write to it.",
    ),
)
