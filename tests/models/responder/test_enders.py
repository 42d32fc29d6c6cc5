"""What ends a service again and again: to start it anew is no cure as long as that goes on."""

import pytest

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rulebook import ideas
from hermes_agent.models.responder.rules import enders
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

SCRIPT, TABLE = "/opt/admin/tidy", "/etc/cron.d/tidy"
PROGRAMS = """\
==> /etc/supervisor/conf.d/shop.conf <==
[program:shop]
command=/app/shop/shopd -s /etc/opt/shop.ini
==> /etc/supervisor/conf.d/cron.conf <==
[program:cron]
command=/usr/sbin/cron -f
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544     800 supervisord -n
     20       1 root     S      0  0.1 23252     600 /usr/sbin/cron -f
"""
EXITED = "2026-11-15 20:03:02,1 INFO exited: shop (terminated by SIGTERM; not expected)"


def case(rows: str, table: str = f"*/30 * * * * root {SCRIPT}\n", exited: str = EXITED) -> Case:
    seen = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "shop  EXITED  Nov 15\ncron  RUNNING   pid 20, uptime 0:10:00\n",
        probes.PROGRAMS: PROGRAMS, probes.PROCESSES: PROCESSES, probes.SUPERVISOR_LOG: exited,
        probes.JOBS: f"==> {TABLE} <==\n{table}", enders.ENDERS: rows,
    }  # fmt: skip
    return Case(Brief("inc-1", service="shop"), [Seen(one, out) for one, out in seen.items()])


@pytest.mark.parametrize(
    "row", ["pkill -f shop || true", "killall -q shopd", "kill -9 $(pgrep -f /app/shop)"]
)
def test_the_one_line_of_a_job_that_ends_it_does_nothing_any_more(row: str) -> None:
    (idea,) = enders.ended(case(f"{SCRIPT}:4:{row}\n"))
    assert f": # {row.split(maxsplit=1)[0]}" in idea.fix[1]
    assert idea.fix[-1] == "supervisorctl restart shop"


@pytest.mark.parametrize(
    "rows",
    [
        f"{SCRIPT}:4:for p in $(pgrep -f shopd); do\n{SCRIPT}:5:  kill $p\n",
        f"{SCRIPT}:4:curl -fs localhost:1/ || pkill -f shop\n",
        f"{SCRIPT}:4:ps -eo pid,rss | awk '$2 > 9000 {{print $1}}' | xargs kill\n",
    ],
)
def test_where_more_hangs_on_it_a_start_alone_counts_for_nothing(rows: str) -> None:
    found = [one for one in ideas(case(rows)) if "supervisorctl restart shop" in one.fix]
    assert found
    assert all(one.proof for one in found)


@pytest.mark.parametrize(
    "seen",
    [
        case(f"{SCRIPT}:4:pkill -f other\n"),
        case(f"{SCRIPT}:4:kill -USR1 $(pgrep -f shop)\n"),
        case(f"{SCRIPT}:4:# pkill -f shop\n"),
        case("/root/by-hand:4:pkill -f shop\n"),
        case(f"{SCRIPT}:4:pkill -f shop\n", exited=EXITED.replace("exited", "stopped")),
    ],
)
def test_what_ends_others_or_is_not_run_by_itself_is_left_alone(seen: Case) -> None:
    assert not list(enders.ended(seen))
    assert not any(one.proof for one in ideas(seen))
