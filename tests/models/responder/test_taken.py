"""Locks that are rows of a table, over what commands printed once and over a real database."""

import json
import sqlite3
import subprocess
from pathlib import Path

import pytest

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rules import taken
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

BASE, CONFIG = "/var/lib/shop/shop.db", "/etc/shop/shop.toml"
PROGRAMS = f"""\
==> /etc/supervisor/conf.d/shop.conf <==
[program:shop]
command=python3 /srv/shop/shop.py {CONFIG}
stdout_logfile=/var/log/shop.out
"""
ROW = [["id", 1, 1], ["locked", 1, 1], ["locked_by", 0, "web-2/4711"],
       ["locked_at", 0, "2026-11-15 19:10:00"]]  # fmt: skip


def found(
    rows: object, table: str = "schema_lock", pid: int = 9, age: int = 90, mine: int = 70
) -> list[Idea]:
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "shop                             RUNNING   pid 7, uptime 0:01:10\n",
        probes.PROGRAMS: PROGRAMS,
        probes.PROCESSES: "PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n"
        f"7 1 root S 0 0.1 100 {mine} python3 /srv/shop/shop.py\n"
        f"{pid} 1 root S 0 0 9 {age} nightly\n",
        probes.show(CONFIG): f'database = "{BASE}"\n',
        probes.tail(
            "/var/log/shop.out"
        ): "2026-11-15 20:03:10 WARN locked by web-2/4711, waiting\n",
        taken.HOST: "web-2\n",
        taken.look(BASE): json.dumps({"table": table, "row": 1, "columns": rows}) + "\n",
    }
    seen = [Seen(command, text) for command, text in shown.items()]
    return [idea for idea in taken.taken(Case(Brief("inc-1", service="shop"), seen)) if idea.fix]


def test_a_lock_of_one_that_is_gone_is_given_back_and_whoever_waits_goes_on() -> None:
    (idea,) = found(ROW)
    assert (idea.category, idea.locus) == ("stale-lock", f"{BASE}: schema_lock, row 1")
    assert '"locked" = 0, "locked_by" = null, "locked_at" = null where rowid = 1' in idea.fix[0]
    assert idea.fix[1] == "sleep 3"


def test_what_somebody_has_who_lives_or_may_live_stays() -> None:
    elsewhere = [*ROW[:2], ["locked_by", 0, "web-7/4711"], ROW[3]]
    assert not found(ROW, pid=4711, age=9000)
    assert not found(elsewhere)
    assert not found([*ROW[:1], ["locked", 1, 0], *ROW[2:]])
    assert not found([["id", 1, 1], ["name", 1, "bob"], ["is_locked", 1, 1]], "users")
    assert found(ROW, pid=4711, age=20), "its number was given to another since"


def test_a_lease_ends_and_no_row_is_deleted() -> None:
    (idea,) = found([["name", 1, "leader"], ["owner", 1, "web-2/4711"], ["expires", 0, 2e9]])
    assert '"expires" = 0' in idea.fix[0]
    assert not any("delete" in command for command in idea.fix)


@pytest.mark.parametrize(
    ("text", "pid"),
    [("prod-a3/8979", 8979), ("prod-a3:8979 2026-11-16 08:01:05", 8979), ("4711", 4711),
     ("delayed_job host:web3 pid:812", 812), ("node-17", 0), ("ann@web.shop.812:1794", 812),
     ("812 since 10:20:30", 812)],
)  # fmt: skip
def test_who_has_it_is_read_from_what_is_written(text: str, pid: int) -> None:
    assert taken.holder_of(text) == pid


def test_the_look_and_the_change_are_those_of_a_real_database(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as base:
        base.execute(
            "create table schema_lock (id integer primary key, locked int, locked_by text)"
        )
        base.execute("insert into schema_lock values (1, 1, 'web-2/4711')")
        base.execute("create table orders (id integer primary key, body text)")
    look = subprocess.run(["bash", "-c", taken.look(str(path))], capture_output=True, text=True)
    (row,) = taken.held(look.stdout)
    assert (row.table, row.holder) == ("schema_lock", "web-2/4711")
    change = taken.change(str(path), row)
    assert subprocess.run(["bash", "-c", change], check=False).returncode == 0
    assert base.execute("select locked, locked_by from schema_lock").fetchall() == [(0, None)]
    assert subprocess.run(["bash", "-c", change], check=False).returncode == 1, "it has changed"


def test_a_number_of_a_worker_or_a_person_is_no_process_and_a_host_may_be_another() -> None:
    said = [["id", 1, 1], ["locked", 1, 1], ROW[3]]
    assert found([*said, ["locked_by", 0, "web-2"], ["pid", 0, 4711]])
    assert not found([*said, ["locked_host", 0, "web-7"], ["pid", 0, 4711]])
    assert not found([*said, ["locked_host", 0, "web-22"], ["pid", 0, 4711]])
    for name in ("worker_id", "node", "owner_id"):
        assert not found([*said, [name, 0, 4711]])


def test_a_lock_that_names_nobody_stays_while_one_runs_who_may_have_taken_it() -> None:
    row = [["id", 1, 1], ["locked", 1, 1], ["locked_at", 0, "2026-11-15 19:10:00"]]
    assert found(row)
    assert not found(row, mine=9000), "it runs since before the lock was taken"
