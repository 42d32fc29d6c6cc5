"""Clocks that others keep, homes that hold another time, and zones; and an instance whose place
another one took."""

from collections.abc import Mapping

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules import pool
from hermes_agent.models.responder.rules.clock import clock, date_of, given
from hermes_agent.models.responder.rules.faked import true_row
from hermes_agent.models.responder.rules.former import previous
from hermes_agent.models.responder.rules.ideas import ACT, Idea, ranked
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

ENTRIES = """\
==> /etc/supervisor/conf.d/till.conf <==
[program:till]
command=python3 /srv/till/main.py /srv/till/.env
environment={0}

==> /etc/supervisor/conf.d/follow.conf <==
[program:follow]
command=python3 /opt/follow/follow.py /etc/follow.conf

==> /etc/supervisor/conf.d/trial.conf <==
[program:trial]
command=python3 /srv/trial/main.py /srv/trial/.env
environment=LD_PRELOAD="/lib/libfaketime.so.1",FAKETIME="+14h"
"""
KEPT = 'LD_PRELOAD="/lib/libfaketime.so.1",FAKETIME_TIMESTAMP_FILE="/run/delta"'
ALIVE = "".join(
    f"{name}  RUNNING  pid {pid}, uptime 1:56\n"
    for name, pid in (("till", 7), ("follow", 8), ("trial", 9), ("till-a", 10), ("till-b", 11))
)


def case(
    environment: str, seen: Mapping[str, str], entries: str = ENTRIES, about: str = "",
    said: str = "ticket 50400 s from now",
) -> Case:  # fmt: skip
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: ALIVE,
        probes.PROGRAMS: entries.format(environment),
        probes.show("/srv/till/.env"): "PORT=7001\n",
        probes.show("/srv/trial/.env"): "PORT=7003\n",
        **seen,
    }
    check = BriefCheck("c", "curl http://127.0.0.1:7001/up", said, 22, False)
    services = (BriefService("till", about=about), BriefService("follow"), BriefService("trial"))
    brief = Brief("inc-1", service="till", check=check, services=services)
    return Case(brief, [Seen(command, text) for command, text in shown.items()])


def best(machine: Case) -> Idea:
    return next(one for one in ranked(clock(machine)) if one.fix and one.score >= ACT)


def test_who_keeps_a_clock_is_led_back_and_nobody_elses_time_is_touched() -> None:
    told = "#peer http://127.0.0.1:7002/\npeer http://127.0.0.1:7003/\nto /run/delta\n"
    looks = {probes.show("/etc/follow.conf"): told, probes.show("/run/delta"): "+50400\n",
             date_of(7001): "", probes.copies("/etc/follow.conf"): ""}  # fmt: skip
    found = ranked(clock(case(KEPT, looks)))
    fixed = [one for one in found if one.fix]
    assert [one.component for one in fixed] == ["follow"]
    assert "peer http://127.0.0.1:7002/" in fixed[0].fix[1]
    assert "/run/delta" not in " ".join(fixed[0].fix)
    steps = case(KEPT, looks, said="HTTP 500")
    assert all(one.score < ACT for one in clock(steps) if one.component == "follow" and one.fix)
    plain = {**looks, probes.show("/etc/follow.conf"): told.partition("\n")[2]}
    assert not any(one.fix for one in clock(case(KEPT, plain)))


def test_the_file_in_a_home_that_gives_another_time_is_put_away() -> None:
    only = 'HOME="/home/shop",LD_PRELOAD="/lib/libfaketime.so.1"'
    rules = ["/home/shop/.faketimerc", "/root/.faketimerc", "/etc/faketimerc"]
    looks = {probes.show(path): "" for path in rules[1:]} | {probes.show(rules[0]): "-3d\n"}
    fix = best(case(only, looks)).fix
    assert fix[0].startswith("mv ")
    assert "/home/shop/.faketimerc" in fix[0]


def test_who_lives_at_another_time_as_people_want_it_is_left_alone() -> None:
    shifted = 'LD_PRELOAD="/lib/libfaketime.so.1",FAKETIME="+14h"'
    looks = {probes.copies("/etc/supervisor/conf.d/till.conf"): ""}
    assert any(one.fix for one in clock(case(shifted, looks)))
    about = "for trials; people set its clock as they need it"
    assert not any(one.component == "till" for one in clock(case(shifted, looks, about=about)))


