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
