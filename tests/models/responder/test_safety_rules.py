"""What a rule leaves alone: what others need, what was meant, and what only looks like a cause."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules import (
    database,
    enders,
    entry,
    listed,
    permission,
    pool,
    port,
    said,
    scripts,
    shifts,
    start,
)
from hermes_agent.models.responder.rules.config import commented, swapped
from hermes_agent.models.responder.rules.crontabs import jobs
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.rules.postgres import Session
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.support.patience import PATIENCE

LOG = "/var/log/shop.log"
ENTRY = (
    "==> /etc/supervisor/conf.d/shop.conf <==\n[program:shop]\ncommand=/opt/shop/run --port 7001 "
    f"--tls-verify -c /opt/shop/shop.conf\nstdout_logfile={LOG}\n{{0}}"
)
HEAD = "PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n1 0 root S 0 0.2 2 800 supervisord -n\n"
UP, DOWN = "shop  RUNNING  pid 10, uptime 0:10:00\n", "shop  FATAL  Exited too quickly\n"


def case(status: str = UP, said: str = "", more: str = "", **seen: str) -> Case:
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000", probes.STATUS: status,
        probes.PROGRAMS: ENTRY.format(more), probes.tail(LOG): said, probes.PROCESSES: HEAD, **seen,
    }  # fmt: skip
    check = BriefCheck(command="curl -fs http://127.0.0.1:7001/", exit=7)
    brief = Brief("inc-1", service="shop", check=check, services=(BriefService("shop"),))
    return Case(brief, [Seen(command, text) for command, text in shown.items()])


def test_only_the_whole_row_is_swapped(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("  pkill shop\npkill shop-worker\necho pkill shop\n")
    command = swapped(str(file), "pkill shop", ": # pkill shop", whole=True)[1]
    subprocess.run(command, shell=True, check=True, timeout=PATIENCE)
    assert file.read_text() == "  : # pkill shop\npkill shop-worker\necho pkill shop\n"


def test_a_remark_that_explains_is_no_former_row() -> None:
    wanted = re.compile("server")
    assert commented("# server: whom the clock follows\nserver = a\n", wanted) == ("", "")
    assert commented("# server = b\nserver = a\n", wanted) == ("server = a", "server = b")


def test_an_entry_is_taken_in_from_root_only(tmp_path: Path) -> None:
    (look, _) = next(iter(listed.unlisted(case("cron  RUNNING  pid 9, uptime 0:10:00\n")))).wants
    own = re.sub(r" /etc /opt .*?2>", f" {shlex.quote(str(tmp_path))} 2>", look)
    for name, mode in (("a.conf", 0o644), ("b.conf", 0o666)):
        (tmp_path / name).write_text("[program:shop]\n")
        (tmp_path / name).chmod(mode)
    ran = subprocess.run(
        own, shell=True, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert {Path(one).name for one in ran.stdout.split()} <= {"a.conf"}
    assert "-user root" in look


def test_another_entry_by_that_name_is_kept_and_comes_back() -> None:
    status, goal = "cron  RUNNING  pid 9, uptime 0:10:00\n", "/etc/supervisor/conf.d/shop.conf"
    renamed = ENTRY.format("").replace("[program:shop]", "[program:shop-old]")
    looks = {probes.PROGRAMS: renamed, probes.copies("/var/backups/shop.conf"): ""}
    (look, reread) = next(iter(listed.unlisted(case(status, **looks)))).wants
    looks |= {look: "/var/backups/shop.conf\n", reread: "No config updates to processes"}
    (idea,) = listed.unlisted(case(status, **looks))
    assert idea.fix[0].startswith(f"cp -p -T --backup=numbered {goal} ")
    assert idea.undo.startswith("cp -p /var/tmp/")


def test_nobody_is_made_root_nor_handed_what_is_anothers() -> None:
    other = "==> /etc/supervisor/conf.d/a.conf <==\n[program:a]\ncommand=/opt/a\nuser=root\n"
    machine = case(more=f"user=shp\npriority=5x\n{other}priority=7\n")
    path = "/etc/supervisor/conf.d/shop.conf"
    assert listed._as_usual(machine, path, "user=shp") == ()
    assert listed._as_usual(machine, path, "command=/opt/shop/x") == ()
    assert "priority=7" in listed._as_usual(machine, path, "priority=5x")[1]


ENDED = "2026-11-15 20:03:02,1 INFO exited: shop (terminated by SIGKILL; not expected)"


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ("0 4 * * * root supervisorctl restart shop", False),
        ("* * * * * root supervisorctl restart shop", False),
        ("0 4 * * * root pkill -f /opt/shop/run", False),
        ("3 20 * * * root pkill -f /opt/shop/run", True),
        ("*/5 * * * * root pkill -f /opt/shop/run", True),
    ],
)
def test_a_job_that_ran_at_another_time_or_restarts_in_order_stays(row: str, found: bool) -> None:
    table = "/etc/cron.d/tidy"
    machine = case(DOWN, **{
        probes.SUPERVISOR_LOG: ENDED, probes.JOBS: f"==> {table} <==\n{row}\n",
        enders.ENDERS: f"{table}:1:{row}\n",
        probes.PROCESSES: f"{HEAD}20 1 root S 0 0 2 9 cron -f\n",
    })  # fmt: skip
    assert bool(list(enders.ended(machine))) == found


def test_what_a_script_needs_is_no_lock_of_it() -> None:
    need = (
        "[ -d /srv/data ] || exit 1", "if [ -f /etc/default/x ]; then . /etc/default/x; fi",
        "[ -f /srv/blocklist.txt ] && cp /srv/blocklist.txt /x", "mkdir -p /srv/data || exit 1",
        "mkdir /srv/data/today || exit 1",
    )  # fmt: skip
    (job,) = jobs({"/etc/cron.d/digest": ["* * * * * root /srv/digest"]})

    def found(text: str, **seen: str) -> list[str]:
        machine = case(**{probes.show("/srv/digest"): text, **seen})
        return [one.locus for one in scripts._locked(machine, "digest", job, ["db is locked"])]

    assert found("\n".join(need)) == []
    assert found("mkdir /srv/x.busy || exit 1") == ["/srv/x.busy"]
    assert found("[ -e /run/x ] && exit 0") == ["/run/x"]
    own = {probes.show("/run/nginx.pid"): "30\n", probes.holders("/run/nginx.pid"): "",
           probes.PROCESSES: f"{HEAD}30 1 root S 0 0 2 9 nginx: master process\n"}  # fmt: skip
    assert found("kill -HUP $(cat /run/nginx.pid)", **own) == []


def test_who_gets_requests_in_the_same_row_is_not_stopped() -> None:
    entries = "".join(
        f"==> /etc/supervisor/conf.d/{name}.conf <==\n[program:{name}]\n"
        f"command=/srv/{name}/run --port {number}\n"
        for name, number in (("till-a", 7101), ("till-b", 7102))
    )
    looks = {
        probes.PROGRAMS: entries,
        probes.STATUS: "till-a RUNNING pid 10, uptime 0:10:00\n"
        "till-b RUNNING pid 11, uptime 0:10:00\n",
        probes.PROCESSES: f"{HEAD}10 1 a S 0 0 2 9 /srv/till-a/run\n"
        "11 1 a S 0 0 2 9 /srv/till-b/run\n",
        probes.LISTENERS: "".join(
            f'LISTEN 0 64 127.0.0.1:{number} 0.0.0.0:* users:(("run",pid={pid},fd=3))\n'
            for number, pid in ((7101, 10), (7102, 11))
        ),
    }  # fmt: skip
    site = "==> /etc/nginx/sites-enabled/till <==\n{0}server 127.0.0.1:7102;\n"
    both = {probes.SITES: site.format("server 127.0.0.1:7101; ")}
    assert pool.given_up(case(**looks, **{probes.SITES: site.format("")}), "till-a") == "till-b"
    assert pool.given_up(case(**looks, **both), "till-a") == ""
    assert pool.given_up(case(**looks), "till-a") == "", "nothing is known of who gets what"
    assert pool.unseen(case(**looks), "till-a") == (probes.SITES,)
    wires = "".join(
        f'ESTAB 0 0 127.0.0.1:{at} 127.0.0.1:5432 users:(("run",pid=10,fd=3))\n'
        for at in range(40000, 40040)
    )
    alone = {probes.SITES: site.format(""), probes.CONNECTIONS: wires}
    (idea,) = pool._takers(case(**looks, **alone), "shop", 5432, "too many connections")
    assert (idea.fix, idea.undo) == (("supervisorctl stop till-a",), "supervisorctl start till-a")


def test_what_all_share_is_not_shut() -> None:
    said = "fatal: insecure world writable dir {0}, mode 041777\n"
    for path, shut in (("/var/www", False), ("/opt/shop/keys", True)):
        machine = case(DOWN, said.format(path), **{
            probes.walk(path): f"f: {path}\ndrwxrwxrwt root root {path.rpartition('/')[2]}\n",
            probes.rows(path): "",
        })  # fmt: skip
        fixes = [one for idea in permission.permission(machine) for one in idea.fix]
        assert (f"chmod go-rwx {path}" in fixes) == shut


def test_a_port_that_it_only_asks_is_not_taken_from_whoever_has_it() -> None:
    held = 'LISTEN 0 64 127.0.0.1:5432 0.0.0.0:* users:(("postgres",pid=30,fd=3))\n'
    looks = {probes.LISTENERS: held,
             probes.PROCESSES: f"{HEAD}30 1 postgres S 0 0 2 900 postgres -D /x\n"}  # fmt: skip
    said = "2026-11-15T20:03:01Z error: address db:5432 is busy, try later\n"
    assert not any(one.fix for one in port.port_taken(case(UP, said, **looks)))


def test_nothing_is_started_without_what_keeps_others_out() -> None:
    machine = case(DOWN, "error: unknown option --tls-verify\n",
                   **{probes.copies("/etc/supervisor/conf.d/shop.conf"): ""})  # fmt: skip
    found = [one.score for one in entry.option(machine) if one.fix]
    assert found
    assert max(found) < ACT


@pytest.mark.parametrize("key", ["latest_update", "latest_date", "test_runtime", "as_of"])
def test_a_date_in_the_settings_is_no_other_time(key: str) -> None:
    shown = {probes.show("/opt/shop/shop.conf"): f"{key} = 2026-10-31\n",
             probes.copies("/opt/shop/shop.conf"): ""}  # fmt: skip
    found: list[Idea] = list(shifts.shifted(case(**shown), "shop", "", ""))
    assert all(one.score < ACT for one in found)


def test_a_change_of_a_table_for_which_nobody_waits_goes_on_waiting() -> None:
    place = ("127.0.0.1", 5432, "shop", "shop")
    work = Session(7, "a", "u", "1", "active", 9, (), "select 1", "x")
    change = Session(8, "b", "u", "2", "active", 9, (7,), "alter table t add c int", "y")
    found = database._queued(case(), "shop", place, "shop", [change], [work], "")
    assert not list(found)
    assert list(database._queued(case(), "shop", place, "shop", [change], [work], "timed out"))


def test_what_is_halted_while_a_backup_is_made_stands_still() -> None:
    rows = f"{HEAD}10 1 shop T 0 0 2 9 /opt/shop/run\n"
    backup = "40 39 root S 0 0 2 9 /bin/sh /opt/tools/backup.sh\n39 1 root S 0 0 2 9 cron -f\n"
    (alone,) = start.halted(case(**{probes.PROCESSES: rows}))
    (watched,) = start.halted(case(**{probes.PROCESSES: rows + backup}))
    assert alone.score >= ACT > watched.score


@pytest.mark.parametrize(("key", "found"), [("auth", False), ("codec", True)])
def test_what_keeps_people_out_is_not_taken_from_others(key: str, found: bool) -> None:
    other = "==> /etc/supervisor/conf.d/a.conf <==\n[program:a]\ncommand=/opt/a -c /opt/a.conf\n"
    machine = case(
        UP + "a  RUNNING  pid 11, uptime 0:10:00\n", f"fatal: invalid value 'tight' for {key}\n",
        other, **{probes.show("/opt/shop/shop.conf"): f"{key} = tight\n",
                  probes.show("/opt/a.conf"): f"{key} = none\n"},
    )  # fmt: skip
    assert any("none" in command for idea in said.told(machine) for command in idea.fix) == found
