"""Rules for what is kept without end: settings that have it kept, logs that a program reads itself,
and what may go at which age; over what commands printed."""

from msgspec.structs import replace

from hermes_agent.models.responder.brief import BriefService
from hermes_agent.models.responder.rules import (
    echoes,
    flood,
    hoards,
    inodes,
    leaks,
    load,
    room,
    shelves,
    space,
)
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from tests.models.responder.test_rules_room import ENTRY, FULL, NOW, PROCESSES, case, looked, rows

ENV = "/app/depot/.env"
WITH_ENV = ENTRY.replace("--data=/vol/live", f"--env-file={ENV}")


def told(fixes: list[tuple[str, ...]]) -> str:
    return " ".join(command for fix in fixes for command in fix)


def test_what_is_kept_of_each_request_is_switched_off_before_it_is_moved() -> None:
    bodies = [(900_000, 9000.0 - n, f"/vol/bodies/{n:010}") for n in range(9)]
    seen = looked(rows((1_000_000, 9e6, "/vol/live/all.dat"), *bodies)) | {
        probes.PROGRAMS: WITH_ENV,
        probes.show(ENV): "BODY_TEMP=/vol/bodies\nSAVE_BODIES=on\nSAVE_COSTS=on\n",
    }
    best = max(space.full_disk(case(seen)), key=lambda idea: idea.score)
    assert any("sed" in command and "bodies" in command.lower() for command in best.fix)
    assert "COSTS" not in told([best.fix])
    assert "mv " in best.fix[-1]
    assert best.undo.startswith("cp -p")


def test_how_many_are_kept_is_no_switch_and_other_places_are_not_meant() -> None:
    seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): "KEEP=1\nTRACE_DIR=/vol/traces\n"}
    assert not list(hoards.switches(case(seen), "depot", "/vol/keep"))
    found = list(hoards.switches(case(seen), "depot", "/vol/traces"))
    assert [one.key for one in found] == ["TRACE_DIR"]
    assert "# TRACE_DIR" in told([one.fix for one in found])


def test_what_somebody_needs_is_kept_however_much_it_is() -> None:
    text = "DUMP_BACKUPS=on\nSTORE_UPLOADS=on\nRECORD_AUDIT=on\nTRACE_BACKUPS=/vol/backups\n"
    text += "RECORD_FRAUD=on\nSAVE_VIRUSES=on\n"
    seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): text}
    for folder in ("/vol/backups", "/vol/uploads", "/vol/audit", "/vol/fraud", "/vol/viruses"):
        assert not list(hoards.switches(case(seen), "depot", folder))


def test_no_log_goes_to_where_anybody_may_put_one() -> None:
    assert probes.TRUSTED in echoes.elsewhere("ship.log")


def test_a_program_that_reads_its_own_log_gets_it_where_it_was() -> None:
    log = "/vol/log/ship.log"
    settings = f"WATCH=/vol/log/*.log\nLOG_FILE={log}\nEXCLUDE=web.*\n"
    seen = {
        probes.PROGRAMS: WITH_ENV,
        probes.show(ENV): settings,
        echoes.elsewhere("ship.log"): f"{log}\n/var/log/depot/ship.log",
    }
    first, other = echoes.echoes(case(seen), "depot", log)
    assert "depot\\/ship.log" in told([first.fix])
    assert "web.*,ship.log" in told([other.fix])
    apart = seen | {probes.show(ENV): settings.replace("/vol/log/*", "/srv/log/*")}
    assert not list(echoes.echoes(case(apart), "depot", log))


def test_a_log_that_rushes_is_not_only_emptied() -> None:
    def lines(seconds: float) -> str:
        return "\n".join(f"{NOW - n * seconds:.0f} [info] asked" for n in range(30, 0, -1))

    found = looked(rows((9_000_000, 5.0, "/vol/log/now")))
    for seconds, only in ((0.01, False), (60.0, True)):
        seen = found | {probes.tail("/vol/log/now"): lines(seconds)}
        assert flood.is_slow(case(seen), "/vol/log/now", 10240) is only
        disk = [one for one in space.full_disk(case(seen)) if one.category == "disk-full"]
        assert any("truncate" in told([one.fix]) for one in disk) is only


