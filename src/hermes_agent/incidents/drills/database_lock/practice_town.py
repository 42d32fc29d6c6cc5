"""A job that fills a column in one transaction, and begins again when it is cut off; a change of a
table whose author has gone."""

from hermes_agent.incidents.drills import database, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.tiers import Part
from hermes_agent.incidents.drills.world import File, Program, Truth


def _report(name: str, store: house.Store) -> Part:
    """A long query that harms nobody; each start is written down."""
    script, starts = f"/var/www/{name}/report.sh", f"/var/www/{name}/starts.log"
    psql = store.psql.replace("-U postgres", "-U app")
    return Part(
        Program(
            name=name,
            command=script,
            environment={"PGAPPNAME": name},
            autorestart=False,
            needs=(database.NAME,),
            ready=f"file:{starts}",
            about="the report of the year, one long query; must not be interrupted",
        ),
        {
            script: File(
                f"#!/bin/sh\nuntil {psql} -c 'select 1'; do sleep 0.1; done\n"
                f"echo started >> {starts}\n"
                f"exec {psql} -c 'select count(*), pg_sleep(86400) from pg_class'\n",
                mode=0o755,
                age=tiers.MONTH,
            )
        },
    )


def _ended(probe: Probe, name: str, store: house.Store) -> str:
    sql = f"select count(*) from pg_stat_activity where application_name = '{name}'"
    whole = probe.text(f"/var/www/{name}/starts.log").count("started") == 1
    return "" if whole and store.ask(probe, sql) == "1" else f"the query of {name} was ended"


def _waits(probe: Probe, store: house.Store) -> str:
    found = store.ask(probe, "select count(*) from pg_locks where not granted")
    return "" if found == "0" else f"somebody waits for a lock: {found}"


def _until(box: Box, store: house.Store, name: str) -> None:
    """Until somebody holds the table for writing."""
    sql = (
        "select count(*) from pg_locks l join pg_stat_activity a using (pid) "
        f"where a.application_name = '{name}' and l.relation = '{store.table}'::regclass "
        "and l.mode ~ 'Exclusive' and l.granted"
    )
    box.run(f'until [[ $({store.psql} -Atc "{sql}") > 0 ]]; do sleep 0.1; done', seconds=20)


def _session_ends(store: house.Store, name: str) -> str:
    return (
        f'{store.psql} -c "select pg_terminate_backend(pid) from pg_stat_activity '
        f"where application_name = '{name}'\""
    )


def _filling(job: str, store: house.Store) -> Part:
    """A job that does not give up."""
    script, sql = f"/var/www/{job}/run.sh", f"/var/www/{job}/fill.sql"
    psql = store.psql.replace("-U postgres", "-U app")
    return Part(
        Program(
            name=job,
            command=f"bash {script}",
            environment={"PGAPPNAME": job},
            autostart=False,
            needs=(database.NAME,),
            about=f"fills the new column, started by hand when nobody is there; {script}",
        ),
        {
            script: File(
                f"until {psql} -v ON_ERROR_STOP=1 -f {sql}; do\n"
                '  echo "lost the connection, once more"\n  sleep 0.5\ndone\n',
                age=90_000.0,
            ),
            sql: File(
                f"begin;\nlock table {store.table} in share row exclusive mode;\n"
                f"update {store.table} set region = region_of(body);\ncommit;\n",
                age=90_000.0,
            ),
        },
    )


def begins_again(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    word, report = pick.words(2)
    job, report = f"{main}-{word}", f"{report}-report"
    store = house.Store(pick, main, base_port)
    script, sql = f"/var/www/{job}/run.sh", f"/var/www/{job}/fill.sql"
    function = (
        "create function region_of(text) returns text language sql volatile as "
        "'select left($1, 2) from pg_sleep(600)'"
    )
    used = store.used_by(DATABASE_TIMEOUT_MS=800)
    world = tiers.joined(
        [store.server(f"alter table {store.table} add column region text", function),
         house.app(main, port, used, needs=(database.NAME,)), _filling(job, store),
         _report(report, store),
         house.app(other, other_port)],
        files={**house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"supervisorctl start {job}")
        _until(box, store, job)

    def healthy(probe: Probe) -> list[str]:
        runs = any(script in one.command for one in probe.processes())
        return said(
            house.serves(probe, port), _waits(probe, store), f"{job} runs" if runs else "",
        )  # fmt: skip

    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME, job, store.name), ("database-lock",),
            rf"{job}|{store.table}|pid:? \d+|^\d+$|{script}|{sql}",
            rf"{job}|region_of|RowExclusiveLock|relation \d+|ShareRowExclusive",
        ),
        inject=inject,
        fix=(f"supervisorctl stop {job}", _session_ends(store, job)),
        wrong={
            "only the session is ended": [_session_ends(store, job), "sleep 1.5"],
            "only the job is stopped": [f"supervisorctl stop {job}"],
            "the app is restarted": [f"supervisorctl restart {main}"],
        },
        stays=(house.env_of(main), database.SETTINGS),
        harm=lambda probe: said(
            _ended(probe, report, store), store.lost(probe), house.serves(probe, other_port)
        ),
    )  # fmt: skip


def left_alone(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    report = f"{pick.word()}-report"
    store = house.Store(pick, main, base_port)
    width = pick.choice((200, 300, 400))
    change = f"alter table {store.table} alter column body type varchar({width}) using tidy(body)"
    function = (
        "create function tidy(text) returns text language sql volatile as "
        "'select trim($1) from pg_sleep(900)'"
    )
    world = tiers.joined(
        [store.server(function),
         house.app(main, port, store.used_by(DATABASE_TIMEOUT_MS=800), needs=(database.NAME,)),
         _report(report, store), house.app(other, other_port)],
        files={**house.weeks_ago(main, pick), **house.weeks_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.spawn(f"exec {store.psql} -c '{change}'")
        _until(box, store, "psql")
        box.run("kill -9 $(pgrep -f '[a]lter table')")

    def healthy(probe: Probe) -> list[str]:
        return said(house.serves(probe, port), _waits(probe, store))

    sessions = f'{store.psql} -c "select pg_terminate_backend(pid) from pg_stat_activity where '
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME, store.name, store.table, "psql"), ("database-lock",),
            rf"{store.table}|pid:? \d+|^\d+$|alter table", r"alter table|AccessExclusiveLock|tidy",
        ),
        inject=inject,
        fix=(f"{sessions} query like 'alter table%'\"",),
        wrong={
            "the app is restarted": [f"supervisorctl restart {main}"],
            "the database is restarted": [
                f"supervisorctl restart {database.NAME}", f"supervisorctl restart {main}",
            ],
            "the report is ended": [f"{sessions} application_name = '{report}'\""],
        },
        stays=(house.env_of(main), database.SETTINGS),
        harm=lambda probe: said(
            _ended(probe, report, store), store.lost(probe), house.serves(probe, other_port)
        ),
    )  # fmt: skip
