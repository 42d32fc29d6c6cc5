-- After m001_store.sql.
insert into migrations (name, time) values ('m002_branches', 1000000.0);
alter table sessions add column branch_of text not null default '';
alter table sessions add column branch_at integer not null default 0;
create index events_rewound on events (session, number) where kind = 'rewound';
