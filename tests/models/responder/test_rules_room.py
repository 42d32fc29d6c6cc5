"""Rules for file systems, logs, memory and open files, over what commands printed."""

from collections.abc import Mapping

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules import (
    crowds,
    flood,
    inodes,
    leaks,
    load,
    pieces,
    room,
    space,
)
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

NOW = 1794772992.0
ENTRY = """\
==> /etc/supervisor/conf.d/depot.conf <==
[program:depot]
command=/opt/bin/as-app python3 /app/depot/main.py --data=/vol/live --log-file=/vol/log/now
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544    8000 supervisord -n
      7       1 app      Sl     0  0.1 83328    7000 python3 /app/depot/main.py --data=/vol/live
     90       1 root     S      0  2.1 13328     600 python3 /home/kim/watch.py 7400
"""
FULL = """\
Filesystem     1024-blocks  Used Available Capacity Mounted on
tmpfs               196608 20480    176128      11% /
tmpfs                10240 10240         0     100% /vol
"""
LARGE = probes.large("/vol")
CLOSELY = (LARGE, probes.DELETED, probes.OPEN_FILES, room.links("/vol"))


def case(seen: Mapping[str, str], said: str = "No space left on device") -> Case:
    """A machine with one service; what was looked at and is not named printed nothing."""
    usual = {
        probes.STATUS: "depot                            RUNNING   pid 7, uptime 1:56:10",
        probes.PROGRAMS: ENTRY,
        probes.PROCESSES: PROCESSES,
        probes.CLOCK: f"{NOW:.0f} 2026-11-15 20:03:12 UTC +0000",
        probes.SPACE: FULL,
    }
    brief = Brief(
        "inc-1",
        service="depot",
        check=BriefCheck("depot", "curl -s http://127.0.0.1:7400/", said, 1),
        services=(BriefService("depot"),),
    )
    return Case(brief, [Seen(command, text) for command, text in {**usual, **seen}.items()])


def rows(*files: tuple[int, float, str]) -> str:
    return "\n".join(f"{size} {NOW - age} root {path}" for size, age, path in files)


def nights(count: int) -> list[tuple[int, float, str]]:
    return [
        (1_500_000, 86400.0 * (count - n), f"/vol/nightly/all-{n:02}.img") for n in range(count)
    ]


def looked(large: str, **more: str) -> dict[str, str]:
    return {**dict.fromkeys(CLOSELY, ""), LARGE: large, **more}


def test_of_many_copies_the_older_ones_are_moved_and_data_stays() -> None:
    seen = looked(rows((2_000_000, 60.0, "/vol/live/seg-1.dat"), *nights(5)))
    fixes = [idea.fix for idea in space.full_disk(case(seen)) if idea.fix]
    assert fixes
    told = " ".join(command for fix in fixes for command in fix)
    assert "all-00.img" in told
    assert not any(name in told for name in ("all-03.img", "all-04.img", "seg-1", "rm "))


def test_what_a_link_leads_to_is_not_moved() -> None:
    found = [(900_000, 8e6 - n, f"/vol/builds/{n}/app.pak") for n in range(20, 26)]
    seen = looked(rows(*found)) | {room.links("/vol"): "/vol/current -> builds/20"}
    told = " ".join(c for idea in space.full_disk(case(seen)) for c in idea.fix)
    assert "/vol/builds/21/app.pak" in told
    assert "/vol/builds/20/app.pak" not in told


def test_a_stranger_that_writes_a_large_file_is_ended_before_the_file_is_moved() -> None:
    seen = looked(rows((6_000_000, 40.0, "/vol/x.bin"))) | {
        probes.OPEN_FILES: "/proc/90/fd/3 /vol/x.bin"
    }
    first = next(iter(space.full_disk(case(seen))))
    assert first.wants == (room.flags(90, 3),)
    assert not first.fix
    writing = seen | {room.flags(90, 3): "flags:\t0102001"}
    best = max(space.full_disk(case(writing)), key=lambda idea: idea.score)
    assert best.fix[0] == "kill 90"
    assert any("mv " in command and "/vol/x.bin" in command for command in best.fix)
    narrow = writing | {probes.SPACE: FULL.splitlines()[0] + "\n" + FULL.splitlines()[-1]}
    emptied = [c for idea in space.full_disk(case(narrow)) for c in idea.fix if "truncate" in c]
    assert set(emptied) == {"[ ! -L /vol/x.bin ] && truncate -s 0 /vol/x.bin"}
    reading = seen | {room.flags(90, 3): "flags:\t0100000"}
    assert not any("kill" in c for idea in space.full_disk(case(reading)) for c in idea.fix)


