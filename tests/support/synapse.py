"""A real Matrix homeserver on this machine. It starts when a test first wants it, is shared by all
test processes, and listens on a Unix socket; `scripts/test-needs` has put it into the cache folder.

Run as a module this file is what keeps it."""

import os
import sys
from pathlib import Path

import yaml

from tests.support.daemons import folder_of, hold

NAME = "synapse"
SERVER = "hermes.test"
SOCKET = "s"


def python() -> Path:
    """The interpreter that has it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = cache / "hermes-tests" / "synapse" / "bin" / "python"
    assert found.exists(), f"{found} is missing: run scripts/test-needs"
    return found


def synapse() -> Path:
    """The socket of the homeserver."""
    folder = folder_of(NAME)
    hold(NAME, [sys.executable, "-m", "tests.support.synapse", str(folder)], folder / SOCKET)
    return folder / SOCKET


def _configured(folder: Path) -> Path:
    many = {"per_second": 10_000, "burst_count": 10_000}
    settings = {
        "server_name": SERVER,
        "report_stats": False,
        "signing_key_path": str(folder / "signing.key"),
        "media_store_path": str(folder / "media"),
        "pid_file": str(folder / "synapse.pid"),
        "macaroon_secret_key": "not a secret of anybody",
        "form_secret": "nor this",
        "listeners": [
            {"path": str(folder / SOCKET), "type": "http", "resources": [
                {"names": ["client", "media"], "compress": False}]},
        ],
        "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
        "enable_registration": True,
        "enable_registration_without_verification": True,
        "trusted_key_servers": [],
        "presence": {"enabled": False},
        "bcrypt_rounds": 4,
        "rc_message": many,
        "rc_registration": many,
        "rc_joins": {"local": many, "remote": many},
        "rc_invites": {"per_room": many, "per_user": many, "per_issuer": many},
        "rc_login": {"address": many, "account": many, "failed_attempts": many},
        "rc_room_creation": many,
        "rc_media_create": many,
        "max_event_delay_duration": "24h",
    }  # fmt: skip
    path = folder / "homeserver.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def main() -> None:
    folder = Path(sys.argv[1])
    config = _configured(folder)
    program = str(python())
    words = [program, "-m", "synapse.app.homeserver", "--config-path", str(config)]
    os.spawnv(os.P_WAIT, program, [*words, "--generate-keys"])
    os.execv(program, words)


if __name__ == "__main__":
    main()
