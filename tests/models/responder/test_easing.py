"""What is done after a remedy: it is taken back and told anew, or others are started, too."""

from collections.abc import Generator

import pytest
from msgspec.structs import replace

from hermes_agent.core.messages import ToolCall, ToolMessage
from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.easing import eased, given_back, lasting, looked_back, undoing
from hermes_agent.models.responder.investigate import ATTEMPTS, _attempts, _raise_others
from hermes_agent.models.responder.moves import Answer, Move
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.tried import Tried
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

BRIEF = Brief(
    "inc-1",
    service="edge",
    services=(BriefService("edge", ("stock",)), BriefService("stock"), BriefService("lone")),
)
UP = "edge  RUNNING  pid 7, uptime 0:01:10\nstock  RUNNING  pid 8, uptime 0:01:10\n"
FELL = UP.replace("RUNNING  pid 7, uptime 0:01:10", "FATAL  Exited too quickly")
CONF = "/etc/edge/edge.conf"
KEPT = "/var/tmp/kept"
SAID = "2026-11-15 20:03:10 ERROR port 99 is taken"
RELOAD = "psql -X -At -c 'select pg_reload_conf()'"
IDEA = Idea(
    "bad-config", "edge", "the port is wrong", 0.8, CONF, ("port = 99 is not right",), (),
    (f"cp {CONF} {KEPT}", f"sed -i s/99/80/ {CONF}", "supervisorctl restart edge", RELOAD),
    f"cp -p {KEPT} {CONF}",
)  # fmt: skip


def seen(status: str = UP, said: str = "", at: int = 1794772992) -> list[Seen]:
    log = f"==> /var/log/edge.log <==\n{said}"
    return [Seen(probes.STATUS, status), Seen(probes.CLOCK, f"{at} now UTC +0000"),
            Seen(probes.LOGS, log)]  # fmt: skip


def commands(move: Move) -> list[str]:
    return [call.arguments["command"] for call in move.calls if call.tool == "terminal"]


def answered(move: Move, *texts: str) -> Answer:
    given = [ToolCall(str(at), call.tool, "{}") for at, call in enumerate(move.calls)]
    told = [*texts, *["done"] * len(given)]
    return Answer(tuple(ToolMessage(call.id, call.name, told[at]) for at, call in enumerate(given)))


def taken_back(tried: Tried) -> list[Move]:
    said = "2026-11-15 20:03:20 ERROR port 99 is taken"
    return every_move(looked_back(BRIEF, seen(said=said, at=1794773010), tried))


def every_move(work: Generator[Move, Answer, object]) -> list[Move]:
    """All moves, where nothing that is done is of use."""
    moves = []
    try:
        move = next(work)
        while True:
            moves.append(move)
            move = work.send(answered(move))
    except StopIteration:
        return moves


def after(idea: Idea = IDEA) -> Tried:
    return Tried(ideas=[idea], done=list(idea.fix), seen=seen(said=SAID))


def test_what_eased_nothing_is_taken_back_and_whoever_had_read_it_reads_it_anew() -> None:
    tried = after()
    [move] = taken_back(tried)
    assert commands(move) == [IDEA.undo, "supervisorctl restart edge", RELOAD]
    assert move.calls[-1].arguments["state"] == "refuted"
    assert tried.done == ["taken back: the port is wrong"]
    assert not taken_back(tried)


def test_whoever_is_handed_it_finds_it_as_it_was_but_for_what_runs_again() -> None:
    tried = after()
    tried.useful = [IDEA]
    [move] = given_back(tried)
    assert commands(move)[0] == IDEA.undo
    assert tried.done == ["taken back: the port is wrong"]
    tried = after()
    tried.useful = tried.kept = [IDEA]
    assert not list(given_back(tried))
    tried = Tried(ideas=[IDEA], done=list(IDEA.fix), seen=seen(FELL))
    assert not list(looked_back(BRIEF, seen(), tried))
    assert tried.kept == [IDEA]


def test_what_was_changed_again_for_good_is_not_taken_back() -> None:
    later = replace(IDEA, claim="it starts again", fix=(f"ln -sfn /srv/a {CONF}",), undo="")
    tried = Tried(ideas=[IDEA, later], done=[*IDEA.fix, *later.fix], useful=[IDEA, later])
    tried.kept = [later]
    assert not list(given_back(tried))
    tried.kept, tried.done = [], [*IDEA.fix]
    assert len(list(given_back(tried))) == 1


