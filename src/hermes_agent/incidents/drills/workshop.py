"""A workshop: a small shop that runs its own programs from the home of `deploy`, with
settings in `.env` files, records in SQLite and logs as Gunicorn writes them."""

import json
import secrets
import sqlite3
import time
from collections.abc import Mapping
from random import Random
from shlex import quote
from typing import Any

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, program_text
from hermes_agent.incidents.drills.world import File, Program

HOME = "/home/deploy"
APPS = f"{HOME}/apps"
DEPLOYS = f"{HOME}/logs/deploy.log"
RECORDS = "/api/records"
PAST = (
    "Error handling request /api/records: database is locked",
    "Connection in use: ('127.0.0.1', 8000): Address already in use",
    "Worker timeout (pid:{})",
    "Error handling request /health: [Errno 28] No space left on device",
    "Worker (pid:{}) was sent SIGKILL! Perhaps out of memory?",
    "[Errno 13] Permission denied: '/home/deploy/logs/old.log'",
)
"""What is in old logs, and over."""


def env_of(name: str) -> str:
    return f"{APPS}/{name}/.env"


def start_of(name: str) -> str:
    return f"{APPS}/{name}/bin/start"


def code_of(name: str) -> str:
    return f"{APPS}/{name}/app/main.py"


def log_of(name: str) -> str:
    return f"{HOME}/logs/{name}.log"


def base_of(name: str) -> str:
    return f"{HOME}/data/{name}.sqlite3"


def entry_of(name: str) -> str:
    return f"/etc/supervisor/conf.d/{name}.conf"


