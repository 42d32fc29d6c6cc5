from hermes_agent.gateway.channel import Manifest, SettingField

MANIFEST = Manifest(
    name="email",
    title="E-mail",
    about="A mailbox of the agent's own, by IMAP and SMTP. Who wrote is only believed when your "
    "mail server vouches for it.",
    module="hermes_agent.gateway.channels.email.channel",
    packages=("aiosmtplib", "markdown_it"),
    extra="email",
    fields=(
        SettingField("address", "the agent's own address", required=True),
        SettingField("password", "of its mailbox", secret=True, required=True),
        SettingField("imap", "the server that has the mailbox, as imap.example.org", required=True),
        SettingField(
            "smtp", "the server that takes what is sent, as smtp.example.org", required=True
        ),
        SettingField("authserv", "the name by which your mail server signs Authentication-Results"),
        SettingField(
            "authenticated",
            "whether only mails count whose sender that server vouches for",
            default="true",
        ),
        SettingField("user", "the name to log in with, where it is not the address"),
        SettingField("folder", "the folder that is read", default="INBOX"),
        SettingField(
            "look_seconds", "how often we look even if told of nothing new", default="240"
        ),
        SettingField(
            "proof_minutes", "how often a mail to ourselves proves the whole way", default="60"
        ),
        SettingField("proof_seconds", "how long it may take to come back", default="25"),
        SettingField("home", "the address for what is said to nobody in particular"),
    ),
    longest=20_000,
    files=True,
    voice=True,
    threads=True,
    proof="round-trip",
    per_second=1.0,
    steps=(
        "Make a mailbox that nobody but the agent uses, and an app password where there are such.",
        "Write the password into ~/.hermes/.env, as EMAIL_PASSWORD=…",
        "hermes config set channels.email.address hermes@example.org",
        "hermes config set channels.email.password EMAIL_PASSWORD",
        "hermes config set channels.email.imap imap.example.org, and channels.email.smtp likewise.",
        "Mail it; the first word of Authentication-Results there is channels.email.authserv.",
        "Let yourself in: `hermes gateway pair email --role owner`, and mail the code to it.",
    ),
)
