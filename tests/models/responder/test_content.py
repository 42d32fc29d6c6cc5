"""Whether those concerned are content after a remedy: what they say newly, dated or not."""

import pytest
from msgspec.structs import replace

from hermes_agent.core.messages import ToolMessage
from hermes_agent.models.responder import content, investigate
from hermes_agent.models.responder.acting import fresh_ideas
from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.lasts import lasts
from hermes_agent.models.responder.moves import Answer, Move
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.tried import Tried
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.grown import added, gist, new_troubles
from hermes_agent.models.responder.view.seen import Seen

BRIEF = Brief(
    "inc-1",
    service="edge",
    services=(BriefService("edge", ("stock",)), BriefService("stock"), BriefService("lone")),
)
LOG, OTHER = "/var/log/edge.log", "/var/log/lone.log"
UP = "edge  RUNNING  pid 7, uptime 0:01:10\nstock  RUNNING  pid 8, uptime 0:01:10\n"
BAD = "could not write order 17: No space left on device"
IDEA = Idea("service-crash", "stock", "stock was not there", 0.9, "stock", (BAD,), (), ("true",))


def machine(*said: str, size: int = 0, at: int = 1794772992, path: str = LOG) -> Case:
    rows = f"{size or sum(len(row) + 1 for row in said)} {at}.5 root {path}"
    return Case(BRIEF, [
        Seen(probes.STATUS, UP), Seen(probes.CLOCK, f"{at} 2026-11-15 20:03:12 UTC +0000"),
        Seen(probes.LOGS, f"==> {path} <==\n" + "\n".join(said)), Seen(probes.LOG_FILES, rows),
    ])  # fmt: skip


def looks(size: int, *rows: str, path: str = LOG) -> str:
    return f"{size} {path}\n==> {path} <==\n" + "\n".join(rows)


@pytest.mark.parametrize(
    ("said", "still"),
    [
        ("could not write order 23: No space left on device", True),
        ("order 23 was written", False),
        ("could not read order 23: permission denied", False),
    ],
)
def test_who_says_newly_what_it_said_before_is_not_content(said: str, still: bool) -> None:
    first, last = looks(500), looks(500 + len(said) + 1, BAD, said)
    who, line = content.complaint(first, last, machine(BAD), IDEA)
    assert (who, line) == (("edge", said) if still else ("", ""))


@pytest.mark.parametrize(
    ("said", "fails"),
    [
        ('10.0.0.4 - - [15/Nov/2026:20:03:15 +0000] "PUT /orders/7 HTTP/1.1" 500 21', True),
        ("2026-11-15 20:03:15 ERROR order 9 could not be kept: damaged", True),
        ('10.0.0.4 - - [15/Nov/2026:20:03:15 +0000] "PUT /orders/7 HTTP/1.1" 404 21', False),
        ("2026-11-15 20:03:15 INFO order 9 is kept", False),
        ("2026-11-15 20:03:15 WARN order 9 could not be sent yet", False),
    ],
)
def test_who_answers_its_check_and_fails_people_is_not_content(said: str, fails: bool) -> None:
    before = machine("all is well")
    assert content.logs(before, IDEA) == [LOG]
    who, _ = content.complaint(looks(500), looks(500 + len(said) + 1, said), before, IDEA)
    assert bool(who) == fails


def test_who_fell_with_what_the_alert_needs_is_down_whatever_was_mended() -> None:
    brief = replace(BRIEF, services=(*BRIEF.services, BriefService("till", ("stock",))))
    told = "2026-11-15 20:01:{} INFO exited: {} (terminated by SIGSEGV; not expected)\n"
    log = told.format("10", "stock") + told.format("20", "till")
    status = "edge  FATAL  Exited\nstock  RUNNING  pid 8, uptime 0:00:10\ntill  FATAL  Exited\n"
    before = Case(brief, [Seen(probes.STATUS, status), Seen(probes.SUPERVISOR_LOG, log)])
    own = replace(IDEA, component="edge")
    assert content.fallen(before, before, own) == ["edge", "till"]
    late = Seen(probes.SUPERVISOR_LOG, told.format("10", "till") + told.format("20", "stock"))
    assert content.fallen(Case(brief, [before.observed[0], late]), before, own) == ["edge"]


def test_who_fell_with_what_was_mended_earlier_is_down() -> None:
    told = BriefService("till", ("store",)), BriefService("store")
    brief = replace(BRIEF, services=(*BRIEF.services, *told))
    status = "edge  RUNNING  pid 7, uptime 0:00:10\nstore  RUNNING  pid 8, uptime 0:00:10\n"
    before = Case(brief, [Seen(probes.STATUS, f"{status}till  FATAL  Exited\n")])
    own = replace(IDEA, component="edge")
    assert content.fallen(before, before, own) == []
    assert content.fallen(before, before, own, ["store"]) == ["till"]


def test_what_was_said_before_the_look_counts_no_more() -> None:
    assert content.complaint(looks(500), looks(500, BAD, BAD), machine(BAD), IDEA) == ("", "")


