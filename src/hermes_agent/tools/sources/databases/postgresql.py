"""PostgreSQL: who does what, who waits for whom, what is slow, how far standbys are behind."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any, Literal, cast

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import Source, pick, quoted
from hermes_agent.tools.sources.databases.reports import (
    Kept,
    Report,
    Rows,
    Run,
    needed,
    report,
    rows_shown,
    too_powerful,
)
from hermes_agent.tools.sources.results import Change
from hermes_agent.tools.sources.times import Window

_SESSIONS = """
select pid, usename as user, datname as database, state,
  date_trunc('second', now() - coalesce(xact_start, query_start)) as since,
  concat_ws(':', wait_event_type, wait_event) as waits,
  nullif(array_to_string(pg_blocking_pids(pid), ','), '') as blocked_by,
  application_name as application, left(query, 200) as query
from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() """
REPORTS = {
    "overview": [
        Report("server", """
            select split_part(version(), ' on ', 1) as version,
              date_trunc('second', now() - pg_postmaster_start_time()) as up,
              pg_is_in_recovery() as standby,
              (select count(*) from pg_stat_activity where backend_type = 'client backend')
                || ' of ' || current_setting('max_connections') as connections,
              (select max(age(datfrozenxid)) from pg_database) as oldest_transaction_age"""),
        Report("connections by state", """
            select coalesce(state, '?') as state, datname as database, usename as user, count(*),
              max(date_trunc('second', now() - state_change)) as longest
            from pg_stat_activity where backend_type = 'client backend'
            group by 1, 2, 3 order by 4 desc limit 20"""),
        Report("blocked", _SESSIONS + "and cardinality(pg_blocking_pids(pid)) > 0 order by 5 desc"),
        Report("databases", """
            select datname as database, pg_size_pretty(pg_database_size(datname)) as size,
              numbackends as connections, xact_commit as commits, xact_rollback as rollbacks,
              deadlocks, conflicts, temp_files,
              round(100.0 * blks_hit / nullif(blks_hit + blks_read, 0), 1) as cache_hit_percent
            from pg_stat_database where datname is not null and not datname like 'template%'
            order by pg_database_size(datname) desc limit 20"""),
    ],
    "activity": [
        Report("sessions that do something, longest first",
               _SESSIONS + "and state <> 'idle' "
               "order by coalesce(xact_start, query_start) limit 40"),
        Report("idle in a transaction",
               _SESSIONS + "and state like 'idle in%' order by 5 desc limit 20"),
    ],
    "locks": [
        Report("who waits, and for whom",
               _SESSIONS + "and cardinality(pg_blocking_pids(pid)) > 0 order by 5 desc limit 40"),
        Report("who blocks", _SESSIONS + """and pid in (
            select unnest(pg_blocking_pids(pid)) from pg_stat_activity)
            order by 5 desc limit 40"""),
        Report("locks that are not granted", """
            select l.pid, l.locktype as type, l.relation::regclass::text as relation, l.mode,
              date_trunc('second', now() - l.waitstart) as waits
            from pg_locks l where not l.granted limit 40"""),
    ],
    "slow": [
        Report("statements by total time", """
            select calls, round(total_exec_time::numeric) as total_ms,
              round(mean_exec_time::numeric, 1) as mean_ms, round(max_exec_time::numeric) as max_ms,
              rows, left(query, 200) as query
            from pg_stat_statements order by total_exec_time desc limit 20"""),
        Report("running now, longest first",
               _SESSIONS + "and state = 'active' order by query_start limit 20"),
    ],
    "replication": [
        Report("standbys", """
            select application_name as standby, client_addr as address, state, sync_state,
              replay_lag, pg_size_pretty(pg_wal_lsn_diff(
                case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                  else pg_current_wal_lsn() end, replay_lsn)) as behind
            from pg_stat_replication"""),
        Report("this server", """
            select pg_is_in_recovery() as standby, pg_last_wal_receive_lsn() as received,
              pg_last_wal_replay_lsn() as replayed,
              date_trunc('second', now() - pg_last_xact_replay_timestamp()) as last_replayed"""),
        Report("slots", """
            select slot_name as slot, slot_type as type, active, wal_status,
              pg_size_pretty(pg_wal_lsn_diff(case when pg_is_in_recovery()
                then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, restart_lsn)) as kept
            from pg_replication_slots"""),
    ],
    "sizes": [
        Report("tables", """
            select schemaname || '.' || relname as table,
              pg_size_pretty(pg_total_relation_size(relid)) as size,
              n_live_tup as rows, n_dead_tup as dead, seq_scan, idx_scan,
              greatest(last_vacuum, last_autovacuum)::timestamp(0) as vacuumed,
              greatest(last_analyze, last_autoanalyze)::timestamp(0) as analyzed
            from pg_stat_user_tables order by pg_total_relation_size(relid) desc limit 20"""),
        Report("indexes that nothing uses", """
            select schemaname || '.' || relname as table, indexrelname as index,
              pg_size_pretty(pg_relation_size(indexrelid)) as size
            from pg_stat_user_indexes where idx_scan = 0
            order by pg_relation_size(indexrelid) desc limit 10"""),
        Report("free", "select current_database() as database, "
               "pg_size_pretty(pg_database_size(current_database())) as size"),
    ],
}  # fmt: skip
_POWERS = """
with mine as (
  select * from pg_roles r where pg_has_role(current_user, r.oid, 'member')
    or pg_has_role(session_user, r.oid, 'member'))
