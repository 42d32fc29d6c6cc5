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
