-- After m002_branches.sql.
insert into migrations (name, time) values ('m003_folders_and_recipients_of_jobs', 1000000.0);
alter table job_runs add column sent_to text not null default '';
alter table job_runs add column unsent text not null default '';
