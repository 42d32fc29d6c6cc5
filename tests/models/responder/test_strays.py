"""Those who hold on to a service from outside, and pieces of work that somebody is at."""

from collections.abc import Mapping

from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rules import crowds, pieces, strays
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

ENTRY = """\
==> /etc/supervisor/conf.d/depot.conf <==
[program:depot]
command=python3 /app/depot/main.py --inbox=/vol/inbox --port=7400
stdout_logfile=/var/log/supervisor/depot.log
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544    8000 supervisord -n
      7       1 app      Sl     0  0.1 83328    7000 python3 /app/depot/main.py --inbox=/vol/inbox
     90       1 root     S      0  2.1 13328     600 python3 /home/kim/watch.py 7400
     91       1 root     S      0  2.1 13328     600 python3 /home/kim/tail.py 7400
"""
INBOX = ("/vol/inbox",)


def case(seen: Mapping[str, str]) -> Case:
    usual = {
        probes.STATUS: "depot                            RUNNING   pid 7, uptime 1:56:10",
        probes.PROGRAMS: ENTRY,
        probes.PROCESSES: PROCESSES,
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.LISTENERS: 'LISTEN 0 64 127.0.0.1:7400 0.0.0.0:* users:(("python3",pid=7,fd=3))',
    }
    brief = Brief("inc-1", service="depot", services=(BriefService("depot"),))
    return Case(brief, [Seen(command, text) for command, text in {**usual, **seen}.items()])


def row(pid: int, port: int, unread: int = 0, state: str = "ESTAB") -> str:
    return (
        f'{state} {unread} 0 127.0.0.1:{port} 127.0.0.1:7400 users:(("python3",pid={pid},fd=4))\n'
    )


def test_who_is_spoken_of_comes_before_who_does_not_read_before_who_has_most() -> None:
    looks = (row(90, 5001) + row(90, 5002) + row(91, 5003, unread=900)) * strays.SAMPLES
    machine = case({probes.CLIENTS: looks})
    assert [one.pid for one in strays.clients(machine, "depot")] == [91, 90]
    told = list(strays.clients(machine, "depot", "slow reader at 127.0.0.1:5002"))
    assert [(one.pid, one.named, one.count) for one in told] == [(90, True, 2), (91, False, 1)]
    assert told[0].stays
    assert told[1].unread == 900


def test_who_comes_and_goes_with_little_is_nobody_to_suffer_from() -> None:
    assert not list(strays.clinging(case({probes.CLIENTS: row(90, 5001)}), "depot", ""))
    stays = case({probes.CLIENTS: row(90, 5001) * strays.SAMPLES})
    assert [one.pid for one, _ in strays.clinging(stays, "depot", "")] == [90]


def test_a_service_that_is_looked_after_is_never_one_who_clings() -> None:
    own = case({probes.CLIENTS: row(7, 5001, unread=900) * strays.SAMPLES})
    assert [one.pid for one in strays.clients(own, "depot")] == [7]
    assert not list(strays.clinging(own, "depot", "slow reader at 127.0.0.1:5001"))


def test_the_one_who_started_the_others_is_ended_first() -> None:
    machine = case({})
    chain = [one for one in machine.processes if one.pid in (90, 91)]
    first, surely = strays.ended(chain)
    assert first == "kill 90 91"
    assert "kill -9" in surely


def test_words_of_a_line_that_may_name_a_piece_are_no_times_and_no_plain_words() -> None:
    said = "2026-11-15 20:03:10 ERROR pid 7 order-17.json from 10.0.0.1 took 3.2 at v1.2.3"
    assert pieces.tokens(said) == ["order-17.json"]


def test_the_piece_that_is_open_is_found_and_a_lock_is_none() -> None:
    opened = (
        "lrwx------ 1 app app 64 Nov 15 20:00 1 -> /vol/inbox/none\n"
        "lr-x------ 1 app app 64 Nov 15 20:00 5 -> /vol/inbox/a-7.json\n"
        "lr-x------ 1 app app 64 Nov 15 20:00 6 -> /vol/inbox/.lock\n"
        "lr-x------ 1 app app 64 Nov 15 20:00 8 -> /vol/done/a-6.json\n"
    )
    machine = case({probes.descriptors(7): opened, pieces.waiting(INBOX): ""})
    process = machine.process(7)
    assert process is not None
    found = list(pieces.at_work(machine, "depot", process))
    assert [(one.path, one.why) for one in found] == [("/vol/inbox/a-7.json", "it has it open")]


def test_what_was_read_since_it_was_written_is_what_it_is_at() -> None:
    rows = (
        "1794772990.0 1794772995.0 /vol/inbox/new.json\n"
        "1794772980.0 1794772000.0 /vol/inbox/read.json\n"
        "1794772970.0 1794772000.0 /vol/inbox/before.json\n"
    )
    machine = case({probes.descriptors(7): "", pieces.waiting(INBOX): rows})
    process = machine.process(7)
    assert process is not None
    found = list(pieces.at_work(machine, "depot", process))
    assert [one.path for one in found] == ["/vol/inbox/read.json"]
    assert found[0].sure < 0.1
    assert not pieces.wants(machine, "depot", 7)


def test_where_work_waits_is_known_by_its_folder_and_never_by_a_service() -> None:
    machine = case({})
    assert pieces.folders(machine, "depot") == ["/vol/inbox"]
    assert probes.descriptors(7) in pieces.wants(machine, "depot", 7)


def kinds(*rows: str) -> Case:
    return case({crowds.sorted_out("/vol/x"): "\n".join(rows), crowds.notes("/vol/x", "/vol"): ""})


def test_files_of_a_folder_are_told_from_others_by_what_they_are_called() -> None:
    machine = kinds(
        "3 0 1794772990.1 f||order-|.json order-1.json", "900 900 1794.5 f|.|s_|.tmp .s_1.tmp"
    )
    first, second = crowds.kinds(machine, "/vol/x")
    assert (first.count, first.filter) == (900, "-name '.s_*.tmp' -empty")
    assert second.filter == "-name 'order-*.json' ! -name '.*'"


def test_what_people_say_must_stay_does_not_go() -> None:
    notes = crowds.notes("/vol/x", "/vol")
    rows = {crowds.sorted_out("/vol/x"): "900 0 1.5 f||note-|.json note-1.json"}
    for said, goes in {
        "*.json may be removed after a day": True,
        "*.json must be kept, never purge them": False,
        "*.txt may be removed after a day": False,
    }.items():
        machine = case({**rows, notes: f"==> /vol/README <==\n{said}"})
        found = crowds.kinds(machine, "/vol/x")
        assert bool(crowds.told(machine, found[0], "/vol/x", "/vol")) is goes


def test_the_few_are_not_moved_for_the_many() -> None:
    machine = kinds("900 0 1.5 f||order-|.json order-1.json", "9 0 1.5 f||sess_| sess_1")
    found = crowds.kinds(machine, "/vol/x")
    assert not list(crowds.may_go(machine, found, "/vol/x", "/vol"))