def test_what_is_not_mended_is_taken_back_before_people_are_asked() -> None:
    tried = after()
    tried.useful, tried.judged = [IDEA], 1
    moves = every_move(_attempts(BRIEF, seen(said=SAID), tried))
    back = next(at for at, move in enumerate(moves) if IDEA.undo in commands(move))
    acts = [[call.arguments.get("action") for call in move.calls] for move in moves]
    (told,) = [at for at, calls in enumerate(acts) if "escalate" in calls]
    assert back < told
    assert sum("The smallest remedy" in move.text for move in moves) <= ATTEMPTS


def test_what_was_refused_is_not_taken_back() -> None:
    tried = after()
    tried.done = []
    assert not taken_back(tried)


@pytest.mark.parametrize(
    "undo", ["", "it was started by hand: start it again", "rm -rf /srv/edge", "cp a b; reboot"]
)
def test_what_cannot_be_carried_out_as_it_is_written_is_not_carried_out(undo: str) -> None:
    assert not undoing(Idea("bad-config", "edge", "x", 0.8, undo=undo))


def test_several_steps_are_taken_back_one_by_one() -> None:
    idea = Idea("bad-config", "edge", "x", 0.8, undo="chmod 0600 /a/b; ip link set eth0 mtu 600")
    assert undoing(idea) == ("chmod 0600 /a/b", "ip link set eth0 mtu 600")


def test_a_service_that_runs_again_was_eased_and_one_that_ended_was_not() -> None:
    up, down = Case(BRIEF, seen()), Case(BRIEF, seen(FELL))
    assert eased(down, up, IDEA)
    assert not eased(up, down, IDEA)


def test_what_was_changed_is_looked_at_again_and_the_rest_is_not() -> None:
    looks = [Seen(f"cat {CONF}", "port = 99"), Seen("cat /etc/stock/stock.conf", "port = 90"),
             Seen("cat /proc/7/limits", "x"), Seen(probes.STATUS, UP)]  # fmt: skip
    assert [one.command for one in lasting(looks, after())] == ["cat /etc/stock/stock.conf"]


STOCK = Idea("service-crash", "stock", "stock was not there", 0.9)


def raised(before: str, now: str, command: str = probes.STATUS) -> tuple[list[str], list[str]]:
    """What is run for those that fell with `stock`, and what is told to have been done; the same
    is said of who is up however often one asks."""
    looks = [Seen(command, before)]
    if command == probes.STATUS:
        looks += seen(before)
    tried = Tried(ideas=[STOCK], seen=looks)
    work, ran = _raise_others(STOCK, tried, BRIEF), list[str]()
    try:
        move = next(work)
        while True:
            ran += commands(move)
            told = [now if one == command else "x: started" for one in commands(move)]
            move = work.send(answered(move, *told))
    except StopIteration as ended:
        if ended.value is tried.doubted:
            raise AssertionError("it says otherwise than it believes") from ended
        return ran, tried.done


def test_who_gave_up_on_what_was_mended_is_started_where_it_is_still_down() -> None:
    start = "supervisorctl restart edge"
    assert raised(FELL, FELL) == ([probes.STATUS, start, "sleep 2", probes.STATUS], [start])


@pytest.mark.parametrize("now", [UP, UP.replace("RUNNING", "STARTING"), "unix:///run/x no such"])
def test_nobody_is_started_who_comes_up_or_of_whom_nothing_is_known(now: str) -> None:
    assert raised(FELL, now) == ([probes.STATUS], [])


def test_who_fell_without_needing_it_is_left_alone() -> None:
    lone = UP + "lone  FATAL  Exited too quickly\n"
    assert raised(lone, lone) == ([probes.STATUS], [])


def test_who_ran_before_the_remedy_and_ended_since_is_started() -> None:
    ended = UP.replace("RUNNING  pid 7, uptime 0:01:10", "EXITED  Nov 16 08:50 AM")
    assert raised(UP, ended)[1] == ["supervisorctl restart edge"]


def test_a_member_of_a_group_is_started_once() -> None:
    grouped = FELL.replace("edge ", "edge:edge ")
    start = "supervisorctl restart edge:edge"
    assert raised(grouped, grouped) == ([probes.STATUS, start, "sleep 2", probes.STATUS], [start])


def test_units_of_systemd_are_asked_for_by_systemd() -> None:
    down = "edge.service loaded failed failed edge\nstock.service loaded active running stock\n"
    ran, done = raised(down, down, probes.UNITS)
    assert ran[0] == probes.UNITS
    assert done == ["systemctl reset-failed edge; systemctl restart edge"]
    again = down.replace("failed failed", "active running")
    assert raised(down, again, probes.UNITS) == ([probes.UNITS], [])