def test_what_a_database_keeps_is_never_moved_whoever_writes_it() -> None:
    for path in ("/vol/x.sqlite3-wal", "/vol/x.db-journal", "/vol/live/x.bin"):
        seen = looked(rows((6_000_000, 40.0, path))) | {
            probes.OPEN_FILES: f"/proc/90/fd/3 {path}",
            room.flags(90, 3): "flags:\t0102001",
        }
        told = [command for idea in space.full_disk(case(seen)) for command in idea.fix]
        assert "kill 90" in told
        assert not any(path in command for command in told)
        assert any("wal_checkpoint" in command for command in told) is path.endswith("-wal")


def test_what_lies_in_a_cache_is_only_moved_and_what_there_is_much_of_first() -> None:
    full = FULL.replace("/vol", "/var/cache")
    looks = (probes.large("/var/cache"), room.links("/var/cache"), *CLOSELY[1:3])
    many = [(700_000, 9000.0 - n, f"/var/cache/web/temp/{n:010}") for n in range(9)]
    large = rows((2_000_000, 9e5, "/var/cache/web/assets/bundle.bin"), *many)
    seen = {**dict.fromkeys(looks, ""), probes.SPACE: full, looks[0]: large}
    fixes = [idea.fix for idea in space.full_disk(case(seen)) if idea.fix]
    assert fixes
    told = " ".join(command for fix in fixes for command in fix)
    assert "/temp/0000000001" in told
    assert "bundle.bin" not in told
    assert "rm " not in told
    alone = {**seen, looks[0]: rows((9_000_000, 9e5, "/var/cache/web/assets/bundle.bin"))}
    assert not any(idea.fix for idea in space.full_disk(case(alone)))


def test_the_folder_that_holds_most_files_is_found_below_folders_that_hold_few() -> None:
    filled = FULL.replace("100% /vol", " 99% /vol")
    crowds = "1400 /vol\n1250 /vol/small\n80 /vol/small/a\n79 /vol/small/b\n90 /vol/live"
    seen = {probes.INODES: filled, room.crowds("/vol"): crowds}
    ideas = list(inodes.no_inodes(case(seen)))
    assert {idea.locus for idea in ideas} == {"/vol/small"}
    told = " ".join(command for idea in ideas for command in idea.fix)
    assert "mv " in told
    assert "-delete" not in told


def test_files_that_a_service_works_with_are_left_alone_however_many_they_are() -> None:
    seen = {
        probes.INODES: FULL.replace("100% /vol", " 99% /vol"),
        room.crowds("/vol"): "1400 /vol\n1300 /vol/live\n50 /vol/small",
    }
    assert not any(idea.fix for idea in inodes.no_inodes(case(seen)))


def test_what_people_may_keep_is_not_moved_however_much_it_is() -> None:
    seen = {
        probes.INODES: FULL.replace("100% /vol", " 99% /vol"),
        room.crowds("/vol"): "1400 /vol\n1300 /vol/letters\n50 /vol/small",
    }
    told = [command for idea in inodes.no_inodes(case(seen)) for command in idea.fix]
    assert told
    assert all("-type d -empty " in one and "-exec rmdir" in one for one in told)


def test_a_level_is_edited_wherever_it_is_set() -> None:
    entry = ENTRY.replace("--data", "--log-level=debug --data")
    line = 't=2026-11-15T20:03:11Z lvl=debug msg="looked at 7"'
    seen = looked(rows((9_000_000, 5.0, "/vol/log/now"))) | {
        probes.PROGRAMS: entry,
        probes.tail("/vol/log/now"): "\n".join([line] * 9),
    }
    best = max(space.full_disk(case(seen)), key=lambda idea: idea.score)
    assert best.category == "log-flood"
    assert any("sed" in c and "info" in c and "depot.conf" in c for c in best.fix)
    assert best.fix[-1].endswith(" && truncate -s 0 /vol/log/now")
    assert "tail -c" in best.fix[-1]
    assert "/vol/log/now" in best.proof


