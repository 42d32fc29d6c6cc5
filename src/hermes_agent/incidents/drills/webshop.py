"""How small web shops have it: apps below /var/www with a link to the release that runs,
settings in .env, one log for each app, nginx in front. Parts of such worlds."""

from collections.abc import Mapping
from random import Random
from typing import Any

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, program_text
from hermes_agent.incidents.drills.world import File, Program

RECORDS = "/api/records"
TOP = "/var/www"
OVER = (
    "GET /up: [Errno 28] No space left on device",
    "accept: [Errno 24] Too many open files",
    "PUT /api/records/a: backend http://10.0.3.4:8000: timed out",
    "GET /up: database error: FATAL:  the database system is starting up",
    "GET /up: database error: FATAL:  sorry, too many clients already",
    "GET /up: backend http://images:8000: [Errno -3] Temporary failure in name resolution",
)
"""What logs of other weeks say."""


def env_of(name: str) -> str:
    return f"{TOP}/{name}/shared/.env"


def log_of(name: str) -> str:
    return f"{TOP}/{name}/shared/log/production.log"


def data_of(name: str) -> str:
    return f"{TOP}/{name}/shared/data"


def dotenv(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def app(
    name: str,
    port: int,
    settings: Mapping[str, object] | None = None,
    *,
    address: str = "127.0.0.1",
    release: str = "20260914",
    about: str = "",
    **program: Any,
) -> Part:
    """An app that has records; what is special of its program goes on top."""
    own: dict[str, object] = {
        "APP_NAME": name,
        "LISTEN": f"{address}:{port}",
        "LOG_FILE": log_of(name),
    }
    if not {"BACKEND_URL", "DATABASE_URL"} & set(settings or {}):
        own["DATA_DIR"] = data_of(name)
    own |= settings or {}
    home = f"{TOP}/{name}"
    local = address == "127.0.0.1"
    made: dict[str, Any] = {
        "ready": f"tcp:{port}" if local else f"file:{log_of(name)}",
        "directory": f"{home}/shared",
        **program,
    }
    return Part(
        Program(
            name=name,
            command=f"python3 {home}/current/clerk.py {env_of(name)}",
            about=about or f"app in {home}/current, settings {env_of(name)}, log {log_of(name)}",
            **made,
        ),
        {
            f"{home}/current": File(link=f"releases/{release}"),
            f"{home}/releases/{release}/clerk.py": File(program_text("clerk.py"), age=MONTH),
            f"{home}/releases/{release}/pgline.py": File(program_text("pgline.py"), age=MONTH),
            env_of(name): File(dotenv(own), age=MONTH),
        },
        {data_of(name): 0o755, f"{home}/shared/log": 0o755},
    )


def records(name: str, pick: Pick, count: int = 8) -> dict[str, File]:
    """Records of long ago."""
    return {
        f"{data_of(name)}/r-{pick.token(8)}": File(f"{pick.token(24)}\n" * 3, age=MONTH)
        for _ in range(count)
    }


def weeks_ago(name: str, pick: Pick, lines: int = 24) -> dict[str, File]:
    """The log of an app of other weeks, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    said = []
    for number in range(lines):
        day = f"2026-{1 + number * 9 // lines:02}-{random.randint(1, 28):02}"
        stamp = f"{day} {random.randint(0, 23):02}:{random.randint(0, 59):02}:07 +0000"
        bad = random.random() < 0.2
        text = random.choice(OVER) if bad else f"{name} listening"
        level = "ERROR" if bad else "INFO"
        said.append(f"[{stamp}] [{random.randint(300, 900)}] [{level}] {text}\n")
    return {log_of(name): File("".join(said))}


def up(service: str, port: int, *, path: str = "/up", word: str = "OK") -> WatchedCheck:
    """The check of whoever runs it."""
    run = f"curl -sS -m 3 -w 'HTTP %{{http_code}}' http://127.0.0.1:{port}{path}"
    check = Check(run, Expect(output=word), timeout=8.0)
    return WatchedCheck(f"{service} is up", check, service, severity="P1")


def serves(probe: Probe, *ports: int, **how: Any) -> str:
    """Why one of them does not keep records; empty when all do."""
    for port in ports:
        if found := probe.keeps(port, RECORDS, **how):
            return found
    return ""


def site(port: int, target: str, *, top: str = "", inside: str = "") -> str:
    """A site of nginx that hands on to an app."""
    return f"""{top}server {{
    listen 127.0.0.1:{port};
    location / {{
        proxy_pass {target};
{inside}    }}
}}
"""


class Store:
    """A database of PostgreSQL with a table of records."""

    COUNT = 25

    def __init__(self, pick: Pick, owner: str, port: int) -> None:
        self.port = port
        self.name = f"{owner}_production"
        self.table = pick.choice(("bookings", "members", "parts", "entries"))
        self.url = f"postgres://app@127.0.0.1:{port}/{self.name}"
        self.psql = f"psql -X -h 127.0.0.1 -p {port} -U postgres -d {self.name}"

    def server(self, *sql: str, **settings: object) -> Part:
        rows = (
            f"select 'old-' || n, md5('{self.name}' || n) from generate_series(1, {self.COUNT}) n"
        )
        prepared = [
            f"create table {self.table} (key text primary key, body text)",
            f"insert into {self.table} {rows}",
            *sql,
        ]
        return database.postgres(self.port, self.name, prepared, **settings)

    def used_by(self, **settings: object) -> dict[str, object]:
        """Settings of an app that has its records there."""
        return {"DATABASE_URL": self.url, "DATABASE_TABLE": self.table, **settings}

    def ask(self, probe: Probe, sql: str) -> str:
        return database.ask(probe, self.port, self.name, sql)

    def lost(self, probe: Probe) -> str:
        """What became of the old records; empty when all are there."""
        right = f"body = md5('{self.name}' || substr(key, 5))"
        sql = f"select count(*) from {self.table} where key like 'old-%' and {right}"
        found = self.ask(probe, sql)
        return "" if found == str(self.COUNT) else f"old records in {self.table}: {found}"
