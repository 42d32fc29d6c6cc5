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
