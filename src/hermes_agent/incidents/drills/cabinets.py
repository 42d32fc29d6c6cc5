"""Cabinets: apps of one account below /home/deploy, settings in .env files, records in SQLite,
logs as gunicorn writes them. Parts of such worlds."""

import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from shlex import quote
from typing import Any

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, program_text
from hermes_agent.incidents.drills.world import File, Program

HOME = "/home/deploy"
RECORDS = "/api/records"
BYGONE = (
    "PUT /api/records/r{} 500 DOWN: OperationalError: database is locked",
    "PUT /api/records/r{} 500 DOWN: OperationalError: database or disk is full",
    "GET /up 503 DOWN: auth http://10.4.0.9:8110: timed out",
    "GET /api/records/r{} 500 DOWN: OSError: [Errno 24] Too many open files",
    "GET /api/records/r{} 500 DOWN: MemoryError",
    "cannot listen on port 8000: [Errno 98] Address already in use",
)
"""What logs of other weeks say."""


def env_of(name: str) -> str:
    return f"{HOME}/{name}/.env"


def var_of(name: str) -> dict[str, object]:
    """Settings of an app that keeps and logs below /var."""
    return {
        "DATABASE": f"/var/lib/{name}/production.sqlite3",
        "LOG_FILE": f"/var/log/{name}/production.log",
    }


def log_of(name: str) -> str:
    return f"{HOME}/{name}/log/production.log"


def base_of(name: str) -> str:
    return f"{HOME}/{name}/storage/production.sqlite3"


def env_text(settings: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


class Rows:
    """Records of long ago, by their keys, and the file that holds them."""

    def __init__(self, pick: Pick, count: int = 12, spare: int = 0) -> None:
        """`spare` bytes of the file are free for more."""
        self.spare = spare
        self.values = {f"r{pick.token(6)}": pick.token(24) for _ in range(count)}

    @property
    def first(self) -> str:
        return next(iter(self.values))

    def file(self) -> File:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "base"
            base = sqlite3.connect(path)
            base.execute("create table records (key text primary key, value blob)")
            base.executemany("insert into records values (?, ?)", self.values.items())
            base.execute("create table gone as select zeroblob(?) as value", (self.spare,))
            base.execute("drop table gone")
            base.commit()
            base.close()
            return File(data=path.read_bytes(), age=3000.0)

    def lost(self, probe: Probe, port: int, **how: Any) -> str:
        """Those that are not to be had as they were; empty when all are."""
        for key, value in self.values.items():
            got = probe.http(port, f"{RECORDS}/{key}", **how)
            if got.text != value:
                return f"record {key} is not to be had: {got.error or got.status}"
        return ""


def app(
    name: str,
    port: int,
    rows: Rows | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    code: str = "",
    command: str = "",
    about: str = "",
    **program: Any,
) -> Part:
    """An app. `code` is the text of its program where it is not the usual one."""
    own = {
        "PORT": port, "DATABASE": base_of(name), "LOG_FILE": log_of(name), "LOG_LEVEL": "info",
        "WORKERS": 2, **(settings or {}),
    }  # fmt: skip
    path = f"{HOME}/{name}/app.py"
    files = {
        path: File(code or program_text("cabinet.py"), mode=0o755, age=MONTH),
        env_of(name): File(env_text(own), mode=0o640, age=MONTH),
    }
    if rows is not None:
        files[str(own["DATABASE"])] = rows.file()
    made: dict[str, Any] = {"ready": f"tcp:{port}", "directory": f"{HOME}/{name}", **program}
    folders = {str(own[key]).rpartition("/")[0]: 0o755 for key in ("DATABASE", "LOG_FILE")}
    return Part(
        Program(
            name=name,
            command=command or f"python3 {path} {env_of(name)}",
            about=about or f"app in {HOME}/{name}, settings {env_of(name)}, log {own['LOG_FILE']}",
            **made,
        ),
        files,
        folders,
    )


def program(more: str) -> str:
    """The text of an app with something of its own, which ends with how it is run."""
    usual, found, _ = program_text("cabinet.py").partition('\nif __name__ == "__main__":')
    if not found:
        raise ValueError("the program of an app does not end as it should")
    return usual + more


def weeks_ago(name: str, pick: Pick, lines: int = 36, path: str = "") -> dict[str, File]:
    """The log of an app up to last week, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    said = []
    for number in range(lines):
        day = f"2026-{1 + number * 9 // lines:02}-{random.randint(1, 28):02}"
        clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"
        head = f"[{day} {clock} +0000] [{random.randint(90, 900)}]"
        if random.random() < 0.2:
            text = random.choice(BYGONE).format(random.randint(100, 999))
            said.append(f"{head} [ERROR] {text}\n")
        else:
            said.append(f"{head} [INFO] booting worker with pid: {random.randint(90, 900)}\n")
    return {path or log_of(name): File("".join(said))}


def lately(path: str, lines: Mapping[int, str]) -> tuple[str, ...]:
    """Lines of a log of so many seconds ago; `{}` is the time, as an app writes it."""
    made = []
    for ago, text in sorted(lines.items(), reverse=True):
        head, found, rest = text.partition("{}")
        stamp = f"\"$(date -u -d '-{ago} sec' '+%F %T')\"" if found else ""
        made.append(f"echo {quote(head)}{stamp}{quote(rest)} >> {path}")
    return tuple(made)


def is_up(name: str, port: int, scheme: str = "http", more: str = "") -> WatchedCheck:
    """The uptime check of the account: its page says OK."""
    run = f"curl -sS -m 3 {more} {scheme}://127.0.0.1:{port}/up".replace("  ", " ")
    return WatchedCheck(f"{name} up", Check(run, Expect(output="^OK"), timeout=8.0), name,
                        severity="P1")  # fmt: skip


def saves(probe: Probe, *ports: int, **how: Any) -> str:
    """Why one of them does not save what it is given; empty when all do."""
    for port in ports:
        if said := probe.keeps(port, RECORDS, **how):
            return said
    return ""