def env(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def app(
    name: str,
    port: int,
    settings: Mapping[str, object] | None = None,
    *,
    rows: Mapping[str, str] | None = None,
    code: str = "",
    text: str = "",
    python: str = "python3",
    **program: Any,
) -> Part:
    """The service for records. `code` is where its program lies when that is made elsewhere, `text`
    the program where it is not the usual one."""
    own: dict[str, object] = {
        "PORT": port, "DATABASE": base_of(name), "LOG_FILE": log_of(name), **(settings or {}),
    }  # fmt: skip
    where = str(own["LOG_FILE"]) or f"/var/log/supervisor/{name}.log"
    start = (
        f"#!/bin/bash\nset -a\n. {env_of(name)}\nset +a\nexec {python} {code or code_of(name)}\n"
    )
    made: dict[str, Any] = {
        "ready": f"tcp:{port}", "directory": f"{APPS}/{name}",
        "about": f"records over HTTP at port {port}; settings {env_of(name)}, "
        f"database {own['DATABASE']}, log {where}", **program,
    }  # fmt: skip
    usual = {} if code else {code_of(name): File(text or program_text("records.py"), age=MONTH)}
    return Part(
        Program(name=name, command=start_of(name), **made),
        {
            **usual,
            start_of(name): File(start, mode=0o755, age=MONTH),
            env_of(name): File(env(own), mode=0o640, age=MONTH),
            base_of(name): File(data=base(rows or {}), mode=0o640),
        },
        {f"{HOME}/logs": 0o755, f"{HOME}/data": 0o755},
    )


def worker(name: str, spool: str, settings: Mapping[str, object] | None = None, **how: Any) -> Part:
    """Does the tasks of a spool."""
    own = {"SPOOL": spool, "LOG_FILE": log_of(name), **(settings or {})}
    code = f"{APPS}/{name}/app/intake.py"
    start = f"#!/bin/bash\nset -a\n. {env_of(name)}\nset +a\nexec python3 {code}\n"
    made: dict[str, Any] = {
        "about": f"does the tasks of {spool}; settings {env_of(name)}, log {log_of(name)}", **how,
    }  # fmt: skip
    return Part(
        Program(name=name, command=start_of(name), directory=f"{APPS}/{name}", **made),
        {
            code: File(program_text("intake.py"), age=MONTH),
            start_of(name): File(start, mode=0o755, age=MONTH),
            env_of(name): File(env(own), mode=0o640, age=MONTH),
        },
        {f"{HOME}/logs": 0o755, f"{spool}/inbox": 0o755, f"{spool}/done": 0o755},
    )


def nginx(sites: Mapping[str, str], needs: tuple[str, ...], ready: int, **program: Any) -> Part:
    """Kept by the supervisor under a command line that names its configuration."""
    made = tiers.nginx(sites, needs, ready)
    command = "nginx -c /etc/nginx/nginx.conf"
    return replace(made, program=replace(made.program, command=command, **program))


def site(port: int, target: int, more: str = "") -> str:
    """A site of nginx that hands everything to a service."""
    return f"""server {{
    listen 127.0.0.1:{port};
{more}
    location / {{
        proxy_pass http://127.0.0.1:{target};
        proxy_set_header X-Forwarded-For $remote_addr;
    }}
}}
"""


def program(*changes: tuple[str, str]) -> str:
    """The service's program with some of its lines changed."""
    text = program_text("records.py")
    for was, now in changes:
        if was not in text:
            raise ValueError(f"the program has no {was!r}")
        text = text.replace(was, now)
    return text


def rows(pick: Pick, count: int = 8) -> dict[str, str]:
    """Records that people have kept for long."""
    return {f"rec-{pick.token(6)}": pick.token(30) for _ in range(count)}


def base(kept: Mapping[str, str]) -> bytes:
    """A database file with records."""
    made = sqlite3.connect(":memory:")
    made.execute("create table records (key text primary key, body text not null, changed real)")
    values = [(key, body, 1.75e9 + number) for number, (key, body) in enumerate(kept.items())]
    made.executemany("insert into records values (?, ?, ?)", values)
    made.commit()
    return made.serialize()


def ask(probe: Probe, path: str, sql: str) -> list[Any]:
    """What a query of a database file of the box comes to; nothing where it is none."""
    looked = sqlite3.connect(":memory:")
    try:
        looked.deserialize(probe.read(path) or b"")
        return looked.execute(sql).fetchall()
    except sqlite3.Error:
        return []
    finally:
        looked.close()


def lost(probe: Probe, path: str, kept: Mapping[str, str]) -> str:
    """Which records are not in a database as they were; empty when all are."""
    found = dict(ask(probe, path, "select key, body from records"))
    gone = [key for key, body in kept.items() if found.get(key) != body]
    return f"{path} has lost {', '.join(gone)}" if gone else ""


def keeps(probe: Probe, *ports: int) -> str:
    """Why one of them does not keep what it is given; empty when all do."""
    return next((said for port in ports if (said := probe.keeps(port, RECORDS))), "")


def minded(probe: Probe, name: str, top: str = APPS) -> str:
    """Why it is not the supervisor who runs it, and runs it alone; empty when it is."""
    ours = [one for one in probe.processes() if f"{top}/{name}/" in one.command]
    alone = len([one for one in ours if one.name.startswith(("python", "nginx", "postgres"))]) == 1
    kept = alone and parts.supervised(probe, name, top)
    return "" if kept else f"{name} is not kept by the supervisor"


def history(name: str, pick: Pick, lines: int = 30) -> dict[str, File]:
    """The log of a service up to weeks ago, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    told = []
    for number in range(lines):
        day = f"2026-{1 + number * 9 // lines:02}-{random.randint(1, 28):02}"
        stamp = f"[{day} {random.randint(0, 23):02}:{random.randint(0, 59):02}:07 +0000]"
        pid = random.randint(20, 900)
        level, text = "INFO", "Listening at: http://127.0.0.1"
        if random.random() < 0.25:
            level, text = "ERROR", random.choice(PAST).format(pid)
        told.append(f"{stamp} [{pid}] [{level}] {text}\n")
    return {log_of(name): File("".join(told))}


def noted(text: str, days: int = 0) -> str:
    """A command that writes a line into the log of deployments, as of so many days ago."""
    return f"echo \"$(date -d '-{days} days' '+%F %T')\" {quote(text)} >> {DEPLOYS}"


def up(service: str, port: int) -> WatchedCheck:
    run = f"curl -sS -m 3 http://127.0.0.1:{port}/health"
    check = Check(run, Expect(output='"status": "ok"'), timeout=6.0)
    return WatchedCheck(f"{service} health", check, service, severity="P1")


def reads(service: str, port: int, kept: Mapping[str, str]) -> WatchedCheck:
    """The check of whoever uses it: a record of long ago is to be had."""
    key, body = next(iter(kept.items()))
    run = f"curl -sS -m 3 -w ' (%{{http_code}})' http://127.0.0.1:{port}{RECORDS}/{key}"
    check = Check(run, Expect(output=body), timeout=6.0)
    return WatchedCheck(f"{service} reads", check, service, severity="P1")


def works(service: str, port: int) -> WatchedCheck:
    """The check of whoever hands in tasks: one is done within seconds."""
    url = f"http://127.0.0.1:{port}/api/tasks"
    task = '{"lines": [{"item": "test", "count": 3, "price": 14}]}'
    run = (
        f"t=probe-$(date +%s%N); curl -sS -m 2 -X PUT --data '{task}' {url}/$t; "
        f"for i in 1 2 3 4 5 6 7 8; do sleep 0.25; curl -fsS -m 1 {url}/$t 2>/dev/null && exit; "
        "done; echo no result after 2 s; exit 1"
    )
    check = Check(run, Expect(output='"total": 42'), timeout=8.0)
    return WatchedCheck(f"{service} tasks", check, service, severity="P1")


def does(probe: Probe, port: int) -> str:
    """Hand in a task; why its result is not right, or empty."""
    key, count, price = f"t{secrets.token_hex(5)}", secrets.randbelow(90) + 2, 17
    body = json.dumps({"lines": [{"item": key, "count": count, "price": price}]}).encode()
    probe.http(port, f"/api/tasks/{key}", "PUT", body)
    until = time.monotonic() + 1.2
    while time.monotonic() < until:
        reply = probe.http(port, f"/api/tasks/{key}")
        if reply.status == 200:
            return "" if f'"total": {count * price}}}' in reply.text else f"task {key} is wrong"
        time.sleep(0.1)
    return f"task {key} is not done"
