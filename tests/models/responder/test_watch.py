"""Whether what was mended lasts, by what rises within a few seconds."""

import subprocess
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from hermes_agent.core.messages import ToolMessage
from hermes_agent.models.responder import watch
from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.lasts import NEXT_MINUTE, lasts
from hermes_agent.models.responder.moves import Answer, Call
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.tried import CASCADE, Tried, cause_of
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.models.responder.machine import WELL, Machine, brief, converse

SPACE = """\
Filesystem     1024-blocks     Used Available Capacity Mounted on
tmpfs               196608      324    196284       1% /
tmpfs                 5120     5120         0     100% /mnt/spool
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544      80 supervisord -n
      7       1 root     Sl     0 88.1 93328      70 python3 /srv/edge/server.py
"""
AFTER = PROCESSES.replace("      7 ", "     30 ")


def before() -> Case:
    shown = {probes.SPACE: SPACE, probes.PROCESSES: PROCESSES, probes.VITALS: "60 /proc/7/fd"}
    return Case(Brief("inc-1", service="edge"), [Seen(*one) for one in shown.items()])


def idea(category: str) -> Idea:
    return Idea(category, "edge", "something is the matter", 0.7, "pid 7: python3")


def test_a_file_system_that_is_full_again_soon_is_not_mended() -> None:
    fills = "space /mnt/spool 200 700 1200 3920"
    assert "full again in 16 s" in watch.unrest(fills, before(), idea("disk-full"))
    slowly = "space /mnt/spool 200 208 216 4904"
    assert "full again in 1226 s" in watch.unrest(slowly, before(), idea("disk-full"))
    assert not watch.unrest("space /mnt/spool 200 201 202 4918", before(), idea("disk-full"))
    assert not watch.unrest("space / 200 700 1200 3920", before(), idea("disk-full"))


def test_a_process_that_spins_as_before_is_not_mended() -> None:
    spins = f"ticks 30 10 190 370 0\n{AFTER}"
    assert "still takes 90 %" in watch.unrest(spins, before(), idea("runaway-process"))
    assert not watch.unrest(f"ticks 30 10 30 31 0\n{AFTER}", before(), idea("runaway-process"))
    assert not watch.unrest(spins, before(), idea("bad-config"))


def test_memory_that_is_gone_again_within_minutes_is_a_leak_still() -> None:
    leaks = f"memory 30 20000 20800 21600 0\n{AFTER}"
    assert "400 kilobytes of memory" in watch.unrest(leaks, before(), idea("memory-leak"))
    warm = f"memory 30 20000 21600 21600 0\n{AFTER}"
    assert not watch.unrest(warm, before(), idea("memory-leak"))


def test_open_files_that_become_more_and_more_are_a_leak_still() -> None:
    leaks = f"open 30 10 14 18 0\n{AFTER}"
    assert "2 open files" in watch.unrest(leaks, before(), idea("descriptor-leak"))


def test_files_that_are_opened_for_each_request_are_counted_while_the_checks_ask() -> None:
    first, more, steady = (f"{AFTER}  {count} /proc/30/fd\n" for count in (9, 15, 11))
    leak = idea("descriptor-leak")
    assert watch.is_asked(leak)
    assert "6 more files open" in watch.grown(first, more, before(), leak)
    assert not watch.grown(first, steady, before(), leak)
    other = f"{AFTER}  9 /proc/30/fd\n  90 /proc/1/fd\n"
    assert not watch.grown(first, other, before(), leak)
    assert not watch.is_asked(idea("disk-full"))
    grew = first.replace("93328", "93828")
    assert "500 kilobytes more" in watch.grown(first, grew, before(), idea("memory-leak"))
    assert not watch.grown(first, grew, before(), leak)


def test_others_may_have_much_to_do_by_right() -> None:
    spins = f"ticks 30 10 190 370 0\n{AFTER}"
    other = Idea("runaway-process", "edge", "process 9 spins", 0.7, "pid 9: bash loop.sh")
    assert not watch.unrest(spins, before(), other)


def test_somebody_who_was_ended_and_is_there_again_is_not_gone() -> None:
    ended = Idea("port-conflict", "edge", "held by 7", 0.9, "pid 7", fix=("kill 7 8", "sleep 1"))
    assert watch.is_due(ended, before())
    assert "there again, as process 30" in watch.unrest(AFTER, before(), ended)


