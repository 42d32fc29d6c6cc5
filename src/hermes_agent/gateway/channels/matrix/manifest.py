from hermes_agent.gateway.channel import Manifest, SettingField

MANIFEST = Manifest(
    name="matrix",
    title="Matrix",
    about="An account on any Matrix homeserver, in rooms that are not encrypted.",
    module="hermes_agent.gateway.channels.matrix.channel",
    packages=("markdown_it",),
    extra="matrix",
    fields=(
        SettingField("address", "the homeserver, as https://matrix.example.org", required=True),
        SettingField(
            "token", "an access token of the agent's own account", secret=True, required=True
        ),
        SettingField(
            "invites", "whose invitations are taken: `allow` (the allow-list) or `anyone`"
        ),
        SettingField("home", "the room for what is said to nobody in particular, as !room:server"),
        SettingField(
            "proof_seconds", "how long what was written may take to come to us", default="20"
        ),
    ),
    longest=8_000,
    edits=True,
    files=True,
    voice=True,
    groups=True,
    threads=True,
    typing=True,
    knows_twice=True,
    proof="round-trip",
    per_second=1.0,
    steps=(
        "Register an account for the agent on your homeserver and log in once to get a token.",
        "Write the token into ~/.hermes/.env, as MATRIX_TOKEN=…",
        "hermes config set channels.matrix.address https://matrix.example.org",
        "hermes config set channels.matrix.token MATRIX_TOKEN",
        "Put yourself on the list: channels.matrix.owners: ['@you:example.org'], then invite it.",
    ),
)