def test_what_lies_in_scratch_folders_is_left_for_a_day() -> None:
    for age, goes in ((600.0, False), (9e5, True)):
        for place in ("/tmp/x.bin", "/var/tmp/y.iso"):
            one = parse.Sized(9, NOW - age, "a", place, place)
            assert room.disposable(one, NOW) is goes
    assert not room.disposable(parse.Sized(9, 1.0, "a", "/tmp/live.sqlite3", ""), NOW)


def test_what_lay_there_for_long_is_not_what_took_the_room() -> None:
    for age, goes in ((600.0, True), (9e6, False)):
        seen = looked(rows((9_000_000, age, "/vol/kept/export-2025.csv")))
        fixes = [idea.fix for idea in space.full_disk(case(seen)) if idea.fix]
        assert ("export-2025" in told(fixes)) is goes


OPEN = {
    probes.VITALS: "     63 /proc/7/fd\n7 may have 64 files open",
    probes.limits(7): "Max open files  64  64  files",
    probes.CONNECTIONS: "",
    probes.PROGRAMS: WITH_ENV,
    probes.show(ENV): "PORT=7400\nTRACE_DIR=/vol/traces\n",
}


def test_files_that_a_setting_has_written_are_not_only_closed_by_a_restart() -> None:
    listed = "\n".join(
        f"l-wx------ 1 app app 64 Nov 15 20:01 {n} -> /vol/traces/{n}.trace" for n in range(3, 63)
    )
    seen = OPEN | {probes.descriptors(7): listed, probes.copies(ENV): "==> lines <==\n2"}
    best = max(leaks.descriptors(case(seen, "cannot go on")), key=lambda idea: idea.score)
    assert any("TRACE_DIR" in command for command in best.fix)
    copied = seen | {probes.copies(ENV): f"==> lines <==\n2\n==> {ENV}.bak <==\n> TRACE_DIR=/vol"}
    best = max(leaks.descriptors(case(copied, "cannot go on")), key=lambda idea: idea.score)
    assert any(f"cp {ENV}.bak" in command for command in best.fix)
    other = seen | {probes.copies(ENV): f"==> lines <==\n2\n==> {ENV}.bak <==\n> PORT=7400"}
    fixes = [idea.fix for idea in leaks.descriptors(case(other, "cannot go on"))]
    assert ".bak" not in told(fixes)


def test_who_has_what_all_helpers_wait_for_is_ended_and_who_works_with_it_is_not() -> None:
    helpers = "".join(
        f"    {pid}       7 app      S      0  0.0  3328     300 bash /app/depot/notify r-{pid}\n"
        for pid in range(20, 27)
    )
    held = [f"/proc/{pid}/fd/9 /vol/live/notify.lock" for pid in (*range(20, 27), 90)]
    seen = OPEN | {
        probes.PROCESSES: PROCESSES.replace("0  2.1 13328", "0  0.0 13328") + helpers,
        probes.OPEN_FILES: "\n".join(held),
        probes.descriptors(7): "",
        probes.copies(ENV): "",
    }
    best = max(leaks.descriptors(case(seen, "cannot go on")), key=lambda idea: idea.score)
    assert best.fix[0] == "kill 90"
    assert "restart" not in told([best.fix])
    busy = seen | {probes.PROCESSES: PROCESSES + helpers}
    fixes = [idea.fix for idea in leaks.descriptors(case(busy, "cannot go on"))]
    assert "kill 90" not in told(fixes)


def versions(folder: str, names: list[str]) -> str:
    found = [f"files 300\t{folder}/{name}\nkilobytes 900\t{folder}/{name}" for name in names]
    found += [f"written {NOW - 9e5 + n} {folder}/{name}" for n, name in enumerate(names)]
    return "\n".join(found)


def test_the_oldest_releases_are_moved_and_the_one_in_use_and_those_before_it_stay() -> None:
    full = FULL.replace(
        "10240 10240         0     100% /vol", " 2000  1990        10      99% /vol"
    )
    names = [f"2026{month:02}01" for month in range(1, 8)]
    counted = "1990 /vol\n1850 /vol/releases\n" + "\n".join(f"300 /vol/releases/{n}" for n in names)
    seen = {
        probes.INODES: full,
        room.crowds("/vol"): counted,
        room.links("/vol"): "/vol/current -> releases/20260701",
        shelves.look("/vol/releases"): versions("/vol/releases", names),
        probes.OPEN_FILES: "",
    }
    best = max(inodes.no_inodes(case(seen)), key=lambda idea: idea.score)
    assert "mv " in best.fix[-1]
    assert "20260101" in best.fix[-1]
    assert not any(name in best.fix[-1] for name in names[-3:])
    early = seen | {room.links("/vol"): "/vol/current -> releases/20260101"}
    assert "mv " not in told([idea.fix for idea in inodes.no_inodes(case(early))])


