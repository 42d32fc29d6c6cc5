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
  cost real,
  terminals text not null default 'local',
  effort text not null default '',
  parent text not null default '',
  depth integer not null default 0,
  share text not null default '{}'
) strict;
create unique index sessions_by_name on sessions (name) where name <> '';
create index sessions_by_update on sessions (updated);
create index sessions_by_owner on sessions (belongs, updated) where belongs <> '';
create index sessions_by_parent on sessions (parent) where parent <> '';

create table prompts (hash text primary key, body text not null) strict, without rowid;

-- `id` is the row of the event in the search index, where it has one.
create table events (
  id integer primary key,
  session integer not null,
  number integer not null,
  kind text not null,
  turn integer,
  time real not null,
  body any not null
) strict;
create unique index events_by_number on events (session, number);
create index events_judged on events (time) where kind = 'call_judged';

-- The row stays when the message is taken, so that its key is known for good. `place` orders those
-- that wait.
create table queued_messages (
  session integer not null,
  key text not null,
  place integer not null default 0,
  body any,
  primary key (session, key)
) strict, without rowid;
create index queued_messages_waiting on queued_messages (session, place) where body is not null;

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

-- Whose they were is known also when the session is gone.
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

-- It has no session key: it outlives sessions. `digest` is that of the event; the other columns
-- and `details` together are the entry that `hash` covers.
create table audit (
  number integer primary key,
  time real not null,
  session text not null,
  event integer not null,
  digest blob not null,
  details text not null,
  hash blob not null
) strict;
create unique index audit_by_session on audit (session, event);

-- Which session uses which file in blobs/; `unused_blobs` are files nobody uses, to be removed.
create table blobs (
  hash text not null, session integer not null, primary key (hash, session)
) strict, without rowid;
create index blobs_by_session on blobs (session);
create table unused_blobs (hash text primary key) strict, without rowid;

-- Names that messages can be filtered by; the index holds their number as a token.
create table names (id integer primary key, name text not null unique) strict;

create virtual table words using fts5 (
  text, content = '', contentless_delete = 1, prefix = '3',
  tokenize = 'unicode61 remove_diacritics 2'
);
-- The writer merges the index in small steps, after it has told those who wait.
insert into words (words, rank) values ('automerge', 0), ('crisismerge', 64);
insert into meta values ('fence', 0), ('audit_since', unixepoch('subsec'));