def test_what_it_says_every_day_is_no_complaint_and_others_are_not_asked() -> None:
    usual = f"2026-11-15 15:00:01 {BAD}"
    now = f"2026-11-15 20:03:11 {BAD}"
    last = looks(600, f"2026-11-15 20:03:20 {BAD}")
    assert content.complaint(looks(500), last, machine(now), IDEA)[0] == "edge"
    assert content.complaint(looks(500), last, machine(usual, now), IDEA) == ("", "")
    lone = looks(600, BAD, path=OTHER)
    assert content.complaint(looks(500, path=OTHER), lone, machine(BAD, path=OTHER), IDEA)[0] == ""
    assert content.logs(machine(BAD, path=OTHER), IDEA) == []


def test_a_request_that_went_well_is_no_complaint_whatever_its_length() -> None:
    served = '127.0.0.1 - - [15/Nov/2026:20:03:10 +0000] "GET /up HTTP/1.1" 200 502 "-" "error"'
    last = looks(900, served)
    assert content.complaint(looks(500), last, machine(served), IDEA) == ("", "")
    assert gist(served) == gist(served.replace("20:03:10", "20:04:11"))


def finished(*ends: str) -> tuple[bool, Tried, list[Move]]:
    """Whether a remedy lasts where these are the ends of the log, look by look."""
    tried = Tried(ideas=[IDEA], done=["true"], seen=machine(BAD).observed)
    work, moves, told = lasts(BRIEF, IDEA, tried), list[Move](), iter(ends)
    move = next(work)
    try:
        while True:
            moves.append(move)
            results = []
            for at, call in enumerate(move.calls):
                command = str(call.arguments.get("command", ""))
                text = "edge: holds" if call.tool == "incident" else "500 " + LOG
                text = next(told) if "tail -v" in command else text
                text = UP if command == probes.STATUS else text
                results.append(ToolMessage(str(at), call.tool, text))
            move = work.send(Answer(tuple(results)))
    except StopIteration as ended:
        return bool(ended.value), tried, moves


def test_a_complaint_that_passes_is_waited_for_and_one_that_stays_is_a_doubt() -> None:
    again, quiet = looks(560, BAD), looks(500, BAD)
    assert [(one[0], len(one[2])) for one in (finished(quiet), finished(again, quiet))] == [
        (True, 1), (True, 2),
    ]  # fmt: skip
    well, tried, _ = finished(again, again)
    assert not well
    assert tried.doubted
    assert tried.doubts == [f"edge still says: {BAD}"]
    assert gist(tried.complaint) == gist(BAD)
    assert tried.status[0].output in UP


def test_while_the_checks_hold_only_what_follows_from_the_complaint_is_tried() -> None:
    case = machine(BAD)
    every = fresh_ideas(case, Tried())
    assert every
    left = fresh_ideas(case, Tried(complaint="something else is wrong"))
    assert left == []
    about = fresh_ideas(case, Tried(complaint=BAD))
    assert all(idea.score >= 0.6 for idea in about)
    again = Tried(complaint="something else is wrong")
    again.looked(False)
    assert fresh_ideas(case, again) == every


def test_of_a_log_without_times_what_it_grew_by_is_new() -> None:
    before = machine("starting", BAD, size=900)
    assert new_troubles(before, machine(BAD, "ready", size=906), "edge") == []
    assert new_troubles(before, machine("ready", BAD, size=955), "edge") == [BAD]
    assert added(["one", "two", "three"], 7) == ["two", "three"]
    assert added(["one"], 0) == []


def test_what_begins_again_under_another_number_is_tried_twice_at_most() -> None:
    ended = [
        Idea("runaway-process", "edge", "it is in the way", 0.9, f"pid {pid}", (BAD,), (),
             (f"kill {pid}",)) for pid in (41, 97, 153)
    ]  # fmt: skip
    assert not Tried(ideas=ended[:1], since=5).barred(ended[1])
    assert Tried(ideas=ended[:2], since=5).barred(ended[2])


def test_nothing_is_tried_for_a_moment_while_the_checks_hold() -> None:
    trial = Idea("runaway-process", "edge", "x", 0.9, "", (BAD,), (), ("kill -STOP 4",),
                 "kill -CONT 4", finish=("kill 4",))  # fmt: skip
    assert Tried(holding=True).barred(trial)
    assert not Tried().barred(trial)


def test_of_a_log_that_rushed_it_is_only_asked_whether_it_does_still() -> None:
    assert content.logs(machine(BAD), IDEA) == [LOG]
    flood = replace(IDEA, category="log-flood", locus=f"/etc/x.ini, {LOG}", proof="true")
    assert content.logs(machine(BAD), flood) == []
    assert content.logs(machine(BAD), replace(flood, locus="/var/log/other.log")) == [LOG]


def test_what_fell_with_an_earlier_remedy_is_started_before_it_is_called_resolved() -> None:
    told = BriefService("till", ("store",)), BriefService("store")
    brief = replace(BRIEF, services=(*BRIEF.services, *told))
    status = "edge  RUNNING  pid 7, uptime 0:00:10\nstore  RUNNING  pid 8, uptime 0:00:10\n"
    seen = [Seen(probes.STATUS, f"{status}till  FATAL  Exited\n")]
    first = replace(IDEA, component="store", fix=("supervisorctl restart store",))
    last = replace(IDEA, component="edge", fix=("supervisorctl restart edge",))
    tried = Tried(ideas=[first, last], done=[*first.fix, *last.fix], seen=seen, status=seen)
    move = next(investigate._raise_others(last, tried, brief))
    assert move.calls[0].arguments["command"] == "supervisorctl restart till"