def test_folders_of_years_are_not_versions() -> None:
    names = [f"scans-{year}" for year in range(2017, 2026)]
    seen = {shelves.look("/vol/kept"): versions("/vol/kept", names), room.links("/vol"): ""}
    assert not shelves.older(case(seen), "/vol/kept", "/vol", lambda _: True)
    for folder, some in (("/vol/revisions", False), ("/vol/releases", True)):
        names = [f"r{number}" for number in range(10, 19)]
        seen = {shelves.look(folder): versions(folder, names), room.links("/vol"): ""}
        assert bool(shelves.older(case(seen), folder, "/vol", lambda _: True)) is some


def test_very_many_small_files_take_the_room_where_no_large_one_does() -> None:
    seen = looked(rows((90_000, 9e5, "/vol/live/a.dat"))) | {
        room.heaps("/vol"): "10240 /vol\n9000 /vol/cache\n700 /vol/live"
    }
    ideas = [one for one in inodes.small_files(case(seen)) if one.fix]
    assert {idea.category for idea in ideas} == {"disk-full"}
    assert "find /vol/cache" in told([idea.fix for idea in ideas])
    large = looked(rows((9_000_000, 9e5, "/vol/live/a.dat")))
    assert not list(inodes.small_files(case(large)))


def burning(pid: int, share: float, ready: int) -> str:
    return (
        f"{pid} takes {share} % of a core itself and 0 % by what it started, "
        f"ready to run {ready} times of 8"
    )


def test_a_stranger_is_not_ended_for_being_a_little_busy() -> None:
    for line, said, ends in (
        (burning(90, 18.0, 1), "cannot go on", False),
        (burning(90, 18.0, 1), "timed out", True),
        (burning(90, 18.0, 8), "cannot go on", True),
        (burning(90, 80.0, 5), "cannot go on", True),
    ):
        found = list(load.runaway(case({probes.BURN: line}, said)))
        assert ("kill 90" in told([idea.fix for idea in found])) is ends


def test_a_setting_that_it_does_not_take_is_mended_before_a_leak_is_only_restarted_away() -> None:
    settings = "PORT=7400\nKEPT_SECONDS=9s\n"
    seen = {
        probes.PROGRAMS: WITH_ENV,
        probes.show(ENV): settings,
        probes.VITALS: "7 has 88000000 of 90000000 bytes",
        probes.copies(ENV): "",
        probes.CLIENTS: "",
        probes.tails(["/vol/log/now"]): "==> /vol/log/now <==\n"
        "ValueError: could not convert string to float: '9s'\nMemoryError",
    }
    best = max(leaks.leaking(case(seen, "heap?")), key=lambda idea: idea.score)
    assert "KEPT_SECONDS" in told([best.fix])
    assert best.category == "memory-leak"
    quiet = seen | {probes.show(ENV): settings.replace("9s", "9")}
    found = leaks.leaking(case(quiet, "heap?"))
    assert "KEPT_SECONDS" not in told([idea.fix for idea in found])


def test_levels_by_number_are_not_made_louder() -> None:
    for key, value, quiet in (
        ("LOG_LEVEL", "10", "30"), ("LOG_LEVEL", "30", ""), ("log_level", "7", "4"),
        ("LOG_LEVEL", "3", ""), ("verbosity", "9", "1"), ("RUST_LOG", "trace", "info"),
        ("access_log", "on", ""),
    ):  # fmt: skip
        seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): f"{key}={value}\n"}
        found = [edit for _, _, edit in flood.loud(case(seen), "depot")]
        assert bool(found) is bool(quiet), key
        assert not quiet or f"\\1{quiet}\\3" in found[0]


