"""Rules for what does not come up, over what real commands printed in houses of many kinds."""

import re
from collections.abc import Callable, Iterator

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules import absent, lock, permission, port, start
from hermes_agent.models.responder.rules.ideas import Idea, put_away
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

CLOCK = "1794772992 2026-11-15 20:03:12 UTC +0000"
NOW = "2026-11-15T20:03:01Z"
SHOP = """\
==> /etc/supervisor/conf.d/shop.conf <==
[program:shop]
command=/opt/bin/as-app python3 /opt/shop/bin/run.py --config /opt/shop/etc/shop.json
directory=/opt/shop
stdout_logfile=/var/log/supervisor/shop.log
==> /etc/supervisor/conf.d/ledger.conf <==
[program:ledger]
command=/opt/bin/as-app python3 /srv/ledger/app.py --port=7002
directory=/srv/ledger
stdout_logfile=/var/log/supervisor/ledger.log
"""
SETTINGS = '{"server": {"port": 7001, "data": "/data/shop/objects", "key": "/opt/shop/id.key"}}'
UP = "shop    RUNNING   pid 10, uptime 0:10:00\nledger  RUNNING   pid 20, uptime 0:10:00\n"
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544     800 supervisord -n
     10       1 app      S      0  0.1 23328     600 bash /opt/shop/launch.sh
     20       1 app      Sl     0  0.1 23252     600 python3 /srv/ledger/app.py --port=7002
"""
LEDGER = 'LISTEN 0 64 127.0.0.1:7002 0.0.0.0:* users:(("python3",pid=20,fd=3))\n'


def case(*more: tuple[str, str], said: str = "", status: str = UP, about: str = "") -> Case:
    """The machine with what else was seen."""
    seen = {
        probes.CLOCK: CLOCK, probes.STATUS: status, probes.PROGRAMS: SHOP,
        probes.PROCESSES: PROCESSES, probes.LISTENERS: LEDGER,
        probes.show("/opt/shop/etc/shop.json"): SETTINGS,
        probes.tail("/var/log/supervisor/shop.log"): said, **dict(more),
    }  # fmt: skip
    brief = Brief(
        "inc-1", service="shop",
        check=BriefCheck(command="curl -fs http://127.0.0.1:7001/healthz", exit=7),
        services=(BriefService("shop", about=about), BriefService("ledger")),
    )  # fmt: skip
    return Case(brief, [_seen(command, output) for command, output in seen.items()])


def _seen(command: str, output: str) -> Seen:
    bad = "No such file" in output and not command.startswith(("tail", "namei"))
    return Seen(command, output, 2 if bad else 0)


def best(found: Iterator[Idea]) -> Idea:
    return max(found, key=lambda idea: idea.score)


def fixes(rule: Callable[[Case], Iterator[Idea]], seen: Case) -> list[str]:
    return [command for idea in rule(seen) for command in idea.fix]


def test_a_parent_that_lives_on_without_its_child_is_started_anew() -> None:
    idea = best(start.deaf(case()))
    assert (idea.category, idea.component) == ("service-crash", "shop")
    assert idea.fix == ("supervisorctl restart shop",)


def test_one_that_listens_somewhere_is_not_taken_for_gone() -> None:
    listens = 'LISTEN 0 64 127.0.0.1:7009 0.0.0.0:* users:(("python3",pid=10,fd=3))\n'
    assert not list(start.deaf(case((probes.LISTENERS, listens))))


def test_what_the_alerting_service_asks_and_is_gone_is_found_by_its_port() -> None:
    asks = '{"port": 7001, "upstream": "http://127.0.0.1:7002/"}'
    seen = case(
        (probes.show("/opt/shop/etc/shop.json"), asks), (probes.LISTENERS, ""),
        status="shop RUNNING pid 10, uptime 0:10:00\npool:ledger EXITED Nov 15 08:02 PM\n",
    )  # fmt: skip
    idea = best(start.down(seen))
    assert (idea.component, idea.fix) == ("ledger", ("supervisorctl restart pool:ledger",))


TAKEN = f'{{"ts": "{NOW}", "level": "fatal", "err": "listen tcp :7001: EADDRINUSE"}}\n'
DOWN = UP.replace("RUNNING   pid 10, uptime 0:10:00", "FATAL     Exited too quickly")


def test_whoever_starts_the_holder_of_a_port_again_is_ended_with_it() -> None:
    listens = 'LISTEN 0 5 127.0.0.1:7001 0.0.0.0:* users:(("python3",pid=51,fd=3))\n'
    more = """\
     50       1 root     S      0  0.0  3000      30 bash /home/ann/serve.sh
     51      50 root     S      0  0.0 20000      30 python3 -m http.server 7001
