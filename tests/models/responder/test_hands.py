"""Who asks another by far more hands than that one has."""

from typing import Any

import pytest

from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rules import reach
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

NAMES = {"till": 7, "vault": 8, "nightly": 9}
ENTRIES = "\n".join(
    f"==> /etc/supervisor/conf.d/{name}.conf <==\n[program:{name}]\n"
    f"command=python3 /opt/{name}/main.py /etc/{name}.ini\n"
    for name in NAMES
)
PROCESSES = "    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND\n" + "\n".join(
    f"{pid} 1 app Sl 0 0.1 23328 7000 python3 /opt/{name}/main.py /etc/{name}.ini"
    for name, pid in NAMES.items()
)


def proposed(
    nightly: str = "parallel = 60",
    vault: str = "workers = 4",
    *,
    seen: int = 60,
    lately: str = "/etc/nightly.ini",
) -> list[Idea]:
    """What is thought of `nightly`, which asks `vault` as `till` does, that waits too long."""
    ask = "[service]\nbackend = http://127.0.0.1:6100/x\n"
    told = {
        probes.STATUS: "\n".join(
            f"{n}  RUNNING  pid {pid}, uptime 1:56" for n, pid in NAMES.items()
        ),
        probes.PROGRAMS: ENTRIES,
        probes.PROCESSES: PROCESSES,
        probes.LISTENERS: 'LISTEN 0 64 127.0.0.1:6100 0.0.0.0:* users:(("python3",pid=8,fd=3))',
        probes.LOGS: "==> /var/log/supervisor/till.log <==\nERROR vault:6100: timed out",
        probes.CHANGED: f"96 1794844323.9 root {lately}",
        probes.CONNECTIONS: "\n".join(
            f'ESTAB 0 0 127.0.0.1:{40000 + n} 127.0.0.1:6100 users:(("python3",pid=9,fd={n}))'
            for n in range(seen)
        ),
        probes.show("/etc/till.ini"): ask,
        probes.show("/etc/nightly.ini"): f"{ask}{nightly}\n",
        probes.show("/etc/vault.ini"): f"[service]\nport = 6100\n{vault}\n",
    }
    services = (BriefService("till", ("vault",)), BriefService("vault"), BriefService("nightly"))
    brief = Brief("inc-1", service="till", services=services)
    case = Case(brief, [Seen(command, text) for command, text in told.items()])
    return [one for one in reach.slow(case) if one.component == "nightly" and one.fix]


def test_who_asks_by_too_many_hands_gets_half_of_those_that_are_there() -> None:
    (idea,) = proposed()
    assert idea.score >= ACT
    assert "parallel is 60, and vault does 4 at a time" in idea.claim
    assert idea.locus == "/etc/nightly.ini: parallel = 60"
    keeps, changes, starts, _ = idea.fix
    assert keeps.startswith("cp -p -T --backup=numbered /etc/nightly.ini ")
    assert r"(60)([^0-9A-Za-z.]|$)/\12\3/" in changes
    assert starts == "supervisorctl restart nightly"
    assert idea.undo.endswith(" /etc/nightly.ini")


@pytest.mark.parametrize(
    "given",
    [
        {"nightly": "parallel = 12"},
        {"vault": "log = /var/log/vault.log"},
        {"vault": "workers = 64"},
        {"seen": 9},
        {"seen": 0},
        {"lately": "/etc/hosts"},
        {"nightly": "pool_size = 60"},
        {"nightly": "parallel = 60\nworkers = 60"},
    ],
    ids=["few", "unknown", "as-many", "not-seen", "nobody", "of-old", "pool", "which"],
)
def test_what_may_be_right_as_it_is_stays(given: dict[str, Any]) -> None:
    assert not proposed(**given)