def test_logs_of_databases_are_neither_emptied_nor_cleared_away() -> None:
    for path in (
        "/var/log/journal/7f/system.journal", "/var/log/wtmp", "/vol/db/000012.log",
        "/var/log/mysql/mysql-bin.000017", "/vol/queue/commitlog/a.log.1", "/vol/log/x.db.1",
    ):  # fmt: skip
        assert not flood.is_log(case({}), path), path
        assert not room.disposable(parse.Sized(9, 1.0, "a", path, path), NOW), path
    assert flood.is_log(case({}), "/var/log/depot.log")


def test_a_small_log_beside_the_one_that_fills_is_left_as_it_is() -> None:
    line = "\n".join(["t=2026-11-15T20:03:11Z lvl=debug msg=asked"] * 9)
    seen = looked(rows((9_000_000, 5.0, "/vol/log/now"), (90_000, 5.0, "/vol/log/journal.log")))
    seen |= {probes.tail("/vol/log/now"): line}
    fixes = [idea.fix for idea in space.full_disk(case(seen)) if idea.fix]
    assert "/vol/log/now" in told(fixes)
    assert "journal.log" not in told(fixes)


def test_what_is_no_longer_cleared_away_is_bound_again() -> None:
    copies = [(1_500_000, 86400.0 * (6 - n), f"/vol/nightly/all-{n:02}.img") for n in range(6)]
    seen = looked(rows(*copies)) | {
        probes.PROGRAMS: WITH_ENV,
        probes.show(ENV): "PORT=7400\nKEEP_COPIES=99999\n",
        probes.copies(
            ENV
        ): f"==> lines <==\n2\n==> {ENV}.bak <==\n< KEEP_COPIES=3\n> KEEP_COPIES=9",
    }
    best = max(space.full_disk(case(seen)), key=lambda idea: idea.score)
    assert f"cp {ENV}.bak {ENV}" in best.fix
    assert "all-00.img" in best.fix[-1]


def test_work_that_waits_is_moved_and_never_deleted() -> None:
    for folder, deletes in (
        ("/vol/spool", False),
        ("/vol/tmp", False),
        ("/vol/sessions", True),
        ("/vol/tmp/cache", True),
    ):
        above = "1310 /vol/tmp\n" if folder.startswith("/vol/tmp/") else ""
        seen = {
            probes.INODES: FULL.replace("100% /vol", " 99% /vol"),
            room.crowds("/vol"): f"1400 /vol\n{above}1300 {folder}\n50 /vol/small",
        }
        fixes = [idea.fix for idea in inodes.no_inodes(case(seen))]
        assert "mv " in told(fixes)
        assert ("-delete" in told(fixes)) is deletes


def test_what_was_removed_and_is_only_held_open_is_let_go_by_who_holds_it() -> None:
    for pid, path, wanted in (
        (7, "/vol/live/old.bin", "supervisorctl restart depot"),
        (90, "/vol/log/web.log", "truncate -s 0 /proc/90/fd/4"),
        (90, "/vol/live/orders.db", ""),
    ):
        seen = looked("") | {probes.DELETED: f"/proc/{pid}/fd/4 {path} (deleted)"}
        fixes = [idea.fix for idea in space.full_disk(case(seen)) if idea.fix]
        assert fixes == ([(wanted,)] if wanted else [])


def test_a_service_that_reads_a_database_without_end_is_started_anew_and_the_log_stays() -> None:
    entry = ENTRY + "\n==> /etc/supervisor/conf.d/report.conf <==\n[program:report]\ncommand=r\n"
    running = (
        "depot      RUNNING   pid 7, uptime 1:56:10\nreport     RUNNING   pid 91, uptime 1:1:1"
    )
    seen = looked(rows((8_000_000, 5.0, "/vol/live/all.db-wal"))) | {
        probes.PROGRAMS: entry,
        probes.STATUS: running,
        probes.PROCESSES: PROCESSES + "     91       1 app  S  0  0.1 13328     600 report\n",
        probes.OPEN_FILES: "/proc/7/fd/3 /vol/live/all.db-wal\n/proc/91/fd/3 /vol/live/all.db-wal",
    }
    best = max(space.full_disk(case(seen)), key=lambda idea: idea.score)
    assert best.fix[0] == "supervisorctl restart report"
    assert "all.db-wal" not in told([best.fix])
    known = case(seen)
    slow = BriefService("report", about="monthly figures, takes hours")
    brief = replace(known.brief, services=(*known.brief.services, slow))
    fixes = [idea.fix for idea in space.full_disk(Case(brief, known.observed))]
    assert "restart report" not in told(fixes)