def test_work_that_fails_again_and_again_is_set_aside() -> None:
    bad = "/vol/drop/a7.json"
    line = f"1794772990.1 [error] {bad}: Expecting value; trying again"
    listed = "-rw-r--r-- 1 app app 12 2026-11-15 20:01:02.000000000 +0000 " + bad
    seen = looked(rows((9_000_000, 5.0, "/vol/log/now"))) | {
        probes.tail("/vol/log/now"): "\n".join([line] * 9),
        probes.rows(bad): listed,
    }
    ideas = [idea for idea in space.full_disk(case(seen)) if idea.fix]
    assert any(any("mv " in c and bad in c for c in idea.fix) for idea in ideas)


def test_whoever_is_near_the_end_of_its_memory_leaks_whatever_its_log_says() -> None:
    seen = {probes.VITALS: "7 may have 1024 files open\n7 has 88000000 of 90000000 bytes"}
    best = max(leaks.leaking(case(seen, "heap?")), key=lambda idea: idea.score)
    assert (best.category, best.component) == ("memory-leak", "depot")
    assert best.fix == ("supervisorctl restart depot",)
    well = {probes.VITALS: "7 has 70000000 of 90000000 bytes", probes.AGAIN: PROCESSES}
    assert not list(leaks.leaking(case(well, "heap?")))


def test_open_files_are_counted_where_nobody_speaks_of_them() -> None:
    seen = {probes.VITALS: "     63 /proc/7/fd\n7 may have 64 files open", probes.CONNECTIONS: ""}
    seen |= {probes.descriptors(7): "", probes.limits(7): "Max open files  64  64  files"}
    found = list(leaks.descriptors(case(seen, "cannot go on")))
    assert [idea.fix for idea in found if idea.fix] == [("supervisorctl restart depot",)]


def test_who_asks_without_end_is_a_stranger_with_connections() -> None:
    line = 'ESTAB 0 0 127.0.0.1:{} 127.0.0.1:7400 users:(("python3",pid=90,fd=4))'
    seen = {
        probes.CLIENTS: "\n".join(line.format(41000 + n) for n in range(9)),
        probes.LISTENERS: 'LISTEN 0 5 127.0.0.1:7400 0.0.0.0:* users:(("python3",pid=7,fd=3))',
    }
    best = max(load.hammered(case(seen, "too many at a time")), key=lambda idea: idea.score)
    assert best.fix == ("kill 90",)
    assert not list(load.hammered(case(seen, "no such file")))


def test_a_log_counts_as_one_by_what_settings_call_it() -> None:
    assert flood.is_log(case({}), "/vol/log/now")
    entry = ENTRY.replace("/vol/log/now", "/vol/stream.bin")
    assert flood.is_log(case({probes.PROGRAMS: entry}), "/vol/stream.bin")
    assert not flood.is_log(case({}), "/vol/live/seg-1.dat")


def test_whoever_comes_and_goes_is_known_by_who_started_it() -> None:
    line = 'ESTAB 0 0 127.0.0.1:{} 127.0.0.1:7400 users:(("curl",pid={},fd=4))'
    seen = {probes.CLIENTS: "\n".join(
        f"{line.format(41000 + n, 500 + n)}\n    {500 + n}      90" for n in range(5)
    )}  # fmt: skip
    assert [(pid, count) for pid, count, _ in case(seen).crowd(7400)] == [(90, 5)]


def test_what_a_scheduler_starts_is_nobodys_where_it_does_harm() -> None:
    processes = (
        PROCESSES
        + "     20       1 root     S      0  0.0  2000    7000 /usr/sbin/cron -f\n"
        + "     21      20 root     S      0  0.0  2000     700 /bin/sh -c /opt/jobs/pack\n"
    )
    status = "depot RUNNING   pid 7, uptime 1:56:10\ncron RUNNING   pid 20, uptime 1:56:10"
    here = case({probes.PROCESSES: processes, probes.STATUS: status})
    assert [one.pid for one in here.strangers(21, harmful=True)] == [21]
    assert not here.strangers(21)
    assert not here.strangers(20, harmful=True)