select concat_ws(', ',
  (select distinct 'is a superuser' from mine where rolsuper),
  (select distinct 'may replicate' from mine where rolreplication),
  (select 'is in ' || string_agg(rolname, ', ') from mine
   where rolname in ('pg_signal_backend', 'pg_write_server_files', 'pg_execute_server_program',
     'pg_read_server_files', 'pg_write_all_data', 'pg_maintain', 'pg_checkpoint')),
  (select 'can write to ' || c.oid::regclass from mine, pg_class c
   where c.relkind in ('r', 'p', 'f') and c.relnamespace not in (
       select oid from pg_namespace where nspname like 'pg\\_%' or nspname = 'information_schema')
     and has_table_privilege(mine.oid, c.oid, 'insert, update, delete, truncate') limit 1),
  (select 'may call ' || p.oid::regproc from mine, pg_proc p
   join pg_language l on l.oid = p.prolang
   left join pg_depend d on d.objid = p.oid and d.classid = 'pg_proc'::regclass and d.deptype = 'e'
   left join pg_extension e on e.oid = d.refobjid
   where (e.extname in ('dblink', 'http', 'pg_net', 'pg_background', 'pg_cron', 'aws_s3',
       'aws_lambda', 'azure_storage')
     or not l.lanpltrusted and l.lanname not in ('internal', 'c'))
     and has_function_privilege(mine.oid, p.oid, 'execute') limit 1)) as powers"""
"""What an account could do in a statement that reads, or by ending sessions of its own role."""
_EFFECT = re.compile(r"emit_message|_advisory_|_to_xml|\bts_(?:stat|rewrite)\b|\bu&", re.IGNORECASE)
"""What any account may do to others in a transaction that only reads: messages to those that follow
its log, and locks; and what could hide that: statements in texts, names in escapes."""
GRANTS = (
    "create role hermes login password '…'",
    "grant pg_monitor, pg_read_all_data to hermes",
)


@tool(capabilities=("network",), repeatable=True, sources=("postgresql",))
async def postgresql(
    context: ToolContext,
    action: Literal["overview", "activity", "locks", "slow", "replication", "sizes", "query"],
    query: str = "",
    limit: Annotated[int, Meta(ge=1, le=200)] = 50,
    source: str = "",
) -> ToolResult:
    """Look into PostgreSQL. overview: connections, blocked sessions, databases; locks: who blocks
    whom; slow: statements by time; query: one statement in a read-only transaction."""
    one = pick(context, source, "postgresql")
    async with _connected(one) as run:
        if action != "query":
            return await report(one, REPORTS[action], run)
        needed(query, _EFFECT)
        if powers := (await run(_POWERS)).rows[0][0]:
            raise too_powerful(one, powers, GRANTS)
        return rows_shown(one, await run(query), limit)


@asynccontextmanager
async def _connected(source: Source) -> AsyncIterator[Run]:
    """Runs single statements, each in a read-only transaction that ends with it."""
    import psycopg

    source.check_reach()
    settings = source.settings
    milliseconds = int(settings.timeout_seconds * 1000)
    try:
        connection = await psycopg.AsyncConnection.connect(
            settings.url,
            user=settings.user or None,
            password=source.secret(settings.password) or None,
            connect_timeout=max(2, int(settings.timeout_seconds)),
            application_name="hermes",
            options=f"-c statement_timeout={milliseconds} -c lock_timeout=2000"
            " -c default_transaction_read_only=on",
            sslrootcert=settings.ca_file or None,
        )
    except psycopg.Error as error:
        hint = "" if settings.user else f"`hermes config set sources.{source.name}.user NAME`"
        if "no password supplied" in str(error):
            hint = "remove it, and add it with --user NAME --password"
        raise ToolError(
            f"cannot reach {source.label}: {quoted(str(error))}", hint, "same"
        ) from None

    async def run(statement: str) -> Rows:
        try:
            async with connection.transaction(force_rollback=True), connection.cursor() as cursor:
                kept = Kept()
                # In the protocol of a stream, the server takes one statement, not several.
                stream = cast("AsyncGenerator[Any]", cursor.stream(statement.encode()))
                async with aclosing(stream) as rows:
                    async for row in rows:
                        if not kept.add(row):
                            break
                return Rows([column.name for column in cursor.description or ()], kept.rows)
        except psycopg.Error as error:
            raise ToolError(f"PostgreSQL answers: {quoted(str(error))}", retry="changed") from None

    async with connection:
        await connection.set_read_only(True)
        yield run


async def changes(source: Source, _span: Window) -> list[Change]:
    """Restarts, new settings, tables that were vacuumed or analyzed by hand."""
    moments = """
        select extract(epoch from pg_postmaster_start_time())::float8, 'the server started'
        union all
        select extract(epoch from pg_conf_load_time())::float8, 'its settings were loaded'
        union all
        select extract(epoch from stats_reset)::float8, 'statistics of ' || datname || ' were reset'
        from pg_stat_database where stats_reset is not null and datname is not null
        union all
        select extract(epoch from last_vacuum)::float8, 'vacuum of ' || relname
        from pg_stat_user_tables where last_vacuum is not null"""
    async with _connected(source) as run:
        rows = (await run(moments)).rows
    return [Change(at, what) for at, what in rows]


async def verify(source: Source) -> str:
    async with _connected(source) as run:
        version = (await run("show server_version")).rows[0][0]
        powers = (await run(_POWERS)).rows[0][0]
    return f"answers; PostgreSQL {version.split()[0]}" + (
        f"; the account {powers}" if powers else ""
    )
