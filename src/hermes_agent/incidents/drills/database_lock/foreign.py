"""Two jobs that wait for each other, and a server that was told to look away."""

import time

from hermes_agent.incidents.drills import database, harbour, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.webshop import Store
from hermes_agent.incidents.drills.world import File, Program, Truth

PERIOD = 5
MOVING = '''"""Books what has come in since the last time: from FIRST to SECOND."""
import sys
import time

from pgline import DatabaseError, Line

url, name = sys.argv[1:3]
line = None
while True:
    time.sleep(PERIOD - time.time() % PERIOD)
    while True:
        try:
            line = line or Line(url, name)
            line.query("begin")
            line.query("update TABLE set n = n + 1 where name = 'FIRST'")
            time.sleep(0.2)
            line.query("update TABLE set n = n + 1 where name = 'SECOND'")
            line.query("commit")
            break
        except DatabaseError as error:
            print(time.strftime("%F %T"), "once more:", error, flush=True)
            if line:
                line.close()
            line = None
            time.sleep(0.3)
    with open(f"/data/{name}/booked", "w") as file:
        file.write(f"{time.time()}\\n")
'''


def _job(name: str, store: Store, table: str, first: str, second: str) -> tiers.Part:
    """A job that is due every few seconds."""
    code, text = f"/data/{name}/book.py", MOVING.replace("PERIOD", str(PERIOD))
    text = text.replace("TABLE", table).replace("FIRST", first).replace("SECOND", second)
    return tiers.Part(
        Program(name=name, command=f"python3 {code} {store.url} {name}", needs=(database.NAME,),
                about=f"books every {PERIOD} s; must go on", ready=f"file:/data/{name}/booked"),
        {code: File(text, age=tiers.MONTH),
         f"/data/{name}/pgline.py": File(tiers.program_text("pgline.py"), age=tiers.MONTH)},
    )  # fmt: skip


def _census(name: str, store: Store) -> tiers.Part:
    """Has a transaction open all day, and is in nobody's way."""
    psql, script = f"{store.psql.replace('-U postgres', '-U app')} -q", f"/data/{name}/census.sh"
    text = (
        f"#!/bin/bash\nexport PGAPPNAME={name}\nuntil {psql} -c 'select 1'; do sleep 0.2; done\n"
        f"(echo 'begin; select count(*) from visits;'; touch /run/{name}.up; sleep 100000)"
        f" | {psql}\n"
    )
    return tiers.Part(
        Program(name=name, command=script, needs=(database.NAME,), ready=f"file:/run/{name}.up",
                about="counts over the day, in one transaction; must not be interrupted"),
        {script: File(text, mode=0o755, age=tiers.MONTH)},
    )  # fmt: skip


def _books(probe: Probe, name: str) -> str:
    when = probe.text(f"/data/{name}/booked").strip()
    return "" if when and time.time() - float(when) < PERIOD + 4 else f"{name} does not book"


def _unharmed(probe: Probe, store: Store, census: str) -> list[str]:
    held = f"application_name = '{census}' and state = 'idle in transaction'"
    kept = store.ask(probe, f"select count(*) from pg_stat_activity where {held}") == "1"
    tallied = "select count(*) from pg_trigger where tgname = 'tallied' and tgenabled = 'O'"
    return said(
        store.lost(probe),
        "" if kept else f"the transaction of {census} was ended",
        "" if store.ask(probe, tallied) == "1" else f"{store.table} is not tallied any more",
    )


def _tallied(store: Store, table: str, rows: tuple[str, str], begun: int) -> tiers.Part:
    """The server: what is written to the records is counted in a row of another table."""
    counting = f"update {table} set n = n + 1 where name = ''{rows[0]}''"
    return store.server(
        "create table visits as select n as id from generate_series(1, 200) n",
        f"create table {table} (name text primary key, n bigint)",
        f"insert into {table} values ('{rows[0]}', {begun}), ('{rows[1]}', 31)",
        "create function tallied() returns trigger language plpgsql as "
        f"'begin {counting}; return new; end'",
        f"create trigger tallied before insert or update on {store.table} for each row "
        "execute function tallied()",
    )


