-- After m002_branches.sql.
insert into migrations (name, time) values ('m003_background_commands', 1000000.0);
create table background_commands (id text primary key, session integer not null, terminal text not null, wake integer not null, known integer not null, ended text, messages text not null default '[]') strict, without rowid;
