"""All rules over one large machine: what they find does not depend on what was asked before."""

import pytest

from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rulebook import RULES
from hermes_agent.models.responder.rules.ideas import Rule
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

NAMES = [f"part{number}" for number in range(8)]
BRIEF = Brief(
    "inc-1",
    service=NAMES[0],
    services=tuple(
        BriefService(name, (after,)) for name, after in zip(NAMES, [*NAMES[1:], "far"], strict=True)
    ),
)
NOW = 1794772992
ENTRY = """\
==> /etc/supervisor/conf.d/{0}.conf <==
[program:{0}]
command=python3 /srv/{0}/main.py /etc/{0}/{0}.conf
directory=/srv/{0}
stdout_logfile=/var/log/{0}.log
"""


def _observed() -> list[Seen]:
    every = list(enumerate(NAMES))
    run = "{0} 1 app Sl 0 0.1 23328 700 python3 /srv/{1}/main.py /etc/{1}/{1}.conf"
    said = "2026-11-15 20:03:{0:02} ERROR http://127.0.0.1:{1}/ timed out, /var/lib/{2}/a.db locked"
    link = 'ESTAB 0 0 127.0.0.1:{0} 127.0.0.1:{1} users:(("python3",pid={2},fd=5))'
    wrote = "90 {0}.5 root /etc/{1}/{1}.conf"
    open_ = "/proc/{0}/fd/6 /var/lib/{1}/a.db"
    down = "{0}  FATAL  Exited too quickly"
    up = "{0}  RUNNING  pid {1}, uptime 0:10:00"
    stranger = "900 1 root S 0 9.0 13328 600 python3 /home/kim/copy.py /var/lib/part0/a.db"
    looks = {
        probes.STATUS: "\n".join(
            down.format(one) if at == 3 else up.format(one, 100 + at) for at, one in every
        ),
        probes.PROGRAMS: "\n".join(ENTRY.format(one) for one in NAMES),
        probes.PROCESSES: "\n".join([*(run.format(100 + at, one) for at, one in every), stranger]),
        probes.LISTENERS: "\n".join(
            f'LISTEN 0 64 127.0.0.1:{9000 + at} 0.0.0.0:* users:(("python3",pid={100 + at},fd=3))'
            for at, _ in every
        ),
        probes.CLIENTS: "\n".join(
            link.format(4000 + n, 9001 + at, 100 + at) for at, _ in every for n in range(6)
        ),
        probes.OPEN_FILES: "\n".join(
            [*(open_.format(100 + at, one) for at, one in every), open_.format(900, "part0")]
        ),
        probes.CLOCK: f"{NOW} 2026-11-15 20:03:12 UTC +0000",
        probes.LOGS: "\n".join(
            f"==> /var/log/{one}.log <==\n"
            + "\n".join(said.format(n, 9001 + at, one) for n in range(10))
            for at, one in every
        ),
        probes.CHANGED: "\n".join(wrote.format(NOW - at, one) for at, one in every),
        **{
            probes.show(f"/etc/{one}/{one}.conf"): f"port = {9000 + at}\nmax_conn = {at}\n"
            f"upstream = http://127.0.0.1:{9001 + at}\ndata = /var/lib/{one}\nlevel = debug\n"
            for at, one in every
        },
    }  # fmt: skip
    return [Seen(command, text) for command, text in looks.items()]


OBSERVED = _observed()
ASKED = Case(BRIEF, OBSERVED)
"""One that all rules were asked about."""
FOUND = {rule.__name__: list(rule(ASKED)) for rule in RULES}


def test_the_machine_is_one_of_which_many_rules_have_something_to_say() -> None:
    assert sum(bool(found) for found in FOUND.values()) > 8


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.__module__}.{rule.__name__}")
def test_what_a_rule_finds_does_not_depend_on_what_was_asked_before(rule: Rule) -> None:
    assert list(rule(ASKED)) == list(rule(Case(BRIEF, OBSERVED)))


def test_logs_are_read_once_however_many_ask_for_them() -> None:
    assert ASKED.entries("part1") is ASKED.entries("part1")
    assert ASKED.troubles("part1") is ASKED.troubles("part1")
    assert ASKED.settings("part1") is ASKED.settings("part1")
