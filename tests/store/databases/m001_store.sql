create table migrations (place integer primary key, name text not null unique, time real not null) strict;
insert into migrations (name, time) values ('m001_store', 1000000.0);
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
-- The body is the whole value; the other columns are what it is found by.
create table incidents (
  number integer primary key autoincrement,
  state text not null,
  source text not null,
  fingerprint text not null,
  opened real not null,
  last_signal real not null,
  body text not null
) strict;
create index incidents_by_state on incidents (state);
create index incidents_by_fingerprint on incidents (fingerprint);
-- What is raised again is counted, not added.
create table signals (
  id integer primary key autoincrement,
  incident integer not null,
  fingerprint text not null,
  firing integer not null,
  first real not null,
  last real not null,
  count integer not null,
  body text not null,
  unique (incident, fingerprint)
) strict;
create index signals_by_fingerprint on signals (fingerprint);
create table incident_entries (
  incident integer not null,
  number integer not null,
  time real not null,
  kind text not null,
  text text not null,
  data text not null,
  primary key (incident, number)
) strict, without rowid;
create table incident_notices (
  id integer primary key autoincrement,
  incident integer not null,
  kind text not null,
  number integer not null,
  channel text not null,
  text text not null,
  created real not null,
  sent real,
  attempts integer not null default 0,
  due real not null,
  error text not null default '',
  unique (incident, kind, number, channel)
) strict;
create index incident_notices_due on incident_notices (due) where sent is null;
create table checks (
  name text primary key,
  ok integer,
  since real not null,
  last real not null,
  failures integer not null,
  detail text not null,
  seconds real not null
) strict, without rowid;
create table check_hours (
  name text not null,
  hour real not null,
  runs integer not null,
  failures integer not null,
  seconds real not null,
  primary key (name, hour)
) strict, without rowid;
create table log_cursors (
  path text primary key, file text not null, offset integer not null
) strict, without rowid;
create table services (name text primary key, body text not null) strict, without rowid;
create table jobs (
  number integer primary key autoincrement,
  key text not null,
  name text not null,
  state text not null,
  spec text not null,
  schedule text not null,
  created real not null,
  by text not null,
  origin text not null,
  planned real not null,
  next real,
  failures integer not null default 0,
  version integer not null default 1
) strict;
create unique index jobs_by_key on jobs (key) where key <> '';
create unique index jobs_by_name on jobs (name) where name <> '' and state <> 'removed';
create index jobs_due on jobs (next) where state = 'active' and next is not null;

-- A schedule and the time it held for. All its slots with begin < slot <= end have a row.
create table job_spans (
  id integer primary key,
  job integer not null,
  begin real not null,
  end real,
  schedule text not null
) strict;
create index job_spans_by_job on job_spans (job, begin);

-- Thousands of slots may be missed for one reason: it is written once.
create table job_reasons (id integer primary key, text text not null unique) strict;

create table job_runs (
  id integer primary key autoincrement,
  job integer not null,
  slot real not null,
  hand integer not null,
  state text not null,
  created real not null,
  claimed real,
  fence integer not null default 0,
  heartbeat real,
  attempts integer not null default 0,
  began real,
  ended real,
  session text not null default '',
  after integer not null default 0,
  output text not null default '',
  said integer not null default 1,
  reason integer,
  cost real,
  tokens integer not null default 0,
  late real not null default 0,
  told text not null default '',
  slots integer not null default 1,
  since real
) strict;
create unique index job_runs_by_job on job_runs (job, slot, hand);
create index job_runs_by_slot on job_runs (slot);
create index job_runs_open on job_runs (slot)
  where state in ('due', 'claimed', 'running', 'parked');
