"""Named changes of the database's shape. They run once, in order, and only forward."""

from collections.abc import Callable, Sequence

import apsw

from hermes_agent.core.errors import HermesError
from hermes_agent.store.gateway.tables import GATEWAY_ATTEMPTS, GATEWAY_TABLES
from hermes_agent.store.incidents.tables import INCIDENT_TABLES
from hermes_agent.store.jobs.tables import JOB_TABLES
from hermes_agent.store.knowledge.tables import LORE_TABLES

Migration = Callable[[apsw.Connection], None]

_TABLES = """
create table meta (name text primary key, value any) strict, without rowid;

create table sessions (
  key integer primary key autoincrement,
  id text not null unique,
  name text not null,
  title text not null default '',
  belongs text not null,
  source text not null,
  workspace text not null,
  policy text not null,
  model text not null,
  prompt text not null,
  created real not null,
  updated real not null,
  last integer not null default 0,
  messages integer not null default 0,
  turns integer not null default 0,
  input integer not null default 0,
  output integer not null default 0,
  cached integer not null default 0,
  cost real
) strict;
create unique index sessions_by_name on sessions (name) where name <> '';
create index sessions_by_update on sessions (updated);
create index sessions_by_owner on sessions (belongs, updated) where belongs <> '';

create table prompts (hash text primary key, body text not null) strict, without rowid;

-- An event that carries a message has its body there and none here: a text is stored once.
create table events (
  session integer not null,
  number integer not null,
  kind text not null,
  turn integer,
  time real not null,
  body any,
  message integer,
  primary key (session, number)
) strict, without rowid;

create table messages (
  id integer primary key,
  session integer not null,
  number integer not null,
  role text not null,
  tool text,
  ok integer,
  time real not null,
  body any not null
) strict;

-- The row stays when the message is taken, so that its key is known for good.
create table inbox (
  id integer primary key,
  session integer not null,
  key text not null,
  time real not null,
  body any,
  unique (session, key)
) strict;
create index inbox_waiting on inbox (session, id) where body is not null;

create table turns (
  id integer primary key autoincrement,
  session integer not null,
  fence integer not null,
  state text not null,
  started real not null,
  ended real,
  input integer not null default 0,
  output integer not null default 0,
  cached integer not null default 0,
  cost real
) strict;
create index turns_by_session on turns (session);
create unique index one_unfinished_turn on turns (session) where ended is null;

create table effects (
  id text primary key,
  session integer not null,
  turn integer not null,
  call_id text not null,
  tool text not null,
  state text not null check (state in ('intended', 'done', 'failed', 'parked', 'skipped')),
  attempt integer not null,
  intended real not null,
  settled real,
  reason text not null default ''
) strict, without rowid;
create index effects_by_session on effects (session);
create index effects_parked on effects (session) where state = 'parked';

create table questions (
  id text primary key,
  session integer not null,
  turn integer not null,
  number integer not null
) strict, without rowid;
create index questions_by_session on questions (session);

create table costs (
  time real not null,
  session integer not null,
  number integer not null,
  model text not null,
  use text not null,
  tokens integer not null,
  cost real,
  primary key (time, session, number)
) strict, without rowid;

-- Which session uses which file in blobs/; `doomed` are files nobody uses, to be removed.
create table blobs (
  hash text not null, session integer not null, primary key (hash, session)
) strict, without rowid;
create index blobs_by_session on blobs (session);
create table doomed (hash text primary key) strict, without rowid;

-- Names that messages can be filtered by; the index holds their number as a token.
create table names (id integer primary key, name text not null unique) strict;

create virtual table words using fts5 (
  text, content = '', contentless_delete = 1, prefix = '3',
  tokenize = 'unicode61 remove_diacritics 2'
);
-- The writer merges the index in small steps, after it has told those who wait.
insert into words (words, rank) values ('automerge', 0), ('crisismerge', 64);
"""


def m001_first_tables(db: apsw.Connection) -> None:
    db.execute(_TABLES)
    db.execute("insert into meta values ('fence', 0)")


def m002_terminals_and_audit(db: apsw.Connection) -> None:
    """Sessions know their terminals. The audit log has no session key: it outlives sessions; what
    the journal holds from before it is not in it."""
    db.execute(
        """
        alter table sessions add column terminals text not null default 'local';
        create table audit (
          number integer primary key,
          time real not null,
          session text not null,
          event integer not null,
          body text not null,
          hash text not null
        ) strict;
        create unique index audit_by_session on audit (session, event);
        insert into meta values ('audit_since', unixepoch('subsec'));
        create index events_judged on events (time) where kind = 'call_judged';
        """
    )


def m003_models_and_costs(db: apsw.Connection) -> None:
    """Costs say what they were made of and whose they were, also when their session is gone."""
    db.execute(
        """
        alter table sessions add column effort text not null default '';
        alter table costs rename to old_costs;
        create table costs (
          id integer primary key,
          time real not null,
          session text not null,
          belongs text not null,
          model text not null,
          use text not null,
          input integer not null,
          output integer not null,
          cached integer not null,
          written integer not null,
          reasoning integer not null,
          cost real
        ) strict;
        create index costs_by_time on costs (time, cost);
        create index costs_by_session on costs (session);
        insert into costs (time, session, belongs, model, use, input, output, cached, written,
            reasoning, cost)
          select c.time, coalesce(s.id, ''), coalesce(s.belongs, ''), c.model,
            case c.use when 'reply' then 'main' else 'compaction' end,
            c.tokens, 0, 0, 0, 0, c.cost
          from old_costs c left join sessions s on s.key = c.session order by c.time;
        drop table old_costs;
        """
    )


def m004_children(db: apsw.Connection) -> None:
    """Sessions may work for others, with a share of their budgets."""
    db.execute(
        """
        alter table sessions add column parent text not null default '';
        alter table sessions add column depth integer not null default 0;
        alter table sessions add column share text not null default '{}';
        create index sessions_by_parent on sessions (parent) where parent <> '';
        """
    )


def m005_learning(db: apsw.Connection) -> None:
    """What is learned: notes, what can be recalled, skills and how they did, background work."""
    db.execute(LORE_TABLES)


def m006_incidents(db: apsw.Connection) -> None:
    """Signals, incidents and their timelines, notices, checks, and what is known of services."""
    db.execute(INCIDENT_TABLES)


def m007_jobs(db: apsw.Connection) -> None:
    """Jobs, the times their schedules held for, and a row for each slot of them."""
    db.execute(JOB_TABLES)


def m008_gateway(db: apsw.Connection) -> None:
    """What arrived by channels and what is to be sent, who may talk, and what channels proved."""
    db.execute(GATEWAY_TABLES)


def m009_gateway_attempts(db: apsw.Connection) -> None:
    """When deliveries were tried, and strangers, who are counted over restarts."""
    db.execute(GATEWAY_ATTEMPTS)


MIGRATIONS: Sequence[Migration] = (
    m001_first_tables,
    m002_terminals_and_audit,
    m003_models_and_costs,
    m004_children,
    m005_learning,
    m006_incidents,
    m007_jobs,
    m008_gateway,
    m009_gateway_attempts,
)


def applied(db: apsw.Connection) -> list[str]:
    if db.execute("select 1 from sqlite_schema where name = 'migrations'").fetchone() is None:
        return []
    return [name for (name,) in db.execute("select name from migrations order by place")]


def pending(db: apsw.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> list[Migration]:
    """What is still to be done to this database; an error when it is ahead of this version."""
    done = applied(db)
    known = [migration.__name__ for migration in migrations]
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
    """Bring the database up to date and name what was done."""
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