def test_what_tells_who_did_what_is_not_made_less() -> None:
    for key, some in (("audit_level", False), ("log_level", True)):
        seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): f"{key}=debug\n"}
        assert bool(list(flood.loud(case(seen), "depot"))) is some


def test_whoever_speaks_in_a_log_of_many_is_the_one_that_is_too_loud() -> None:
    line = "Nov 15 20:03:11 host report[91]: DEBUG looked at 7"
    running = (
        "depot      RUNNING   pid 7, uptime 1:1:1",
        "report     RUNNING   pid 91, uptime 1:1:1",
    )
    seen = {probes.STATUS: "\n".join(running)}
    for text, who in (([line] * 9, "report"), ([line, "Nov 15 20:03:11 host a: b", "c"], "depot")):
        told_so = seen | {probes.tail("/vol/log/all.log"): "\n".join(text)}
        assert flood.speaker_of(case(told_so), "/vol/log/all.log", "depot") == who


def changed(path: str) -> dict[str, str]:
    return {probes.CHANGED: f"99 {NOW - 60} root {path}"}


def test_memory_that_is_kept_for_a_look_is_switched_off_in_whatever_form_it_stands() -> None:
    told_of = {
        probes.VITALS: "7 has 990 of 1000 bytes", probes.AGAIN: "", probes.CLIENTS: "",
        probes.copies(ENV): "==> lines <==\n2", **changed(ENV),
    }  # fmt: skip
    for text, edit in (
        ("PORT=7400\nAPP_DEBUG=1\n", "\\1" + "0\\3"), ("trace: on\nport: 7400\n", "true|yes|on"),
        ('{"port": 7400, "profile": true}', "profile"), ("DEBUG=off\nPORT=7400\n", ""),
    ):  # fmt: skip
        seen = told_of | {probes.PROGRAMS: WITH_ENV, probes.show(ENV): text}
        best = max(leaks.leaking(case(seen, "MemoryError")), key=lambda idea: idea.score)
        assert (edit in told([best.fix])) if edit else "sed" not in told([best.fix]), text
    flagged = WITH_ENV.replace("--env-file", "--profile --env-file")
    entry = next(iter(case({probes.PROGRAMS: flagged}).definitions.values())).path
    seen = told_of | {probes.PROGRAMS: flagged, probes.copies(entry): "", **changed(entry)}
    best = max(leaks.leaking(case(seen, "MemoryError")), key=lambda idea: idea.score)
    assert "--?profile" in told([best.fix])


def test_spans_of_time_are_read_by_their_unit_or_their_key() -> None:
    for key, value, seconds in (
        ("keepalive_timeout", "2h", 7200), ("idle_timeout", "43200", 43200),
        ("idleTimeoutMs", "7200000", 7200), ("timeout", "30000", 30), ("keepAlive", "90m", 5400),
        ("idle-minutes", "720", 43200), ("ttl", "forever", 0), ("keepalive_requests", "9x", 0),
    ):  # fmt: skip
        assert hoards.span(key, value) == seconds, key


def test_connections_that_stay_for_hours_are_let_go_as_others_are() -> None:
    sockets = "\n".join(
        f"lrwx------ 1 app app 64 Nov 15 20:01 {n} -> socket:[{33436 + n}]" for n in range(3, 63)
    )
    for text, better in (
        ("PORT=7400\nIDLE_TIMEOUT=12h\n", "15s"), ("PORT=7400\nidle_seconds=43200\n", "15"),
        ("PORT=7400\nIDLE_TIMEOUT=12s\n", ""),
    ):  # fmt: skip
        seen = OPEN | changed(ENV) | {
            probes.show(ENV): text, probes.descriptors(7): sockets, probes.copies(ENV): "",
        }  # fmt: skip
        best = max(leaks.descriptors(case(seen, "cannot go on")), key=lambda idea: idea.score)
        assert (
            (better.replace("15", "5") + "\\3" in told([best.fix]))
            if better
            else ("sed" not in told([best.fix]))
        )


