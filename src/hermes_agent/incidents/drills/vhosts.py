"""Vhosts: sites of several customers on one server, each below /srv/vhosts with its own conf, logs
and var, settings in INI files, logs as Apache writes them. Parts of such worlds."""

from collections.abc import Mapping
from random import Random
from typing import Any

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, program_text
from hermes_agent.incidents.drills.world import File, Program

TOP = "/srv/vhosts"
PAGES = "/pages"
LONG_PAST = (
    "PUT /pages/start: [Errno 28] No space left on device",
    "GET /pages/start: https://partner.example/pages/start: timed out",
    "GET /pages/news: database: FATAL:  the database system is shutting down",
    "PUT /pages/news: [Errno 13] Permission denied",
    "GET /pages/start: [Errno 24] Too many open files",
)
"""What logs of other months say."""


def conf_of(name: str) -> str:
    return f"{TOP}/{name}/conf/site.ini"


def log_of(name: str) -> str:
    return f"{TOP}/{name}/logs/error_log"


def var_of(name: str) -> str:
    return f"{TOP}/{name}/var"


def ini(sections: Mapping[str, Mapping[str, object]]) -> str:
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in pairs.items())
        for name, pairs in sections.items()
    )


def site(
    name: str,
    port: int,
    pages: Mapping[str, object] | None = None,
    more: Mapping[str, Mapping[str, object]] | None = None,
    **program: Any,
) -> Part:
    """A site with its pages: files of its own, unless `pages` says otherwise."""
    own: dict[str, Mapping[str, object]] = {
        "site": {"name": name, "listen": f"127.0.0.1:{port}", "error_log": log_of(name)},
        "pages": pages or {"kind": "files", "dir": f"{var_of(name)}/pages"},
        **(more or {}),
    }
    app = f"{TOP}/{name}/app"
    made: dict[str, Any] = {
        "ready": f"tcp:{port}", "directory": f"{TOP}/{name}",
        "about": f"site below {TOP}/{name}: settings {conf_of(name)}, log {log_of(name)}",
        **program,
    }  # fmt: skip
    return Part(
        Program(name=name, command=f"python3 {app}/folio.py {conf_of(name)}", **made),
        {
            f"{app}/folio.py": File(program_text("folio.py"), age=MONTH),
            f"{app}/pgline.py": File(program_text("pgline.py"), age=MONTH),
            conf_of(name): File(ini(own), mode=0o640, age=MONTH),
        },
        {f"{TOP}/{name}/logs": 0o755, f"{var_of(name)}/pages": 0o755},
    )


def pages(name: str, pick: Pick, count: int = 8) -> dict[str, File]:
    """Pages that the customer wrote long ago."""
    return {
        f"{var_of(name)}/pages/p{pick.token(7)}": File(f"<p>{pick.token(30)}</p>\n", age=MONTH)
        for _ in range(count)
    }


def months_ago(name: str, pick: Pick, lines: int = 26) -> dict[str, File]:
    """The log of a site of other months, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    told = []
    for number in range(lines):
        month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep")[number * 9 // lines]
        stamp = f"{month} {random.randint(1, 28):02} {random.randint(0, 23):02}:12:44.081532 2026"
        day = random.choice(("Mon", "Tue", "Thu", "Sat"))
        bad = random.random() < 0.25
        text = (
            f"[client 127.0.0.1] {random.choice(LONG_PAST)}" if bad else f"{name} is at 127.0.0.1"
        )
        level = "error" if bad else "notice"
        told.append(f"[{day} {stamp}] [folio:{level}] [pid {random.randint(40, 900)}] {text}\n")
    return {log_of(name): File("".join(told))}


def sound(name: str, port: int) -> WatchedCheck:
    """The check of the host: the site says that it is healthy."""
    run = f"curl -sS -m 4 -w '%{{http_code}}' http://127.0.0.1:{port}/healthcheck"
    check = Check(run, Expect(output="^healthy"), timeout=8.0)
    return WatchedCheck(f"{name} healthcheck", check, name, severity="P1")


def writes(probe: Probe, *ports: int, **how: Any) -> str:
    """Why one of them does not keep pages; empty when all do."""
    return next((told for port in ports if (told := probe.keeps(port, PAGES, **how))), "")