def test_who_does_not_read_what_is_kept_for_it_is_ended_before_the_service_starts_anew() -> None:
    line = 'ESTAB 0 0 127.0.0.1:41000 127.0.0.1:7400 users:(("python3",pid=90,fd=4))'
    seen = {
        probes.VITALS: "7 has 88000000 of 90000000 bytes",
        probes.AGAIN: PROCESSES,
        probes.CLIENTS: line,
        probes.LISTENERS: 'LISTEN 0 5 127.0.0.1:7400 0.0.0.0:* users:(("python3",pid=7,fd=3))',
    }
    said = "MemoryError: 27 events wait for 127.0.0.1:41000"
    best = max(leaks.leaking(case(seen, said)), key=lambda idea: idea.score)
    assert best.fix[0] == "kill 90"
    assert best.fix[-1] == "supervisorctl restart depot"


WORKER = """\
==> /etc/supervisor/conf.d/depot.conf <==
[program:depot]
command=python3 /app/depot/main.py --inbox=/vol/queue --done=/vol/done --poll-interval=5
stdout_logfile=/var/log/depot.log
"""
BURNING = "7 takes 4 % of a core itself and {} % by what it started, ready to run {} times of 8"


def spinning(more: Mapping[str, str], burn: str) -> list[Idea]:
    seen = {probes.PROGRAMS: WORKER, probes.BURN: burn, probes.descriptors(7): "", **more}
    return sorted(load.runaway(case(seen, "not done")), key=lambda idea: -idea.score)


def test_a_worker_that_spins_is_started_anew_without_what_it_spoke_of_last() -> None:
    said = "==> /var/log/depot.log <==\nrendering 10-a7x.txt\n"
    lying = pieces.lying(case({probes.PROGRAMS: WORKER}), "depot", ["10-a7x.txt"])
    seen = {probes.LOGS: said, lying: "/vol/queue/10-a7x.txt\n/vol/done/10-a7x.txt"}
    best = spinning(seen, BURNING.format(0, 8))[0]
    assert "/vol/queue/10-a7x.txt" in best.fix[1]
    assert "/vol/done" not in " ".join(best.fix)
    assert best.fix[-1] == "supervisorctl restart depot"


def test_who_only_starts_others_that_are_busy_is_busy() -> None:
    assert spinning({}, BURNING.format(60, 1))[0].claim.endswith("eats 64 % of a core")
    assert not spinning({}, BURNING.format(2, 1))


def test_a_pause_of_nothing_is_set_right_in_its_one_line() -> None:
    entry = WORKER.replace("--poll-interval=5", "--poll-interval=0")
    best = spinning({probes.PROGRAMS: entry}, BURNING.format(60, 8))[0]
    assert "poll" in best.fix[1]
    assert best.fix[1].startswith("sed -i -E ")
    assert best.fix[-1] == "supervisorctl restart depot"


def test_a_query_without_end_is_given_up_and_the_database_goes_on() -> None:
    processes = PROCESSES.replace(
        "python3 /app/depot/main.py --data=/vol/live", "postgres: app shop 127.0.0.1(41022) SELECT"
    )
    found = spinning({probes.PROCESSES: processes, probes.CLIENTS: ""}, BURNING.format(60, 8))
    assert found[0].fix == ("kill -INT 7",)
    assert not any("restart" in one for idea in found for one in idea.fix)


def test_what_changes_a_database_goes_on_however_busy_it_is() -> None:
    for doing, spared in (("SELECT", False), ("VACUUM", True), ("UPDATE", True), ("COPY", True)):
        processes = PROCESSES.replace(
            "python3 /app/depot/main.py --data=/vol/live",
            f"postgres: app shop 127.0.0.1(41022) {doing}",
        )
        found = spinning({probes.PROCESSES: processes, probes.CLIENTS: ""}, BURNING.format(60, 8))
        assert any(idea.fix for idea in found) is not spared, doing


