"""Real mail servers on this machine: OpenSMTPD delivers into Maildirs, Dovecot shows them by IMAP
and takes what is to be sent. They start when a test first wants them and are shared by all test
processes. Any account of these domains exists; all have one password.

Run as a module this file is what keeps them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.daemons import check_root, folder_of, hold

NAME = "mail"
READY = "s"
PASSWORD = "correct-horse-battery"
HERE, PEOPLE = "hermes.test", "people.test"
NOBODY = 65534
START_SECONDS = 60

SMTPD = """
table accounts {{ "@" = "mail" }}
table users {{ "mail" = "{nobody}:{nobody}:/run/mail" }}
listen on 127.0.0.1 port {delivery}
action "in" maildir "/run/mail/%{{rcpt}}" virtual <accounts> userbase <users>
match from any for domain {{ "{here}", "{people}" }} action "in"
"""
DOVECOT_2_3 = """
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
mail_location = maildir:/run/mail/%u
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={nobody} gid={nobody} home=/run/mail/%u
}}
"""
DOVECOT_2_4 = """
dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
ssl_server_cert_file = {folder}/cert.pem
ssl_server_key_file = {folder}/key.pem
auth_allow_cleartext = yes
mail_driver = maildir
mail_path = /run/mail/%{{user}}
passdb static {{
  password = {password}
}}
userdb static {{
  fields {{
    uid = {nobody}
    gid = {nobody}
    home = /run/mail/%{{user}}
  }}
}}
"""
DOVECOT = """
base_dir = /run/dovecot
state_dir = /run/dovecot
log_path = /dev/stderr
protocols = imap submission
hostname = mail.{here}
ssl = yes
auth_mechanisms = plain login
auth_failure_delay = 0
mail_max_userip_connections = 1000
first_valid_uid = 1
namespace inbox {{
  inbox = yes
}}
submission_relay_host = 127.0.0.1
submission_relay_port = {delivery}
service anvil {{
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service imap-login {{
  inet_listener imap {{
    {listen} = 127.0.0.1
    port = {imap}
  }}
  inet_listener imaps {{
    {listen} = 127.0.0.1
    port = {imaps}
  }}
}}
service submission-login {{
  inet_listener submission {{
    {listen} = 127.0.0.1
    port = {submission}
  }}
  inet_listener submissions {{
    {listen} = 127.0.0.1
    port = {submissions}
    ssl = yes
  }}
}}
"""


@dataclass(frozen=True)
class Ports:
    delivery: int
    imap: int
    imaps: int
    submission: int
    submissions: int


class MailServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ports = Ports(**json.loads((folder / "ports").read_text()))

    @property
    def certificate(self) -> Path:
        """What a client has to trust to reach it safely, as localhost."""
        return self._folder / "cert.pem"

    def maildir(self, address: str) -> Path:
        return self._folder / "mail" / address

    def drop(self, address: str, raw: bytes, name: str) -> None:
        """Put something into a mailbox as it is, whatever it is."""
        for part in ("", "tmp", "new", "cur"):
            folder = self.maildir(address) / part
            folder.mkdir(mode=0o700, exist_ok=True)
            os.chown(folder, NOBODY, NOBODY)
        new = self.maildir(address) / "tmp" / f"{time.time():.6f}.{name}.test"
        new.write_bytes(raw)
        os.chown(new, NOBODY, NOBODY)
        new.rename(self.maildir(address) / "new" / new.name)


def mailserver() -> MailServer:
    check_root("a mail server")
    folder = folder_of(NAME)
    hold(NAME, [sys.executable, "-m", "tests.support.mailserver", str(folder)], folder / READY)
    return MailServer(folder)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _prepare(folder: Path, ports: Ports) -> None:
    """Folders that both have at fixed places are in memory, and seen by nobody else."""
    names = {"folder": folder, "here": HERE, "people": PEOPLE, "nobody": NOBODY,
             "password": PASSWORD, **asdict(ports)}  # fmt: skip
    said = subprocess.run(["dovecot", "--version"], check=True, capture_output=True, text=True)
    old = said.stdout.startswith("2.3")
    names["listen"] = "address" if old else "listen"
    dovecot = f"{DOVECOT_2_3 if old else DOVECOT_2_4}{DOVECOT}"
    (folder / "smtpd.conf").write_text(SMTPD.format(**names))
    (folder / "dovecot.conf").write_text(dovecot.format(**names))
    mail = folder / "mail"
    mail.mkdir(mode=0o700)
    os.chown(mail, NOBODY, NOBODY)
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    commands = [
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", *subject,
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        ["mount", "-t", "tmpfs", "hermes-tests", "/var/spool"],
        ["mount", "-t", "tmpfs", "hermes-tests", "/run"],
        ["mkdir", "-m", "711", "/var/spool/smtpd"],
        ["mkdir", "/run/mail"],
        ["mount", "--bind", mail, "/run/mail"],
    ]  # fmt: skip
    for command in commands:
        subprocess.run(command, check=True)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(f"nobody listens on {port}")


def main() -> None:
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ports = Ports(*_free_ports(5))
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    _prepare(folder, ports)
    subprocess.Popen(["smtpd", "-d", "-f", folder / "smtpd.conf"])
    subprocess.Popen(["dovecot", "-F", "-c", folder / "dovecot.conf"])
    for port in asdict(ports).values():
        _wait_for(port)
    (folder / "ports").write_text(json.dumps(asdict(ports)))
    with socket.socket(socket.AF_UNIX) as ready:
        ready.bind(str(folder / READY))
        ready.listen()
        while True:
            ready.accept()[0].close()


if __name__ == "__main__":
    main()
