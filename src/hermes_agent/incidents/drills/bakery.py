"""A bakery: counters that take orders, one program for all of them, each with a file of directives
below /etc/bakery, a journal below /var/bakery and a log as Redis writes it. Parts of such
worlds."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, program_text
from hermes_agent.incidents.drills.world import File, Program

TOP = "/etc/bakery"
CODE = "/opt/bakery/lib/counter.py"
ORDERS = "/orders"
STORED = "/var/bakery"
PAST = (
    "Order refused: [Errno 28] No space left on device: '/var/bakery/{}/orders.journal'",
    "Could not create listening socket 127.0.0.1:9001: bind: Address already in use",
    "Order refused: [Errno 13] Permission denied: '/var/bakery/{}/orders.journal'",
    "Journal /var/bakery/{}/orders.journal is in use by 4711@till-2",
)
"""What logs of other months say."""


def conf_of(name: str) -> str:
    return f"{TOP}/{name}/counter.conf"


def journal_of(name: str) -> str:
    return f"{STORED}/{name}/orders.journal"


def log_of(name: str) -> str:
    return f"/var/log/bakery/{name}.log"


def entry_of(name: str) -> str:
    return f"/etc/supervisor/conf.d/{name}.conf"


def counter(
    name: str,
    port: int,
    kept: Mapping[str, str] | None = None,
    settings: Mapping[str, object] | None = None,
    **program: Any,
) -> Part:
    """A counter with the orders that it has had for long."""
    own: dict[str, object] = {
        "listen": f"127.0.0.1:{port}", "journal": journal_of(name), "logfile": log_of(name),
        "daemonize": "no", **(settings or {}),
    }  # fmt: skip
    rows = [json.dumps({"order": key, "text": text}) for key, text in (kept or {}).items()]
    text = "".join(f"{key} {value}\n" for key, value in own.items())
    made: dict[str, Any] = {
        "ready": f"tcp:{port}",
        "about": f"takes orders; {conf_of(name)}, log {log_of(name)}",
        "start_seconds": 3, **program,
    }  # fmt: skip
    return Part(
        Program(name=name, command=f"python3 {CODE} {conf_of(name)}", **made),
        {
            CODE: File(program_text("counter.py"), mode=0o755, age=MONTH),
            conf_of(name): File(f"# counter {name}\n{text}", age=MONTH),
            journal_of(name): File("".join(f"{row}\n" for row in rows), age=3000.0),
        },
        {f"{STORED}/{name}": 0o755, "/var/log/bakery": 0o755},
    )


def orders(pick: Pick, count: int = 9) -> dict[str, str]:
    """Orders that people have placed."""
    return {f"{pick.size(10000, 99999)}-{pick.token(3)}": pick.token(22) for _ in range(count)}


def months_ago(name: str, pick: Pick, lines: int = 26) -> dict[str, File]:
    """The log of a counter of other months, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    told = []
    for number in range(lines):
        month = ("Feb", "Mar", "May", "Jun", "Jul", "Aug", "Sep", "Oct")[number * 8 // lines]
        clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"
        head = f"{random.randint(20, 900)}:C {random.randint(1, 28):02} {month} 2026 {clock}.204"
        bad = random.random() < 0.2
        text = random.choice(PAST).format(name) if bad else "Ready to take orders"
        told.append(f"{head} {'#' if bad else '*'} {text}\n")
    return {log_of(name): File("".join(told))}


def is_open(name: str, port: int) -> WatchedCheck:
    """The check of the shop: the counter says that it is open."""
    run = f"curl -sS -m 3 http://127.0.0.1:{port}/health"
    check = Check(run, Expect(output='"state": "open"'), timeout=6.0)
    return WatchedCheck(f"{name} open", check, name, severity="P1")


def takes(probe: Probe, *ports: int) -> str:
    """Why one of them does not take orders; empty when all do."""
    return next((said for port in ports if (said := probe.keeps(port, ORDERS))), "")


def lost(probe: Probe, port: int, kept: Mapping[str, str]) -> str:
    """Which of the old orders cannot be looked up; empty when all can."""
    for number, text in kept.items():
        if probe.http(port, f"{ORDERS}/{number}").text != text:
            return f"order {number} cannot be looked up"
    return ""


def minded(probe: Probe, name: str) -> str:
    """Why it is not the supervisor who runs it, and runs it alone; empty when it is."""
    ours = [one for one in probe.processes() if f"{TOP}/{name}/" in one.command]
    kept = len(ours) == 1 and parts.supervised(probe, name, TOP)
    return "" if kept else f"{name} is not kept by the supervisor"
