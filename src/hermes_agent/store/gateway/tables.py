"""The tables of the gateway, as `m008_gateway` and `m009_gateway_attempts` made them: never
edited."""

GATEWAY_TABLES = """
-- What came in and what goes out. Names that platforms give to people and places are in the bodies
-- alone, which go when they are old; the hashes stay, so that nothing is taken or sent twice.
create table gateway_in (
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
create index gateway_in_undone on gateway_in (state, number) where state in ('new', 'dead');
create index gateway_in_kept on gateway_in (kept) where body is not null;
create table gateway_out (
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
  body any
) strict;
create index gateway_out_unsent on gateway_out (channel, chat, id)
  where state in ('waiting', 'sending');
create index gateway_out_dead on gateway_out (channel, id) where state = 'dead';
create index gateway_out_by_key on gateway_out (key) where key is not null;
create index gateway_out_sent on gateway_out (sent) where state = 'sent' and body is not null;
-- `owner` is also whose files in blobs/ they are: below zero, where no session is.
create table gateway_media (
  owner integer not null,
  place integer not null,
  kind text not null,
  head text not null,
  body any not null,
  primary key (owner, place)
) strict, without rowid;
create table gateway_marks (channel text primary key, mark text not null) strict, without rowid;
create table gateway_people (
  channel text not null, hash text not null, body text not null, primary key (channel, hash)
) strict, without rowid;
create table gateway_pairings (
  hash text primary key, channel text not null, expires real not null, body text not null
) strict, without rowid;
create table gateway_bonds (
  key text primary key,
  session text not null,
  told integer not null,
  body text not null
) strict, without rowid;
create index gateway_bonds_by_session on gateway_bonds (session);
create table gateway_proofs (channel text primary key, body text not null) strict, without rowid;
"""

GATEWAY_ATTEMPTS = """
-- When it was last tried, and when first with an outcome that nobody knows.
alter table gateway_out add column tried real;
alter table gateway_out add column unsure real;
-- Who wrote and is not known, by hash; and what of theirs was ignored.
create table gateway_strangers (
  channel text not null, hash text not null, primary key (channel, hash)
) strict, without rowid;
create index gateway_in_ignored on gateway_in (channel, number) where state = 'ignored';
"""