def test_a_zone_that_nobody_else_has_is_set_right_where_times_are_refused() -> None:
    told = "PORT=7001\nTZ=Asia/Seoul\n"
    looks = {probes.show("/srv/till/.env"): told, probes.copies("/srv/till/.env"): ""}
    fix = best(case("A=1", looks)).fix
    assert "Asia" in fix[1]
    assert "UTC" in fix[1]


def test_the_instance_whose_place_was_taken_is_known() -> None:
    entries = "".join(
        f"==> /etc/supervisor/conf.d/{name}.conf <==\n[program:{name}]\n"
        f"command=/srv/{name}/run --port {port}\n\n"
        for name, port in (("till-a", 7101), ("till-b", 7102))
    )
    heard = "".join(
        f'LISTEN 0 64 127.0.0.1:{port} 0.0.0.0:* users:(("run",pid={pid},fd=3))\n'
        for port, pid in ((7101, 10), (7102, 11))
    )
    running = "PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n" + "".join(
        f"{pid} 1 app S 0 0.1 900 99 /srv/{name}/run\n" for pid, name in ((10, "a"), (11, "b"))
    )
    site = "==> /etc/nginx/sites-enabled/till <==\nproxy_pass http://127.0.0.1:7102;\n"
    looks = {probes.LISTENERS: heard, probes.SITES: site, probes.PROCESSES: running}
    machine = case("", looks, entries)
    assert pool.given_up(machine, "till-a") == "till-b"
    assert pool.given_up(machine, "till-b") == ""
    assert pool.stopped(machine, "till-a") == "supervisorctl stop till-a"


def test_what_came_before_a_release_is_never_a_newer_one() -> None:
    row = "drwxr-xr-x 2 root root 40 2026-11-15 20:03:12.000000000 +0000 {}"
    rows = list(parse.listing("\n".join(map(row.format, ("20260914", "20261111b", "20261020")))))
    assert previous(rows, "20261111b")[1] == "20261020"
    assert previous(rows, "20260914")[1] == ""


def test_rows_are_freed_of_another_time_in_whatever_form_they_give_it() -> None:
    for row, left in (
        ("run=(faketime -f '+16d' \"${run[@]}\")", 'run=("${run[@]}")'),
        ("exec faketime -f -3h node server.js", "exec node server.js"),
        ("FAKE='datefudge \"2026-12-31 23:59\"'", "FAKE=''"),
        ('cmd = ["/usr/bin/faketime", "-f", "+2d", "node", "x"]', 'cmd = ["node", "x"]'),
        ("export LD_PRELOAD=/lib/libfaketime.so.1 FAKETIME=+2d", ""),
        ('LD_PRELOAD="/lib/jemalloc.so:/lib/libfaketime.so.1"', 'LD_PRELOAD="/lib/jemalloc.so"'),
        ("environment=LD_PRELOAD=/x/libfaketime.so,FAKETIME=+2d,A=1", "environment=A=1"),
        ('  "FAKETIME": "+2d",', '  "FAKETIME": "+0",'),
        ("command -v node; exec env FAKETIME='-1d' node x", "command -v node; exec env node x"),
    ):
        assert true_row(row) == left
    for row in ("LD_PRELOAD=/lib/jemalloc.so", "lib=/x/faketime/libfaketime"):
        assert true_row(row) == row


def test_an_old_line_at_the_end_of_a_log_is_no_other_time_where_answers_are_of_now() -> None:
    running = "PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n7 1 a S 0 0 9 {} python3 x\n"
    log = "/var/log/till.log"
    old = f"==> {log} <==\n2026-04-22 00:06:15 till: request 12 s from now refused\n"
    here = "Sun, 15 Nov 2026 20:03:12 GMT"

    def believed(age: int, told: str) -> bool:
        looks = {probes.PROCESSES: running.format(age), probes.LOGS: old,
                 probes.LOG_FILES: f"90 1794772980.0 root {log}", date_of(7001): told,
                 given(7): "", probes.copies("/srv/till/.env"): "",
                 probes.copies("/etc/supervisor/conf.d/till.conf"): ""}  # fmt: skip
        found = clock(case("A=1", looks))
        return any("another time than" in one.claim and one.fix for one in found)

    assert believed(500, here)
    assert not believed(500, f"{here}\nDate: {here}")
    assert not believed(5, here)
