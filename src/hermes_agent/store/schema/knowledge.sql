create table notes (
  id integer primary key autoincrement,
  view text not null check (view in ('memory', 'user')),
  text text not null,
  created real not null,
  updated real not null,
  by text not null,
  source text not null,
  model text not null,
  confidence real not null,
  used integer not null default 0,
  last_used real not null default 0,
  removed integer not null default 0
) strict;
create table note_changes (
  id integer primary key autoincrement,
  batch integer not null,
  time real not null,
  by text not null,
  source text not null,
  model text not null,
  note integer not null,
  view text not null,
  before text,
  after text,
  undoes integer not null
) strict;
create index note_changes_by_note on note_changes (note);
create index note_changes_by_batch on note_changes (batch);

create table docs (
  id integer primary key autoincrement,
  kind text not null,
  ref text not null,
  title text not null,
  text text not null,
  time real not null,
  unique (kind, ref)
) strict;
create virtual table doc_words using fts5 (
  title, text, content = '', contentless_delete = 1,
  tokenize = 'unicode61 remove_diacritics 2'
);
create table vectors (
  model text not null, doc integer not null, data blob not null, primary key (model, doc)
) strict, without rowid;
create index vectors_by_doc on vectors (doc);

create table skills (
  name text primary key,
  state text not null,
  version integer not null,
  digest text not null,
  created real not null,
  changed real not null,
  by text not null,
  model text not null,
  reason text not null
) strict, without rowid;
create table skill_versions (
  skill text not null,
  number integer not null,
  digest text not null,
  time real not null,
  by text not null,
  model text not null,
  why text not null,
  good integer not null,
  files blob not null,
  primary key (skill, number)
) strict;
create table skill_changes (
  id integer primary key,
  skill text not null,
  time real not null,
  what text not null,
  why text not null,
  by text not null
) strict;
create index skill_changes_by_skill on skill_changes (skill);
create table skill_uses (
  id integer primary key autoincrement,
  skill text not null,
  digest text not null,
  session text not null,
  turn integer not null,
  time real not null,
  opened integer not null,
  outcome text not null,
  steps integer not null,
  seconds real not null,
  tokens integer not null,
  dollars real,
  model text not null,
  why text not null,
  unique (skill, session, turn)
) strict;
create index skill_uses_by_time on skill_uses (time);
create table cases (
  id text not null,
  skill text not null,
  task text not null,
  setup text not null,
  "check" text not null,
  held integer not null,
  source text not null,
  primary key (skill, id)
) strict;
create table trials (
  id integer primary key,
  skill text not null,
  digest text not null,
  "case" text not null,
  arm text not null,
  round integer not null,
  time real not null,
  ok integer not null,
  steps integer not null,
  seconds real not null,
  tokens integer not null,
  dollars real,
  model text not null,
  session text not null,
  opened integer not null,
  unique (skill, digest, "case", arm, round)
) strict;

create table proposals (
  id integer primary key autoincrement,
  kind text not null,
  title text not null,
  body text not null,
  evidence text not null,
  time real not null,
  model text not null,
  state text not null default 'open' check (state in ('open', 'accepted', 'rejected')),
  by text not null default ''
) strict;
-- `session` is what the body names, if it does: such work goes with its session.
create table tasks (
  key text primary key,
  kind text not null,
  body text not null,
  due real not null,
  tries integer not null,
  state text not null check (state in ('due', 'done', 'given-up')),
  result text not null,
  session text as (coalesce(body ->> '$.session', '')) stored
) strict;
create index tasks_due on tasks (due) where state = 'due';
create index tasks_by_session on tasks (session);
create table counters (name text primary key, value integer not null) strict, without rowid;
