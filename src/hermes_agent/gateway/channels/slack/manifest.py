from hermes_agent.gateway.channel import Manifest, SettingField

MANIFEST = Manifest(
    name="slack",
    title="Slack",
    about="An app in direct messages, channels and threads, without a public address",
    module="hermes_agent.gateway.channels.slack.channel",
    packages=("slack_sdk", "aiohttp", "markdown_it"),
    extra="slack",
    fields=(
        SettingField("token", "the bot's token (xoxb-…)", secret=True, required=True),
        SettingField("app_token", "the app's token (xapp-…)", secret=True, required=True),
        SettingField(
            "probe_chat",
            "id of a channel where the bot may write and delete a word now and then, to see that "
            "it comes back; without it only what Slack says of known chats is compared",
        ),
        SettingField("address", "another server", default="https://slack.com"),
    ),
    longest=3_800,
    edits=True,
    buttons=True,
    files=True,
    voice=True,
    groups=True,
    threads=True,
    per_second=1.0,
    steps=(
        "On api.slack.com/apps: Create New App, From scratch.",
        "Socket Mode: switch it on, and keep the app's token (scope connections:write).",
        "OAuth & Permissions, bot scopes: chat:write, files:read, files:write.",
        "Also history and read of channels, groups, im and mpim (channels:history and so on).",
        "Event Subscriptions, bot events: message.channels, .groups, .im and .mpim.",
        "Interactivity & Shortcuts: switch it on.",
        "App Home: let people send messages to it. Then install the app, and keep the bot's token.",
    ),
)