"""
    seen = case(
        (probes.LISTENERS, listens), (probes.PROCESSES, PROCESSES + more), said=TAKEN, status=DOWN
    )
    idea = best(port.port_taken(seen))
    assert idea.fix[0] == "kill 50 51"


def test_a_service_of_ours_is_led_back_to_the_port_at_which_it_is_looked_for() -> None:
    programs = SHOP.replace("--port=7002", "--port=7001")
    seen = case(
        (probes.PROGRAMS, programs), (probes.LISTENERS, LEDGER.replace("7002", "7001")),
        (probes.copies("/etc/supervisor/conf.d/ledger.conf"), "==> lines <==\n4\n"),
        said=TAKEN, status=DOWN,
    )  # fmt: skip
    brief = seen.brief
    told = (brief.services[0], BriefService("ledger", about="accounts, at port 7002"))
    seen = Case(Brief("inc-1", service="shop", check=brief.check, services=told), seen.observed)
    idea = best(port.port_taken(seen))
    assert any(re.search(r"7001.*7002.*ledger\.conf", command) for command in idea.fix)
    assert not any(command.startswith("kill") for command in idea.fix)


def test_the_port_of_another_that_works_is_left_alone() -> None:
    asks = '{"listen": "127.0.0.1:7001", "server": "127.0.0.1:7002"}'
    seen = case((probes.show("/opt/shop/etc/shop.json"), asks))
    assert not list(port.port_taken(seen))


WAITS = "2026-11-15 20:03:01 another instance has the lock, waiting\n"
LOCKS = '{"port": 7001, "lock_dir": "/var/lib/shop/lock"}'


def _locked(
    listing: str, shown: str, processes: str = PROCESSES, more: tuple[str, str] = ("true", ""),
    told: str = "",
) -> list[str]:  # fmt: skip
    path = "/var/lib/shop/lock"
    seen = case(
        (probes.show("/opt/shop/etc/shop.json"), LOCKS), (probes.rows(path), listing),
        (probes.show(path), shown), (probes.holders(path), ""), (probes.PROCESSES, processes), more,
        (lock.users(path), told), said=WAITS, status=DOWN,
    )  # fmt: skip
    return fixes(lock.locked, seen)


ROW = "-rw-r--r-- 1 app app 3 2026-11-15 18:00:00.000000000 +0000 /var/lib/shop/lock"


def test_a_lock_that_only_the_settings_name_is_put_aside_and_not_deleted() -> None:
    assert _locked(ROW, "4711\n")[0] == put_away("/var/lib/shop/lock")


def test_a_lock_that_does_not_say_whose_it_is_stays_where_another_was_told_of_it() -> None:
    job = (
        PROCESSES + "     77       1 app      S      0  0.0 20000     900 python3 /srv/nightly.py\n"
    )
    assert _locked(ROW, "")[0] == put_away("/var/lib/shop/lock")
    assert not _locked(ROW, "", job, told="/proc/77/environ\n")
    assert _locked(ROW, "", told="/proc/78/environ\n"), "that one is gone by now"


def test_of_a_service_that_the_alert_is_not_about_no_lock_is_guessed() -> None:
    said = "2026-11-15 20:03:01 ERROR already locked by another instance\n"
    waits = (probes.tail("/var/log/supervisor/ledger.log"), said)
    told = [want for idea in lock.locked(case(waits)) for want in idea.wants]
    assert not any(want.startswith("find /run /var/lock") for want in told)
    own = [want for idea in lock.locked(case(said=said)) for want in idea.wants]
    assert any(want.startswith("find /run /var/lock") for want in own)


def test_a_folder_that_is_a_lock_is_put_aside_too() -> None:
    rows = (
        "total 0\ndrwxr-xr-x 2 app app 40 2026-11-15 18:00:00.000000000 +0000 .\n"
        "drwxr-xr-x 3 app app 60 2026-11-15 18:00:00.000000000 +0000 ..\n"
    )
    empty = (probes.shown("/var/lib/shop/lock/*"), "")
    assert _locked(rows, "", more=empty)[0].startswith(
        "mv -T --backup=numbered /var/lib/shop/lock "
    )


def test_a_lock_whose_process_is_the_service_itself_stays() -> None:
    more = (
        "     77       1 app      S      0  0.0 20000       2 "
        "python3 /opt/shop/bin/run.py --config /opt/shop/etc/shop.json\n"
    )
    assert not _locked(ROW, "77\n", PROCESSES + more)


def test_an_instance_that_nobody_looks_after_gives_up_its_lock_by_ending() -> None:
    more = (
        "     77       1 app      S      0  0.0 20000     900 "
        "python3 /opt/shop/bin/run.py --config /opt/shop/etc/shop.json\n"
    )
    done = _locked(ROW, "77\n", PROCESSES + more)
    assert done == ["kill 77", "sleep 1", "supervisorctl restart shop"]


def test_a_folder_that_is_a_lock_stays_when_its_owner_is_at_work() -> None:
    rows = (
        "total 4\ndrwxr-xr-x 2 app app 60 2026-11-15 18:00:00.000000000 +0000 .\n"
        "drwxr-xr-x 3 app app 60 2026-11-15 18:00:00.000000000 +0000 ..\n"
        "-rw-r--r-- 1 app app 10 2026-11-15 18:00:00.000000000 +0000 owner\n"
    )
    inside = (probes.shown("/var/lib/shop/lock/*"), "==> /var/lib/shop/lock/owner <==\npid 77\n")
    job = "     77       1 app      S      0  0.0 20000      90 python3 /opt/shop/bin/import.py\n"
    assert not _locked(rows, "", PROCESSES + job, more=inside)
    gone = (inside[0], inside[1].replace("77", "4711"))
    assert _locked(rows, "", more=gone)[0].startswith("mv -T --backup=numbered /var/lib/shop/lock ")


def test_a_lock_that_is_called_by_its_bare_name_is_found_where_the_service_keeps_its_files() -> (
    None
):
    said = (
        f'{NOW} FATAL: lock file "postmaster.pid" already exists\n'
        f'{NOW} HINT: Is another postmaster (PID 20) running in data directory "/data/pg/main"?\n'
    )
    first = case(said=said, status=DOWN)
    look = next(
        want
        for idea in lock.locked(first)
        for want in idea.wants
        if want.endswith("-name postmaster.pid 2>/dev/null")
    )
    assert " /data/pg/main " in look
    path = "/data/pg/main/postmaster.pid"
    seen = case(
        (look, f"{path}\n"), (probes.rows(path), ROW.replace("/var/lib/shop/lock", path)),
        (probes.show(path), "20\n/data/pg/main\n"), (probes.holders(path), ""),
        said=said, status=DOWN,
    )  # fmt: skip
    idea = best(lock.locked(seen))
    assert idea.fix[0] == put_away(path)
    assert "another program" in idea.claim


def test_a_file_is_found_that_its_owner_may_not_use_though_nothing_names_it() -> None:
    said = f'time={NOW} level=error msg="PUT failed: attempt to write a readonly database"\n'
    first = case(said=said)
    look = next(
        want
        for idea in permission.permission(first)
        for want in idea.wants
        if want.startswith("find /opt/shop")
    )
    seen = case((look, "dr-xr-xr-x app /data/shop/objects\n"), said=said)
    idea = best(permission.permission(seen))
    assert idea.locus == "/data/shop/objects"
    assert idea.fix == ("chmod u+rwx /data/shop/objects", "supervisorctl restart shop")
    assert idea.undo == "chmod 555 /data/shop/objects"


def test_a_key_that_is_too_open_is_closed_to_others_alone() -> None:
    said = (
        "Nov 15 20:03:01 h shop[9]: fatal: permissions 0644 for '/opt/shop/id.key' are too open\n"
    )
    walked = (
        "f: /opt/shop/id.key\ndrwxr-xr-x root root /\ndrwxr-xr-x root root opt\n"
        "drwxr-xr-x root root shop\n-rw-r--r-- app  app  id.key\n"
    )
    path = "/opt/shop/id.key"
    seen = case((probes.walk(path), walked), (probes.rows(path), "-rw-r--r--"), said=said)
    idea = best(permission.permission(seen))
    assert idea.fix[0] == "chmod go-rwx /opt/shop/id.key"


def test_a_place_that_all_share_is_opened_as_it_is_everywhere() -> None:
    said = f"{NOW} ERROR PermissionError: [Errno 13] Permission denied: '/tmp/shop-1'\n"
    modes = "755 /\n555 /tmp\n1777 /var/tmp\n700 /var/log\n"
    found = list(permission.permission(case((permission.COMMON, modes), said=said)))
    idea = best(iter(found))
    assert idea.fix[:2] == ("chmod u+rwx /tmp", "chmod 1777 /tmp")
    assert not any("/var/" in command for one in found for command in one.fix)


def test_one_that_listens_and_lets_all_wait_is_started_anew_and_the_cause_is_told() -> None:
    full = 'LISTEN 9 64 127.0.0.1:7001 0.0.0.0:* users:(("python3",pid=10,fd=3))\n'
    idea = best(start.hung(case((probes.LISTENERS, full))))
    assert (idea.category, idea.fix) == ("service-crash", ("supervisorctl restart shop",))
    busy = full.replace("LISTEN 9", "LISTEN 0")
    assert not list(start.hung(case((probes.LISTENERS, busy))))


LOST = f"{NOW} ERROR FileNotFoundError: [Errno 2] No such file or directory: '/data/shop/objects'\n"


def _gone(*more: tuple[str, str]) -> Idea:
    return best(absent.absent(case(*more, said=LOST)))


def _listed(*names: str) -> str:
    return "".join(
        f"drwxr-xr-x 2 app app 40 2026-11-15 18:00:00.000000000 +0000 {name}\n" for name in names
    )


def test_a_folder_that_was_moved_aside_is_moved_back_and_none_is_made_in_its_place() -> None:
    idea = _gone((probes.rows("/data/shop"), _listed(".", "..", "objects-old")))
    assert idea.fix[0] == "mv /data/shop/objects-old /data/shop/objects"
    two = _gone((probes.rows("/data/shop"), _listed(".", "..", "objects-old", "objects.2")))
    assert not two.fix


def test_a_file_of_another_service_is_no_copy() -> None:
    copy = "9 1794770000.0 app /srv/ledger/objects\n"
    idea = _gone((probes.kept("objects"), copy), (probes.rows("/data/shop"), _listed(".", "..")))
    assert not any("/srv/ledger" in command for command in idea.fix)


def test_a_link_that_leads_nowhere_is_led_to_the_release_before() -> None:
    said = "supervisor: couldn't chdir to /opt/shop/current: ENOENT\n"
    walked = (
        "f: /opt/shop/current\ndrwxr-xr-x root root /\ndrwxr-xr-x root root opt\n"
        "drwxr-xr-x root root shop\nlrwxrwxrwx root root current -> releases/12\n"
        "                     12 - No such file or directory\n"
    )
    there = "/opt/shop/releases/9\n/opt/shop/releases/11\n"
    seen = case(
        (probes.walk("/opt/shop/current"), walked),
        (absent.kin("/opt/shop/releases/12"), there), said=said, status=DOWN,
    )  # fmt: skip
    idea = best(absent.absent(seen))
    assert idea.fix[0] == "ln -sfn /opt/shop/releases/11 /opt/shop/current"
    assert idea.undo == "ln -sfn /opt/shop/releases/12 /opt/shop/current"


def test_a_script_with_the_line_ends_of_another_system_is_mended() -> None:
    programs = SHOP.replace("python3 /opt/shop/bin/run.py --config", "/opt/shop/start.sh")
    said = "unshare: failed to execute /opt/shop/start.sh: No such file or directory\n"
    walked = "f: /opt/shop/start.sh\n-rwxr-xr-x root root start.sh\n"
    seen = case(
        (probes.PROGRAMS, programs), (probes.walk("/opt/shop/start.sh"), walked),
        ("sed -n '1,3l' /opt/shop/start.sh", "#!/bin/bash\\r$\n"), said=said, status=DOWN,
    )  # fmt: skip
    idea = best(absent.absent(seen))
    assert idea.fix[1] == r"sed -i 's/\r$//' /opt/shop/start.sh"