def test_what_cron_may_bring_back_is_waited_for() -> None:
    cron = f"{PROCESSES}      9       1 root     S      0  0.0   900      70 /usr/sbin/cron -f\n"
    seen = [Seen(probes.PROCESSES, cron)]
    case = Case(Brief("inc-1", service="edge"), seen)
    only = Idea("service-crash", "edge", "it ended", 0.7, fix=("supervisorctl restart edge",))
    right = Idea("bad-config", "edge", "x", 0.7, fix=("sed -i s/a/b/ /etc/a", *only.fix))
    assert watch.is_timed(only, case)
    assert not watch.is_timed(right, case)
    assert not watch.is_timed(only, before())
    tried = Tried(ideas=[only], seen=seen)
    move = next(lasts(case.brief, only, tried))
    assert {"command": NEXT_MINUTE} in [call.arguments for call in move.calls]
    now = subprocess.run(
        ["bash", "-c", NEXT_MINUTE.replace("sleep", "echo").replace("%S", "%S -d 10:00:08")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert now.stdout == "57\n"


def test_a_worker_of_one_that_lives_is_not_the_one_that_was_ended() -> None:
    head = "PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n"
    worker = "{} {} root S 0 0.1 90 70 nginx: worker process\n"
    programs = "==> /etc/supervisor/conf.d/nginx.conf <==\n[program:nginx]\ncommand=nginx\n"
    seen = [Seen(probes.PROCESSES, head + worker.format(12, 1)), Seen(probes.PROGRAMS, programs)]
    case = Case(Brief("inc-1", service="nginx"), seen)
    ended = Idea("port-conflict", "nginx", "held by 12", 0.9, "pid 12", fix=("kill 12",))
    master = "20 1 root S 0 0.1 90 70 nginx: master process nginx\n"
    assert not watch.unrest(head + master + worker.format(21, 20), case, ended)
    assert "there again" in watch.unrest(head + master + worker.format(21, 1), case, ended)
    assert not watch.unrest(AFTER.replace("server", "client"), before(), ended)


def answered(calls: Sequence[Call], counts: Iterator[int]) -> Answer:
    """All checks hold, and so many files are open each time that they are counted."""
    return Answer(tuple(
        ToolMessage(
            str(at), call.tool,
            f"{AFTER}  {next(counts)} /proc/30/fd\n"
            if call.arguments.get("command") == watch.COUNT
            else "edge: holds",
        )
        for at, call in enumerate(calls)
    ))  # fmt: skip


def test_after_a_leak_the_checks_ask_and_what_is_kept_of_that_is_counted() -> None:
    for bound, numbers, well in (
        (0, (9, 9), True),
        (0, (9, 20, 20, 31, 31, 42), False),
        (0, (9, 20, 20, 31, 31, 31), True),  # it was only begun
        (16, (9, 20, 20, 31, 31, 42, 42, 42), True),  # a bound that was guessed is come to
        (16, (9, 20, 20, 31, 31, 42, 42, 53), False),
        (0, (9, 20, 9, 20), True),  # it is given back after a while
        (0, (9, 20, 20, 20), True),  # no more than so many are kept
    ):
        own = replace(idea("descriptor-leak"), bound=bound)
        tried = Tried(ideas=[own], seen=before().observed)
        work = lasts(before().brief, tried.ideas[-1], tried, due=True)
        calls, counts = next(work).calls, iter(numbers)
        for _ in range(len(numbers) // 2 - 1):
            calls = work.send(answered(calls, counts)).calls
        with pytest.raises(StopIteration) as ended:
            work.send(answered(calls, counts))
        assert ended.value.value is well
        assert tried.doubted is not well


def test_what_goes_on_must_do_so_a_while_later_too() -> None:
    for again, well in ((f"memory 30 21700 22500 23300 0\n{AFTER}", False), (AFTER, True)):
        tried = Tried(ideas=[idea("memory-leak")], seen=before().observed)
        work = lasts(before().brief, tried.ideas[-1], tried, due=True)
        first = next(work).calls
        leaks = f"memory 30 20000 20800 21600 0\n{AFTER}"
        looks = work.send(shown(first, leaks)).calls
        assert [one.tool for one in looks] == ["terminal", "terminal", "incident"]
        with pytest.raises(StopIteration) as ended:
            work.send(shown(looks, again))
        assert ended.value.value is well


def test_what_was_seen_to_go_on_is_told_as_the_cause_where_nothing_mends_it() -> None:
    leak, guess = idea("memory-leak"), Idea("unknown", "edge", "nobody knows", 0.2)
    tried = Tried(ideas=[leak, guess], raised=[(guess, ()), (leak, ())], doubted=True)
    assert tried.begun_again == [leak]
    assert not Tried(ideas=[leak], raised=[(leak, ())]).begun_again
    flood = Idea("log-flood", "edge", "it logs too much", 0.9, proof="true")
    assert Tried(ideas=[flood], proofs=["true"], doubted=True).begun_again == [flood]


def shown(calls: Sequence[Call], watched: str) -> Answer:
    """Checks that hold, and what is watched meanwhile."""
    texts = [
        "edge: holds" if one.tool == "incident"
        else watched if one.arguments["command"] == watch.WATCH else "" for one in calls
    ]  # fmt: skip
    pairs = zip(calls, texts, strict=True)
    return Answer(tuple(ToolMessage(str(at), x.tool, text) for at, (x, text) in enumerate(pairs)))


def test_what_helped_for_a_moment_tells_more_than_a_restart_that_was_a_guess() -> None:
    right, guess = idea("bad-config"), Idea("unknown", "edge", "nobody knows", 0.2)
    tried = Tried(ideas=[right], seen=before().observed)
    work = lasts(before().brief, right, tried, due=True)
    calls = next(work).calls
    failing = tuple(ToolMessage(str(at), x.tool, "edge: FAILS") for at, x in enumerate(calls))
    with pytest.raises(StopIteration) as ended:
        work.send(Answer(failing))
    assert ended.value.value is False
    tried.ideas.append(guess)
    assert tried.cause is right
    tried.ideas.append(idea("permission-change"))
    assert tried.cause.category == "permission-change"


async def test_checks_that_hold_while_the_room_runs_out_again_are_not_called_resolved() -> None:
    rows = "5197824 1794772990.5 root /mnt/spool/access.log\n"
    machine = Machine(
        {
            **WELL,
            "df -P": SPACE,
            "find /mnt/spool": rows,
            "find /proc/[0-9]*/fd -lname '/*'": "/proc/7/fd/3 /mnt/spool/access.log\n",
            "tail -n 40 /mnt/spool/access.log": "GET /up\n" * 20,
            "one() {": "space /mnt/spool 200 700 1200 3920\n",
            "a=$(stat": "from 10 to 20\n",
            "mkdir -p": "",
            "[ -O": "",
            "supervisorctl restart": "edge: started",
        },
        mends=lambda command: "truncate" in command,
    )
    await converse(machine, brief())
    assert not [one for one in machine.acts if one["action"] == "resolve"]
    handed = next(one for one in machine.acts if one["action"] == "escalate")
    assert "full again" in str(handed["summary"])


def test_a_file_system_that_is_still_full_is_not_mended_though_nothing_rises() -> None:
    full = "full space /mnt/spool 0"
    about = Idea("log-flood", "edge", "it writes much", 0.9, "/mnt/spool/logs/edge.log")
    assert "no room still" in watch.unrest(full, before(), about)
    elsewhere = Idea("log-flood", "edge", "it writes much", 0.9, "/var/log/edge.log")
    assert not watch.unrest(full, before(), elsewhere)
    assert not watch.unrest("full space / 0", before(), elsewhere)  # it had room before
    assert not watch.unrest(full, before(), idea("bad-config"))


def test_what_is_as_good_as_full_is_among_what_is_watched() -> None:
    script = watch.WATCH.replace(
        watch._ONE, "printf 'space /a 100 1\\nspace /b 100 3\\nfiles /c 7 0\\nmemory 3 9\\n'"
    ).replace("sleep 2", ":")
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert [row for row in ran.stdout.splitlines() if row.startswith("full")] == [
        "full files /c 0", "full space /a 1"
    ]  # fmt: skip


def test_what_took_others_with_it_is_watched_though_they_were_mended_last() -> None:
    leak = replace(idea("descriptor-leak"), fix=("supervisorctl restart edge",))
    fallen = Idea(CASCADE, "till", "till gave up", 0.9, fix=("supervisorctl start till",))
    seen = before().observed
    at_once = Tried(ideas=[cause_of([leak, fallen])], seen=seen)
    one_by_one = Tried(ideas=[leak, fallen], seen=seen, useful=[leak],
                       earlier=[(leak, seen), (fallen, seen)])  # fmt: skip
    refuted = Tried(ideas=[leak, fallen], seen=seen, earlier=[(leak, seen), (fallen, seen)])
    for tried, watched in ((at_once, True), (one_by_one, True), (refuted, False)):
        assert tried.ideas[-1].category == CASCADE
        work = lasts(before().brief, tried.ideas[-1], tried, due=True)
        calls, counts = next(work).calls, iter((9, 20, 20, 31, 31, 42))
        assert ({"command": watch.COUNT} in [call.arguments for call in calls]) is watched
        for _ in range(2 if watched else 0):
            calls = work.send(answered(calls, counts)).calls
        with pytest.raises(StopIteration) as ended:
            work.send(answered(calls, counts))
        assert ended.value.value is not watched
