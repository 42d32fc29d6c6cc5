"""Real database servers, each in a folder of its own."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from tests.support.sources import free_port, server


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


@contextmanager
def folder_of_user(user: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Servers refuse to run as root: then they run as their own user, in a folder of theirs that is
    not below one of pytest's, which only its owner may enter."""
    with TemporaryDirectory(prefix="hermes-database-") as name:
        if os.geteuid() == 0:
            shutil.chown(name, user)
            yield Path(name), {"user": user}
        else:
            yield Path(name), {}


@contextmanager
def postgres_server(statements: Sequence[str], *options: str) -> Iterator[str]:
    """The address of a database in which the user `owner` has run the statements, and `looker` may
    look at everything."""
    with folder_of_user("postgres") as (folder, how):
        port = free_port()
        binaries = max(Path("/usr/lib/postgresql").iterdir()) / "bin"
        make = [binaries / "initdb", "-D", folder / "data", "-A", "trust", "-U", "owner", "-N"]
        subprocess.run(make, check=True, capture_output=True, cwd=folder, **how)
        command = [
            str(binaries / "postgres"), "-D", str(folder / "data"), "-p", str(port),
            "-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-k", str(folder),
            *(word for option in options for word in ("-c", option)),
        ]  # fmt: skip
        url = f"postgresql://127.0.0.1:{port}/postgres"
        ready = [binaries / "pg_isready", "-q", "-d", url]
        with server(folder, command, lambda: subprocess.run(ready).returncode == 0, **how):
            with psycopg.connect(url, user="owner", autocommit=True) as owner:
                for statement in statements:
                    owner.execute(statement)
                owner.execute("create role looker login")
                owner.execute("grant pg_monitor, pg_read_all_data to looker")
            yield url
