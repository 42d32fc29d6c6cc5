-- After m003_folders_and_recipients_of_jobs.sql.
insert into migrations (name, time) values ('m004_background_commands', 1000000.0);
create table background_commands (id text primary key, session integer not null, terminal text not null, wake integer not null, known integer not null, ended text, messages text not null default '[]') strict, without rowid;
