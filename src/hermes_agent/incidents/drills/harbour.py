"""A harbour: apps for parcels below /data, each with a file of properties, logs as Spring Boot
writes them, and health pages that say UP or DOWN. Parts of such worlds."""

from collections.abc import Mapping
from random import Random
from typing import Any

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.tiers import MONTH, Part, program_text
from hermes_agent.incidents.drills.webshop import Store
from hermes_agent.incidents.drills.world import File, Program

PARCELS = "/parcels"
PASSED = (
    "HikariPool-1 - Connection is not available, request timed out after 1500ms.",
    "PSQLException: FATAL:  sorry, too many clients already",
    'I/O error on GET request for "http://10.1.4.8:8080": timed out',
    "UnknownHostException: tariffs.internal",
    "OSError: [Errno 28] No space left on device",
    "PSQLException: ERROR:  canceling statement due to statement timeout",
)
"""What logs of other weeks say."""


def home_of(name: str) -> str:
    return f"/data/{name}"


def settings_of(name: str) -> str:
    return f"/data/{name}/config/application.properties"


def log_of(name: str) -> str:
    return f"/data/{name}/logs/application.log"


def app(
    name: str,
    port: int,
    settings: Mapping[str, object] | None = None,
    *,
    address: str = "127.0.0.1",
    about: str = "",
    text: str = "",
    **program: Any,
) -> Part:
    """An app; what is special of its program goes on top. `text` is the program where it is not the
    usual one."""
    own: dict[str, object] = {
        "spring.application.name": name, "server.address": address, "server.port": port,
        "logging.file.name": log_of(name),
    }  # fmt: skip
    if not {"parcels.remote.url", "spring.datasource.url"} & set(settings or {}):
        own["parcels.dir"] = f"/data/{name}/parcels"
    own |= settings or {}
    code = f"/data/{name}/app/parcels.py"
    made: dict[str, Any] = {
        "ready": f"tcp:{port}" if address == "127.0.0.1" else f"file:{log_of(name)}",
        "directory": f"/data/{name}", **program,
    }  # fmt: skip
    return Part(
        Program(
            name=name,
            command=f"python3 {code} {settings_of(name)}",
            about=about or f"settings {settings_of(name)}, log {log_of(name)}",
            **made,
        ),
        {
            code: File(text or program_text("parcels.py"), age=MONTH),
            f"/data/{name}/app/pgline.py": File(program_text("pgline.py"), age=MONTH),
            settings_of(name): File("".join(f"{k}={v}\n" for k, v in own.items()), age=MONTH),
        },
        {f"/data/{name}/parcels": 0o755, f"/data/{name}/logs": 0o755},
    )


def program(more: str) -> str:
    """The text of an app with something of its own, which ends with how it is run."""
    usual, found, _ = program_text("parcels.py").partition('\nif __name__ == "__main__":')
    if not found:
        raise ValueError("the program of an app does not end as it should")
    return usual + more


def in_base(store: Store, **settings: object) -> dict[str, object]:
    """Settings of an app whose parcels are in PostgreSQL."""
    return {
        "spring.datasource.url": f"jdbc:{store.url.replace('postgres:', 'postgresql:')}",
        "spring.datasource.table": store.table,
        **settings,
    }


def parcels(name: str, pick: Pick, count: int = 8) -> dict[str, File]:
    """Parcels of long ago."""
    return {
        f"/data/{name}/parcels/p-{pick.token(8)}": File(f"{pick.token(30)}\n", age=MONTH)
        for _ in range(count)
    }


def weeks_ago(name: str, pick: Pick, lines: int = 26) -> dict[str, File]:
    """The log of an app of other weeks, with trouble that is over."""
    random = Random(pick.size(1, 10**9))
    told = []
    for number in range(lines):
        day = f"2026-{1 + number * 9 // lines:02}-{random.randint(1, 28):02}"
        clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:11"
        stamp = f"{day} {clock}.{random.randint(100, 999)}"
        bad = random.random() < 0.2
        level, logger = ("ERROR", "c.h.parcels.ParcelController") if bad else ("INFO", "c.h.App")
        text = random.choice(PASSED) if bad else f"Started {name}"
        thread = f"(process_req{random.randint(1, 9)})"[-12:]
        told.append(f"{stamp} {level:>5} {random.randint(30, 900)} --- [{thread:>12}] "
                    f"{logger:<28} : {text}\n")  # fmt: skip
    return {log_of(name): File("".join(told))}


def health(service: str, port: int, name: str = "") -> WatchedCheck:
    """The check of whoever runs it."""
    run = f"curl -sS -m 3 -w ' %{{http_code}}' http://127.0.0.1:{port}/actuator/health"
    check = Check(run, Expect(output='"status": "UP"'), timeout=8.0)
    return WatchedCheck(f"{name or service} health", check, service, severity="P1")


def stores(probe: Probe, *ports: int, **how: Any) -> str:
    """Why one of them does not store parcels; empty when all do."""
    return next((said for port in ports if (said := probe.keeps(port, PARCELS, **how))), "")


def late(probe: Probe, port: int, seconds: float = 1.0) -> str:
    reply = probe.http(port, "/actuator/health", timeout=seconds + 2.0)
    well = reply.status == 200 and reply.seconds <= seconds
    return "" if well else f"the health page of port {port}: {reply.status}, {reply.seconds:.1f} s"