def _met(box: Box, store: Store, one: str, two: str, quiet: str) -> None:
    """The server looks away, after it has had to look, and both wait."""
    log = "/var/log/supervisor/postgres.log"
    box.run(f"until grep -q 'deadlock detected' {log}; do sleep 0.2; done", check=False)
    box.run(quiet)
    sql = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and "
        f"application_name in ('{one}', '{two}') and query_start < now() - interval '3 s'"
    )
    box.run(f'until [[ $({store.psql} -Atc "{sql}") > 1 ]]; do sleep 0.2; done', seconds=30)


def _works(probe: Probe, store: Store, port: int, jobs: tuple[str, str]) -> list[str]:
    """What does not work, or would not when the jobs are due again."""

    def look() -> list[str]:
        stored = harbour.stores(probe, port, timeout=3.0)
        return said(stored, *(_books(probe, job) for job in jobs))

    sql = "select setting::int <= 2000 from pg_settings where name = 'deadlock_timeout'"
    if (wrong := look()) or store.ask(probe, sql) == "t":
        return wrong
    time.sleep(PERIOD + 4.5)  # it was mended in another way, or they have met again by then
    return look()


def each_other(pick: Pick) -> Scene:
    """Two jobs take two rows, each in an order of its own, and the server was told not to look for
    deadlocks for long."""
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, census = Store(pick, main, base_port), f"{pick.word()}-census"
    one, two = (f"{main}-{word}" for word in pick.some(("intake", "returns", "reserve", "dues"), 2))
    first, second = pick.some(("open", "paid", "sent", "due"), 2)
    table, long = pick.choice(("tallies", "totals", "balances")), pick.choice(("45min", "1h", "3h"))
    reload = f"{store.psql} -c 'select pg_reload_conf()'"
    quiet = pick.choice((
        f"{store.psql} -c \"alter system set deadlock_timeout = '{long}'\"",
        f"echo \"deadlock_timeout = {long}  # the log was full of it\" >> {database.SETTINGS}",
    ))  # fmt: skip
    looks = f"{store.psql} -c \"alter system set deadlock_timeout = '1s'\""
    end = f'{store.psql} -c "select pg_terminate_backend(pid) from pg_stat_activity where'
    own = harbour.in_base(store, **{"spring.datasource.statement-timeout-ms": 2500})
    world = tiers.joined(
        [_tallied(store, table, (first, second), pick.size(90, 900)), _census(census, store),
         harbour.app(main, port, own, needs=(database.NAME,)),
         _job(one, store, table, first, second), _job(two, store, table, second, first),
         harbour.app(other, other_port)],
        files={**harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=harbour.health(main, port),
        healthy=lambda probe: _works(probe, store, port, (one, two)),
        truth=Truth(
            (database.NAME, store.name, one, two, table), ("database-lock", "bad-config"),
            rf"[dD]eadlock|{one}|{two}|\b{table}\b|postgresql(\.auto)?\.conf",
            rf"[dD]eadlock|{one}|{two}|\b{table}\b|transactionid",
        ),
        inject=lambda box: _met(box, store, one, two, f"{quiet} && {reload}"),
        fix=(looks, reload, f"{end} application_name = '{one}'\"", "sleep 1"),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "one of the two is cut off": [f"{end} application_name = '{one}'\"; sleep 1"],
            "both jobs are restarted": [f"supervisorctl restart {one} {two}; sleep 1"],
            "one of the two is stopped": [f"supervisorctl stop {two}; sleep 1"],
            "what is idle in a transaction ends": [f"{end} state ~ 'idle in'\"; sleep 1"],
            "nobody tallies": [f"{store.psql} -c 'drop trigger tallied on {store.table}'"],
            "the server looks again, and nobody is let go": [looks, reload],
            "the database is restarted": [f"supervisorctl restart {database.NAME}; sleep 4"],
        },
        stays=(harbour.settings_of(main), harbour.settings_of(other)),
        runs=(f"/data/{one}/book.py", f"/data/{two}/book.py"),
        harm=lambda probe: [*_unharmed(probe, store, census),
                            *said(harbour.stores(probe, other_port))],
    )  # fmt: skip
