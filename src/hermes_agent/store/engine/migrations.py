"""Schema migrations: named, run once, in order, only forward."""

from collections.abc import Callable, Sequence
from pathlib import Path

import apsw

from hermes_agent.core.errors import HermesError

Migration = Callable[[apsw.Connection], None]

SCHEMA = ("journal", "knowledge", "incidents", "jobs", "gateway")
"""The files of `store/schema`, in order."""
UNRELEASED = {"m001_first_tables", "m001_schema", "m001_tables"}
"""The first migrations of versions before 0.1.0."""


def m001_store(db: apsw.Connection) -> None:
    folder = Path(__file__).parents[1] / "schema"
    for name in SCHEMA:
        db.execute((folder / f"{name}.sql").read_text(encoding="utf-8"))


def m002_branches(db: apsw.Connection) -> None:
    db.execute(
        "alter table sessions add column branch_of text not null default '';"
        "alter table sessions add column branch_at integer not null default 0;"
        "create index events_rewound on events (session, number) where kind = 'rewound';"
    )


def m003_folders_and_recipients_of_jobs(db: apsw.Connection) -> None:
    db.execute(
        "update jobs set spec = json_set(json_remove(spec, '$.workspace'), '$.folder', "
        "spec ->> '$.workspace') where spec ->> '$.workspace' is not null;"
        "alter table job_runs add column sent_to text not null default '';"
        "alter table job_runs add column unsent text not null default '';"
    )


def m004_background_commands(db: apsw.Connection) -> None:
    db.execute(
        "create table background_commands (id text primary key, session integer not null, "
        "terminal text not null, wake integer not null, known integer not null, ended text, "
        "messages text not null default '[]') strict, without rowid"
    )


MIGRATIONS: Sequence[Migration] = (
    m001_store,
    m002_branches,
    m003_folders_and_recipients_of_jobs,
    m004_background_commands,
)


def applied(db: apsw.Connection) -> list[str]:
    if db.execute("select 1 from sqlite_schema where name = 'migrations'").fetchone() is None:
        return []
    return [name for (name,) in db.execute("select name from migrations order by place")]


def pending(db: apsw.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> list[Migration]:
    """Migrations not yet applied; an error if the database is newer than this version."""
    done = applied(db)
    known = [migration.__name__ for migration in migrations]
    if not UNRELEASED.isdisjoint(done):
        raise HermesError(
            "this home was made by an unreleased version of Hermes (before 0.1.0)",
            "with that version, `hermes sessions export` writes its conversations to files; then "
            "use a new home and copy config.yaml, .env, memories/, skills/, policies/ and checks/",
        )
    for name in done:
        if name not in known:
            raise HermesError(
                f"the database was made by a newer Hermes (it has {name!r})",
                "update Hermes, or restore a backup made by this version",
            )
    return [migration for migration in migrations if migration.__name__ not in done]


def migrate(
    db: apsw.Connection, now: float, migrations: Sequence[Migration] = MIGRATIONS
) -> list[str]:
    """Apply the pending migrations; returns their names."""
    done = []
    for migration in pending(db, migrations):
        db.execute("begin immediate")
        try:
            db.execute(
                "create table if not exists migrations (place integer primary key, "
                "name text not null unique, time real not null) strict"
            )
            migration(db)
            db.execute(
                "insert into migrations (name, time) values (?, ?)", (migration.__name__, now)
            )
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise
        done.append(migration.__name__)
    return done
