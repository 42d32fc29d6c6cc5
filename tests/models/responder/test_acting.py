"""What is acted on, and what is not: over what commands printed once."""

import pytest

from hermes_agent.models.responder import again
from hermes_agent.models.responder.acting import _ready, may
from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rules.clock import clock
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.tried import Tried
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

FAKED = """\
==> /etc/supervisor/conf.d/edge.conf <==
[program:edge]
command=/opt/bin/as-app python3 /srv/edge/server.py

==> /etc/supervisor/conf.d/trial.conf <==
[program:trial]
command=faketime "2027-01-01 00:00:00" python3 /srv/trial/server.py
"""


def test_who_lives_at_another_time_is_left_alone_where_the_alert_is_about_others() -> None:
    def found(service: str, *needs: str) -> list[str]:
        shown = {
            probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000", probes.PROGRAMS: FAKED,
            probes.STATUS: "edge RUNNING pid 7, uptime 0:10:00\n"
                           "trial RUNNING pid 8, uptime 0:10:00\n",
        }  # fmt: skip
        told = Brief("inc-1", service, services=(BriefService("edge", needs),
                                                 BriefService("trial")))  # fmt: skip
        return [idea.component for idea in clock(Case(told, [Seen(*one) for one in shown.items()]))]

    assert found("edge") == []
    assert found("trial") == ["trial"]
    assert found("edge", "trial") == ["trial"]


RESTART = "supervisorctl restart stock"


def chosen(*fix: str, score: float = 0.5, runs: str = "python3 a.py", **more: object) -> bool:
    rows = f"PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n8 1 root S 0 0.1 9 70 {runs}\n"
    shown = [Seen(probes.STATUS, "stock RUNNING pid 8, uptime 0:10:00\n"),
             Seen(probes.PROCESSES, rows)]  # fmt: skip
    case = Case(Brief("inc-1", "stock", services=(BriefService("stock"),)), shown)
    finish = ("kill 9",) if more.get("trial") else ()
    idea = Idea("bad-config", "stock", "x", score, evidence=("y",), fix=fix, finish=finish)
    return _ready(case, [idea], Tried(holding=bool(more.get("holding")))) is idea


def test_what_is_not_sure_starts_something_anew_or_is_tried_for_a_moment() -> None:
    assert chosen(RESTART)
    assert chosen(f"systemctl daemon-reload; systemctl reset-failed stock; {RESTART}")
    assert chosen("kill -STOP 9", trial=True)
    assert not chosen("sed -i s/a/b/ /etc/stock.conf", RESTART)
    assert not chosen(f"{RESTART}; rm -r /srv/stock")
    assert chosen("sed -i s/a/b/ /etc/stock.conf", RESTART, score=0.7)


def test_a_database_is_not_started_anew_on_a_guess() -> None:
    assert not chosen(RESTART, runs="postgres -D /srv/stock")
    assert chosen(RESTART, runs="postgres -D /srv/stock", score=0.7)


def test_nothing_unsure_is_done_while_the_checks_hold() -> None:
    assert not chosen(RESTART, holding=True)
    assert chosen(RESTART, holding=True, score=0.7)


@pytest.mark.parametrize(("fix", "allowed"), [("kill -CONT 9", True), ("kill -HUP 9", False)])
def test_what_was_halted_may_go_on_though_it_has_nothing_to_do_with_the_alert(
    fix: str, allowed: bool
) -> None:
    services = BriefService("stock", ("store",)), BriefService("store"), BriefService("other")
    status = "stock RUNNING pid 7, uptime 0:10:00\nother RUNNING pid 9, uptime 0:10:00\n"
    case = Case(Brief("inc-1", "stock", services=services), [Seen(probes.STATUS, status)])
    idea = Idea("service-crash", "other", "x", 0.8, evidence=("y",), fix=(fix,))
    assert may(case, idea) is allowed


@pytest.mark.parametrize(
    ("component", "wants", "acts"),
    [("stock", (), True), ("stock", ("cat /etc/stock.conf",), False), ("other", (), False)],
)
def test_what_a_skill_tells_of_is_acted_on_where_all_was_seen_and_it_is_about_the_alert(
    component: str, wants: tuple[str, ...], acts: bool
) -> None:
    services = BriefService("stock", ("store",)), BriefService("store"), BriefService("other")
    told = Brief("inc-1", "stock", services=services)
    status = "stock FATAL Exited\nstore RUNNING pid 8, uptime 0:10:00\nother FATAL Exited\n"
    idea = Idea("service-crash", component, "x", 0.8, evidence=("y",), wants=wants, fix=(RESTART,))
    case = Case(told, [Seen(probes.STATUS, status)])
    found = again._chosen(case, [idea], ["service-crash"], None)
    assert (found is idea) == acts


@pytest.mark.parametrize(
    ("fix", "category"), [((), "service-crash"), ((RESTART,), "cascading-failure")]
)
def test_who_only_may_have_given_up_does_not_change_what_it_is(
    fix: tuple[str, ...], category: str
) -> None:
    root = Idea(
        "service-crash", "store", "x", 0.8, evidence=("y",), fix=("supervisorctl restart store",)
    )
    above = Idea("cascading-failure", "stock", "z", 0.5, evidence=("y",), fix=fix)
    case = Case(Brief("inc-1", "stock", services=(BriefService("stock", ("store",)),)), [])
    only = ["service-crash", "cascading-failure"]
    found = again._chosen(case, [root, above], only, again._fallen([root, above]))
    assert found is not None
    assert (found.category, found.fix[1:]) == (category, ("sleep 1", *fix) if fix else ())
