"""Another house, set up by other people: services below /opt with settings in TOML, notes
instead of items, logs in another form, nginx in front. Parts of such worlds."""

from collections.abc import Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, items, program_text
from hermes_agent.incidents.drills.world import File, Program

NOTES = "/v1/notes"
SETTLED = (
    "store {}: No space left on device",
    "cannot listen: Address already in use",
    "backend answered after 8.2 s",
    "all slots are in use",
    "name lookup failed: Temporary failure in name resolution",
    "state file is damaged: Expecting value",
    "hook: Permission denied",
)
"""What logs of other days say."""


def settings_of(name: str) -> str:
    return f"/opt/{name}/etc/{name}.toml"


def log_of(name: str) -> str:
    return f"/var/log/opt/{name}.log"


def store_of(name: str) -> str:
    return f"/var/opt/{name}/notes"


def toml(settings: Mapping[str, object]) -> str:
    lines = []
    for key, value in settings.items():
        text = f'"{value}"' if isinstance(value, str) else str(value).lower()
        lines.append(f"{key} = {text}\n" if not isinstance(value, list) else f"{key} = {value}\n")
    return "".join(lines)


def depot(
    name: str,
    port: int,
    settings: Mapping[str, object] | None = None,
    *,
    code: str = "",
    listen: str = "",
    command: str = "",
    about: str = "",
    **program: Any,
) -> Part:
    """A depot. `code` is the text of its program where it is not the usual one; what is special of
    its program goes on top."""
    own: dict[str, object] = {"listen": listen or f"127.0.0.1:{port}", "logfile": log_of(name)}
    if "backend" not in (settings or {}):
        own["store"] = store_of(name)
    own |= settings or {}
    path = f"/opt/{name}/bin/depotd.py"
    usual = f"python3 {path} {settings_of(name)}"
    made: dict[str, Any] = {
        "ready": f"tcp:{port}" if not listen else f"file:{log_of(name)}",
        "directory": f"/opt/{name}",
        **program,
    }
    return Part(
        Program(
            name=name,
            command=command or usual,
            about=about or f"depot for notes; settings {settings_of(name)}, log {log_of(name)}",
            **made,
        ),
        {
            path: File(code or program_text("depot.py"), mode=0o755, age=MONTH),
            settings_of(name): File(toml(own), age=MONTH),
        },
        {str(own.get("store", f"/var/opt/{name}")): 0o755, "/var/log/opt": 0o755},
    )


def program(more: str) -> str:
    """The text of a depot with something of its own, which ends with how it is run."""
    usual, found, _ = program_text("depot.py").partition('\nif __name__ == "__main__":')
    if not found:
        raise ValueError("the program of a depot does not end as it should")
    return usual + more


def notes(name: str, pick: Pick, count: int = 9, store: str = "") -> dict[str, File]:
    """Notes that people left long ago."""
    return {
        f"{store or store_of(name)}/note-{pick.token(7)}": File(
            f"{pick.token(20)}\n" * 5, age=MONTH
        )
        for _ in range(count)
    }


def days_ago(name: str, pick: Pick, lines: int = 30) -> dict[str, File]:
    """The log of a service up to some days ago, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    said = []
    for number in range(lines):
        day = f"2026-{1 + number * 9 // lines:02}-{random.randint(1, 28):02}"
        stamp = f"{day}T{random.randint(0, 23):02}:{random.randint(0, 59):02}:00Z"
        if random.random() < 0.2:
            text = random.choice(SETTLED).format(store_of(name))
            said.append(f'ts={stamp} level=error msg="{text}"\n')
        else:
            said.append(f'ts={stamp} level=info msg="stored note-{random.randint(100, 999)}"\n')
    return {log_of(name): File("".join(said))}


def passes(service: str, port: int, *, path: str = "/status") -> WatchedCheck:
    """The check of whoever runs it: its own status page says that it passes."""
    run = f"curl -sS -m 3 -w ' %{{http_code}}' http://127.0.0.1:{port}{path}"
    check = Check(run, Expect(output='"pass"'), timeout=8.0)
    return WatchedCheck(f"{service} status", check, service, severity="P1")


def fetches(service: str, port: int, path: str, text: str) -> WatchedCheck:
    """The check of whoever reads: a note of long ago is still to be had."""
    key = path.rpartition("/")[2]
    run = f"curl -sS -m 3 -w ' %{{http_code}}' http://127.0.0.1:{port}{NOTES}/{key}"
    check = Check(run, Expect(output=text.split(maxsplit=1)[0]), timeout=8.0)
    return WatchedCheck(f"{service} reads", check, service, severity="P1")


def stores(probe: Probe, *ports: int, **how: Any) -> str:
    """Why one of them does not store what it is given; empty when all do."""
    for port in ports:
        if said := probe.keeps(port, NOTES, **how):
            return said
    return ""


def proxy(port: int, target: str, *, more: str = "", inside: str = "") -> str:
    """A site of nginx that hands everything on."""
    return f"""server {{
    listen 127.0.0.1:{port};
{more}
    location / {{
        proxy_pass {target};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
{inside}
    }}
}}
"""


class Base:
    """A database of PostgreSQL with one table, in which rows have been for long."""

    ROWS = 30

    def __init__(self, pick: Pick, owner: str, port: int) -> None:
        self.port = port
        self.name = f"{owner}_{pick.token(3)}"
        self.table = pick.choice(("letters", "plots", "batches"))
        self.psql = f"psql -XAtq -h 127.0.0.1 -p {port} -U postgres {self.name}"

    def server(
        self,
        *sql: str,
        settings: Mapping[str, object] | None = None,
        autorestart: bool = True,
        start_seconds: int = 0,
    ) -> Part:
        """`sql` are further statements that prepare it."""
        rows = f"select 'row-' || n, md5('{self.name}' || n) from generate_series(1, {self.ROWS}) n"
        prepared = [
            f"create table {self.table} (key text primary key, value text)",
            f"insert into {self.table} {rows}",
            *sql,
        ]
        part = database.postgres(self.port, self.name, prepared, **(settings or {}))
        program = replace(part.program, autorestart=autorestart, start_seconds=start_seconds)
        return replace(part, program=program)

    def service(self, name: str, port: int, **settings: object) -> Part:
        """One that keeps its items there."""
        where = {"database": f"127.0.0.1:{self.port}/{self.name} app", "table": self.table}
        return items(name, port, {**where, **settings}, needs=[database.NAME])

    def session(self, name: str, sql: str, user: str = "postgres") -> str:
        """A command for somebody who says this and then only waits."""
        psql = self.psql.replace("-U postgres", f"-U {user}")
        return f"(echo '{sql}'; sleep 100000) | PGAPPNAME={name} {psql}"

    def ended(self, name: str) -> str:
        """A command that ends the sessions of somebody."""
        return (
            f'{self.psql} -c "select pg_terminate_backend(pid) from pg_stat_activity '
            f"where application_name = '{name}'\""
        )

    def ask(self, probe: Probe, sql: str) -> str:
        return database.ask(probe, self.port, self.name, sql)

    def lost(self, probe: Probe) -> str:
        """What became of the rows; empty when all are there."""
        sums = f"count(*) || ' ' || count(*) filter (where value = md5('{self.name}' || "
        query = f"select {sums} substr(key, 5))) from {self.table} where key like 'row-%'"
        found = self.ask(probe, query)
        return "" if found == f"{self.ROWS} {self.ROWS}" else f"rows of {self.table}: {found}"