-- What came in and what goes out. Names that platforms give to people and places are in the bodies
-- alone, which go when they are old; the hashes stay, so that nothing is taken or sent twice.
create table gateway_inbox (
  number integer primary key autoincrement,
  channel text not null,
  hash text not null,
  state text not null,
  kept real not null,
  tries integer not null default 0,
  why text not null default '',
  body any,
  unique (channel, hash)
) strict;
create index gateway_inbox_undone on gateway_inbox (state, number) where state in ('new', 'dead');
create index gateway_inbox_kept on gateway_inbox (kept) where body is not null;
-- `tried`: when it was last tried; `unsure`: when first with an unknown outcome.
create table gateway_outbox (
  id integer primary key autoincrement,
  hash text not null unique,
  key text,
  channel text not null,
  chat text not null,
  state text not null,
  created real not null,
  attempts integer not null default 0,
  due real not null,
  receipt text not null default '',
  sent real,
  error text not null default '',
  doubtful integer not null default 0,
  part integer not null default 0,
  body any,
  tried real,
  unsure real
) strict;
create index gateway_outbox_unsent on gateway_outbox (channel, chat, id)
  where state in ('waiting', 'sending');
create index gateway_outbox_dead on gateway_outbox (channel, id) where state = 'dead';
create index gateway_outbox_by_key on gateway_outbox (key) where key is not null;
create index gateway_outbox_sent on gateway_outbox (sent) where state = 'sent' and body is not null;
-- `owner` is also whose files in blobs/ they are: below zero, where no session is.
create table gateway_media (
  owner integer not null,
  place integer not null,
  kind text not null,
  head text not null,
  body any not null,
  primary key (owner, place)
) strict, without rowid;
create table gateway_cursors (channel text primary key, mark text not null) strict, without rowid;
create table gateway_identities (
  channel text not null, hash text not null, body text not null, primary key (channel, hash)
) strict, without rowid;
create table gateway_pairings (
  hash text primary key, channel text not null, expires real not null, body text not null
) strict, without rowid;
create table gateway_bindings (
  key text primary key,
  session text not null,
  told integer not null,
  body text not null
) strict, without rowid;
create index gateway_bindings_by_session on gateway_bindings (session);
create table gateway_health (channel text primary key, body text not null) strict, without rowid;
-- Who wrote and is not known, by hash; and what of theirs was ignored.
create table gateway_strangers (
  channel text not null, hash text not null, primary key (channel, hash)
) strict, without rowid;
create index gateway_inbox_ignored on gateway_inbox (channel, number) where state = 'ignored';

update meta set value = 3 where name = 'fence';
insert into meta values ('id', 'oldstore');
insert into prompts values ('p', '{"system":"You are Hermes.","tools":[]}');
insert into sessions (key, id, name, title, belongs, source, workspace, policy, model, prompt, created, updated, last, messages, turns)
  values (1, 'aaaabbbb', 'old', 'how warm is the sea', '', 'cli', '/work', 'careful', 'openai/m', 'p', 1000000.0, 1000000.0, 4, 2, 1);
insert into turns (id, session, fence, state, started) values (1, 1, 3, 'running', 1000000.0);
insert into queued_messages (session, key) values (1, 'k1');
insert into names values (1, 'cli');
insert into words (rowid, text) values
  (3, 'how warm is the sea ' || char(0xe001) || ' ' || char(0xe010, 0xe101) || ' ' || char(0xe012, 0xe101)),
  (4, 'it is 17 degrees ' || char(0xe002) || ' ' || char(0xe010, 0xe101) || ' ' || char(0xe012, 0xe101));
insert into events values
  (1, 1, 1, 'session_opened', null, 1000000.0, '{"kind":"session_opened","workspace":"/work","policy":"careful","model":"openai/m","prompt":"p"}'),
  (2, 1, 2, 'turn_started', 1, 1000000.0, '{"kind":"turn_started","turn":1}'),
  (3, 1, 3, 'message_taken', 1, 1000000.0, '{"kind":"message_taken","key":"k1","text":"how warm is the sea"}'),
  (4, 1, 4, 'replied', 1, 1000000.0, '{"kind":"replied","step":1,"text":"it is 17 degrees"}');