def test_a_bound_that_is_many_times_what_others_have_is_made_as_theirs() -> None:
    sheet = "/app/other/.env"
    entry = "\n==> /etc/supervisor/conf.d/other.conf <==\n[program:other]\ncommand=x --env-file="
    for mine, theirs, better in (("500000", "64", "64"), ("500", "64", ""), ("500000", "0", "")):
        known = case(
            {
                probes.PROGRAMS: f"{WITH_ENV}{entry}{sheet}\n", **changed(ENV),
                probes.show(ENV): f"CACHE_ENTRIES={mine}\n",
                probes.show(sheet): f"CACHE_ENTRIES={theirs}\n",
            }
        )  # fmt: skip
        both = replace(known.brief, services=(BriefService("depot"), BriefService("other")))
        found = list(hoards.unlike(Case(both, known.observed), "depot"))
        assert [one.better for one in found] == ([better] if better else [])


def test_who_reads_its_own_log_by_a_pattern_is_not_only_started_anew() -> None:
    log, wide = "/vol/live/logs/depot.log", "/vol/live/logs/*"

    def found(told: str, user: str = "root") -> list[str]:
        flags = f"--lines={told} --log-file={log}"
        entry = ENTRY.replace("--data=/vol/live --log-file=/vol/log/now", flags)
        ran = PROCESSES.replace("1 app ", f"1 {user} ")
        seen = {
            probes.PROGRAMS: entry, probes.PROCESSES: ran, echoes.elsewhere("depot.log"): log,
        }  # fmt: skip
        machine = case(seen)
        assert echoes.is_echo(machine, "depot", log) is (told == wide)
        quiet = flood._quietened(machine, "depot", "it floods", log, (), ())
        assert any("started anew" in one.claim for one in quiet) is (told != wide)
        return [told_of for one in echoes.echoes(machine, "depot", log) for told_of in one.fix]

    assert any("/var" in one and "depot.log" in one for one in found(wide)[1:])
    assert not found("/vol/live/logs/web.log")
    assert not found(wide, "app")  # it may not write elsewhere


def test_how_long_what_people_need_is_kept_is_for_them_to_say() -> None:
    sheet = "/app/other/.env"
    entry = "\n==> /etc/supervisor/conf.d/other.conf <==\n[program:other]\ncommand=x --env-file="
    for key, spared in (("CACHE_MAX", False), ("BACKUP_MAX", True), ("AUDIT_MAX", True)):
        known = case(
            {
                probes.PROGRAMS: f"{WITH_ENV}{entry}{sheet}\n", **changed(ENV),
                probes.show(ENV): f"{key}=500000\n", probes.show(sheet): f"{key}=64\n",
            }
        )  # fmt: skip
        both = replace(known.brief, services=(BriefService("depot"), BriefService("other")))
        assert bool(list(hoards.unlike(Case(both, known.observed), "depot"))) is not spared, key


def test_what_a_setting_calls_passing_is_not_what_people_keep() -> None:
    for key, kept in (("session_dir", False), ("cacheDir", False), ("papers_dir", True)):
        seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): f"{key}=/vol/visitors\n"}
        assert room.kept_for_good(case(seen), "/vol/visitors", "/vol") is kept, key


def test_what_says_too_much_is_quietened_whatever_its_setting_is_called() -> None:
    for text, quiet in (
        ("[log]\nthreshold = \"trace\"\n", True), ("[output]\nmode = \"verbose\"\n", True),
        ("[log]\nthreshold = 10\n", True), ("[memory]\nthreshold = 90\n", False),
        ("[audit]\nmode = \"trace\"\n", False),
    ):  # fmt: skip
        seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): text}
        assert bool(list(flood.loud(case(seen), "depot"))) is quiet, text
    flagged = WITH_ENV.replace("--env-file", "--log-requests --env-file")
    (only,) = flood.loud(case({probes.PROGRAMS: flagged}), "depot")
    assert "/^command/s/ --log-requests( |$)" in only[2]
    start = "/app/depot/start.sh"
    wrapped = WITH_ENV.replace("python3 /app/depot/main.py", start)
    seen = {probes.PROGRAMS: wrapped, probes.show(start): "#!/bin/sh\nexec main --verbose -p 1\n"}
    assert any(path == start for path, _, _ in flood.loud(case(seen), "depot"))