def test_marks_among_what_people_keep_are_moved_and_nothing_else() -> None:
    folder = "/vol/live"
    marks = f"900 900 {NOW}1 f|.||.seen .0001.seen\n60 0 {NOW}2 f||note-| note-x7"
    seen = {
        probes.INODES: FULL.replace("100% /vol", " 99% /vol"),
        room.crowds("/vol"): "1400 /vol\n1300 /vol/live\n50 /vol/small",
        crowds.sorted_out(folder): marks,
        probes.names_in(folder): "note-x7",
        crowds.notes(folder, "/vol"): "==> /vol/README <==\n.*.seen only mark what was imported",
    }
    best = max(inodes.no_inodes(case(seen)), key=lambda idea: idea.score)
    assert "-name '.*.seen' -empty -mmin +60" in best.fix[-1]
    only = {**seen, crowds.sorted_out(folder): f"900 0 {NOW}2 f||note-| note-x7"}
    assert not any(idea.fix for idea in inodes.no_inodes(case(only)))


def test_a_database_that_writes_down_every_statement_is_quietened_and_reads_it_anew() -> None:
    entry = (
        "==> /etc/supervisor/conf.d/depot.conf <==\n[program:depot]\n"
        "command=/usr/lib/postgresql/bin/postgres -D /vol/live -c config_file=/etc/pg/main.conf\n"
        "stdout_logfile=/vol/server.out\n"
    )
    running = PROCESSES.replace("python3 /app/depot/main.py", "/usr/lib/postgresql/bin/postgres")
    seen = dict.fromkeys(CLOSELY, "") | {
        probes.PROGRAMS: entry,
        probes.PROCESSES: running,
        probes.show("/etc/pg/main.conf"): "port = 5432\nlog_statement = 'all'\n",
        LARGE: rows((9_000_000, 1.0, "/vol/server.out")),
        probes.tail("/vol/server.out"): "LOG:  statement: select 1\n" * 9,
    }
    ideas = [idea for idea in space.full_disk(case(seen)) if idea.fix]
    best = max(ideas, key=lambda idea: idea.score)
    assert any(one.startswith("sed -i -E") and "none" in one for one in best.fix)
    assert "kill -HUP 7" in best.fix
    assert not any("restart" in one for one in best.fix)


def test_work_that_is_called_by_its_bare_name_is_set_aside() -> None:
    said = "bad record in a-7x.json: expecting value; again\n" * 9
    here = case({probes.PROGRAMS: WORKER})
    look = pieces.seeking(here, "depot", said)[0]
    seen = {probes.PROGRAMS: WORKER, look: "/vol/queue/a-7x.json\n/vol/live/a-7x.json"}
    assert pieces.called(case(seen), "depot", said) == ["/vol/queue/a-7x.json"]


def test_a_bound_that_was_taken_away_lately_is_set_again_where_nothing_was_kept() -> None:
    entry = ENTRY.replace("--data=/vol/live", "/etc/depot.ini --data=/vol/live")
    seen = {
        probes.PROGRAMS: entry,
        probes.VITALS: "7 has 88000000 of 90000000 bytes",
        probes.AGAIN: PROCESSES,
        probes.CLIENTS: "",
        probes.show("/etc/depot.ini"): "[depot]\nmax_cached = 0\nworkers = 0\n",
        probes.CHANGED: f"40 {NOW - 300} root /etc/depot.ini",
        probes.copies("/etc/depot.ini"): "",
        probes.copies("/etc/supervisor/conf.d/depot.conf"): "",
    }
    best = max(leaks.leaking(case(seen, "no")), key=lambda idea: idea.score)
    assert best.locus == "/etc/depot.ini"
    assert "max[-_]cached" in best.fix[1]
    old = {**seen, probes.CHANGED: ""}
    assert max(leaks.leaking(case(old, "no")), key=lambda idea: idea.score).fix == (
        "supervisorctl restart depot",
    )


def test_a_script_that_writes_now_and_then_is_ended_before_its_file_is_moved() -> None:
    seen = looked(rows((9_000_000, 30.0, "/vol/seen.out"))) | {
        probes.mentions("/vol/seen.out"): "/home/kim/watch.py:3:out = '/vol/seen.out'",
    }
    best = max(space.full_disk(case(seen)), key=lambda one: one.score)
    assert best.fix[0] == "kill 90"
    assert "mv " in best.fix[-1]
    other = {**seen, probes.mentions("/vol/seen.out"): "/home/kim/notes.txt:3:/vol/seen.out"}
    old = seen | {LARGE: rows((9_000_000, 90_000.0, "/vol/seen.out"))}
    for machine in (other, old):
        assert not any("kill 90" in one.fix for one in space.full_disk(case(machine)))
