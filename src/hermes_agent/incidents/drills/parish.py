"""A parish office: binders of papers below /srv/papers, set up by an agency with one directive in
each line below /etc/parish, and logs as Apache writes them. Parts of such worlds."""

from collections.abc import Mapping
from random import Random
from typing import Any

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, program_text
from hermes_agent.incidents.drills.world import File, Program

PAPERS = "/papers"
STORE = "/srv/papers"
CODE = "/opt/parish"
FORMER = (
    "(28)No space left on device: could not file {}/.letter.new",
    "(24)Too many open files: accept",
    "(98)Address already in use: could not bind 127.0.0.1:8080",
    "(13)Permission denied: could not read register",
    "127.0.0.1: ConnectionResetError(104, 'Connection reset by peer')",
    "127.0.0.1: MemoryError()",
)
"""What logs of other months say."""


def settings_of(name: str) -> str:
    return f"/etc/parish/{name}.cfg"


def log_of(name: str) -> str:
    return f"/var/log/parish/{name}-error.log"


def store_of(name: str) -> str:
    return f"{STORE}/{name}"


def code_of(name: str) -> str:
    return f"{CODE}/{name}/binderd.py"


def directives(settings: Mapping[str, object]) -> str:
    lines = "".join(f"{name} {value}\n" for name, value in settings.items())
    return f"# see the handbook before changing anything\n{lines}"


def binder(
    name: str,
    port: int,
    settings: Mapping[str, object] | None = None,
    *,
    code: str = "",
    about: str = "",
    **program: Any,
) -> Part:
    """A binder. `code` is the text of its program where it is not the usual one."""
    own: dict[str, object] = {
        "ServerName": name, "Listen": f"127.0.0.1:{port}", "StoreRoot": store_of(name),
        "ErrorLog": log_of(name), **(settings or {}),
    }  # fmt: skip
    made: dict[str, Any] = {"ready": f"tcp:{port}", "directory": f"{CODE}/{name}", **program}
    folders = {str(own[key]): 0o755 for key in ("StoreRoot", "UploadRoot") if key in own}
    return Part(
        Program(
            name=name,
            command=f"python3 {code_of(name)} {settings_of(name)}",
            about=about
            or f"papers in {own['StoreRoot']}; settings {settings_of(name)}, log {log_of(name)}",
            **made,
        ),
        {
            code_of(name): File(code or program_text("binder.py"), mode=0o755, age=MONTH),
            settings_of(name): File(directives(own), age=MONTH),
        },
        {**folders, "/var/log/parish": 0o755},
    )


def helper(
    name: str, text: str, settings: Mapping[str, object], about: str, **program: Any
) -> Part:
    """Another program of the office, with its settings."""
    code = f"{CODE}/{name}/{name}.py"
    nice = program.pop("nice", 0)
    run = f"python3 {code} {settings_of(name)}"
    return Part(
        Program(
            name=name,
            command=f"nice -n {nice} {run}" if nice else run,
            directory=f"{CODE}/{name}",
            about=f"{about}; settings {settings_of(name)}",
            **program,
        ),
        {
            code: File(text, age=MONTH),
            settings_of(name): File(directives(settings), age=MONTH),
        },
    )


def program(more: str) -> str:
    """The text of a binder with something of its own, which ends with how it is run."""
    usual, found, _ = program_text("binder.py").partition('\nif __name__ == "__main__":')
    if not found:
        raise ValueError("the program of a binder does not end as it should")
    return usual + more


def papers(name: str, pick: Pick, count: int = 10, below: str = "") -> dict[str, File]:
    """What has been filed for long."""
    folder = f"{store_of(name)}/{below}".rstrip("/")
    return {
        f"{folder}/{pick.choice(('letter', 'deed', 'minutes'))}-{pick.token(6)}": File(
            f"{pick.token(30)}\n" * 3, age=MONTH
        )
        for _ in range(count)
    }


def former(name: str, pick: Pick, lines: int = 28) -> dict[str, File]:
    """The log of a binder of other months, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    said = []
    for number in range(lines):
        day = (
            f"{('Jan', 'Mar', 'Apr', 'Jun', 'Sep')[number * 5 // lines]} {random.randint(1, 28):02}"
        )
        clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"
        head = f"[Tue {day} {clock}.{random.randint(0, 10**6 - 1):06} 2026]"
        bad = random.random() < 0.25
        text = random.choice(FORMER).format(store_of(name)) if bad else "binderd configured"
        level, pid = "error" if bad else "notice", random.randint(200, 900)
        said.append(f"{head} [binder:{level}] [pid {pid}] {text}\n")
    return {log_of(name): File("".join(said))}


def ready(service: str, port: int) -> WatchedCheck:
    """The check of whoever runs it: its status page."""
    run = f"curl -sS -m 3 http://127.0.0.1:{port}/server-status"
    check = Check(run, Expect(output="Status: ready"), timeout=8.0)
    return WatchedCheck(f"{service} server-status", check, service, severity="P1")


def takes(service: str, port: int) -> WatchedCheck:
    """The check of whoever uses it: a paper is filed."""
    run = (
        f"curl -sS -m 3 -X PUT -d 'just looking' http://127.0.0.1:{port}{PAPERS}/look-$(date +%s%N)"
    )
    check = Check(run, Expect(output="^filed"), timeout=8.0)
    return WatchedCheck(f"{service} takes papers", check, service, severity="P1")


def files(probe: Probe, *ports: int, **how: Any) -> str:
    """Why one of them does not file what it is given; empty when all do."""
    for port in ports:
        if said := probe.keeps(port, PAPERS, **how):
            return said
    return ""
