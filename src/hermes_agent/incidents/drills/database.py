"""PostgreSQL in a box. A data folder takes a second to make and is the same for all: it is made
once on a machine and kept in the cache."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part
from hermes_agent.incidents.drills.world import File, Program

DATA = "/var/lib/postgresql/data"
SETTINGS = "/etc/postgresql/postgresql.conf"
PACKED = "/var/lib/postgresql/new.tar.gz"
NAME = "postgres"


def postgres(port: int, base: str, sql: Sequence[str], **settings: object) -> Part:
    """A server on `port` with a database, prepared by statements of one line each. The service's
    own role is `app`; `postgres` may do everything."""
    server = _program("postgres")
    chosen = {
        "listen_addresses": "'127.0.0.1'", "port": port, "unix_socket_directories": "'/run'",
        "max_connections": 20, "superuser_reserved_connections": 3, "shared_buffers": "8MB",
        "fsync": "off", "log_line_prefix": "'%m [%p] %a '", "timezone": "'UTC'",
        "log_timezone": "'UTC'", **settings,
    }  # fmt: skip
    lines = "".join(f"{name} = {value}\n" for name, value in chosen.items())
    prepared = ["create role app login", f"create database {base}"]
    owned = [*sql, "grant all on all tables in schema public to app"]
    single = f"/opt/bin/as-app {server} --single -D {DATA}"
    return Part(
        Program(
            name=NAME,
            command=f"{server} -D {DATA} -c config_file={SETTINGS}",
            ready=f"tcp:{port}",
            about=f"PostgreSQL on port {port}, database {base}; settings {SETTINGS}; "
            f"psql -h 127.0.0.1 -p {port} -U postgres {base}",
        ),
        {
            PACKED: File(data=packed()),
            SETTINGS: File(lines, age=MONTH),
            "/opt/bin/psql": File(link=_program("psql")),
            "/var/lib/postgresql/1.sql": File("".join(f"{one}\n" for one in prepared)),
            "/var/lib/postgresql/2.sql": File("".join(f"{one}\n" for one in owned)),
        },
        {"/var/lib/postgresql": 0o700},
        (
            f"cd /var/lib/postgresql && tar xzf {PACKED} --no-same-owner && rm {PACKED}",
            f"cd /var/lib/postgresql && {single} postgres <1.sql >1.log",
            f"cd /var/lib/postgresql && {single} {base} <2.sql >2.log && rm ?.sql ?.log",
        ),
    )


def ask(probe: Probe, port: int, base: str, sql: str) -> str:
    """What a query comes to, or the words of the refusal."""
    words = [
        _program("psql"),
        "-XAt",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        "-U",
        "postgres",
        "-c",
        sql,
        base,
    ]
    how = {"PGCONNECT_TIMEOUT": "2", "PGOPTIONS": "-c statement_timeout=800"}
    ran = probe.run(words, environment=how, timeout=3)
    return ran.stdout.strip() if ran.code == 0 else ran.stderr.strip()


def packed() -> bytes:
    """A fresh data folder, packed."""
    initdb = Path(_program("initdb"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hermes-drills"
    version = initdb.parent.parent.name
    kept = cache / f"postgresql-{version}.tar.gz"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _make(initdb, Path(folder))
            (Path(folder) / "new.tar.gz").replace(kept)
    return kept.read_bytes()


def _make(initdb: Path, folder: Path) -> None:
    """As nobody in particular: PostgreSQL refuses to be root."""
    words = [
        "unshare", "--user", "--map-user=1000", "--map-group=1000", str(initdb), "-D",
        str(folder / "data"), "-U", "postgres", "--no-sync", "--wal-segsize=1", "-A", "trust",
        "-E", "UTF8", "--locale=C", "--no-instructions",
    ]  # fmt: skip
    pack = ["tar", "czf", str(folder / "new.tar.gz"), "-C", str(folder), "data"]
    for argv in (words, pack):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HermesError(f"no data folder for PostgreSQL: {done.stderr.strip()[-300:]}")


def _program(name: str) -> str:
    """One of the server's own version: the one on the path may be a script that looks for it."""
    found = find("postgres")
    if found is None:
        raise HermesError("PostgreSQL is not here", "apt-get install postgresql")
    return str(Path(found).resolve().with_name(name))
