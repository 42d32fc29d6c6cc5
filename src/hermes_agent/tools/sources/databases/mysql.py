"""MySQL and MariaDB: who does what, who waits for whom, what is slow, how replicas are."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import Source, pick, quoted, tls
from hermes_agent.tools.sources.databases.reports import (
    ROWS,
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
select id, user, db, command, time as seconds, state, left(info, 200) as query
from information_schema.processlist where id <> connection_id() """
_WAITS = """
select r.trx_mysql_thread_id as waiting, r.trx_wait_started as since,
  left(r.trx_query, 150) as query, b.trx_mysql_thread_id as blocked_by,
  b.trx_started as blocker_since,
  left(b.trx_query, 150) as blocker_query
from information_schema.innodb_trx r """
REPORTS = {
    "overview": [
        Report("server", "select version() as version, @@hostname as host, "
               "@@global.read_only as read_only, @@global.max_connections as max_connections"),
        Report("status", "show global status where variable_name in ('Threads_connected', "
               "'Threads_running', 'Max_used_connections', 'Aborted_connects', 'Aborted_clients', "
               "'Slow_queries', 'Innodb_row_lock_current_waits', 'Innodb_deadlocks', 'Uptime', "
               "'Connection_errors_max_connections', 'Created_tmp_disk_tables')"),
        Report("connections", "select user, db, command, count(*) as count, max(time) as longest "
               "from information_schema.processlist group by 1, 2, 3 order by 4 desc limit 20"),
    ],
    "activity": [
        Report("sessions that do something, longest first",
               _SESSIONS + "and command <> 'Sleep' order by time desc limit 40"),
        Report("open transactions", """
            select trx_mysql_thread_id as id, trx_state as state, trx_started as since,
              trx_rows_locked as locked, trx_rows_modified as modified,
              left(trx_query, 150) as query
            from information_schema.innodb_trx order by trx_started limit 20"""),
    ],
    "locks": [
        Report("who waits, and for whom (MySQL 8)", _WAITS + """
            join performance_schema.data_lock_waits w
              on w.requesting_engine_transaction_id = r.trx_id
            join information_schema.innodb_trx b on w.blocking_engine_transaction_id = b.trx_id
            limit 40"""),
        Report("who waits, and for whom (MariaDB)", _WAITS + """
            join information_schema.innodb_lock_waits w on w.requesting_trx_id = r.trx_id
            join information_schema.innodb_trx b on w.blocking_trx_id = b.trx_id limit 40"""),
        Report("waiting for metadata or tables",
               _SESSIONS + "and state like 'Waiting for%' order by time desc limit 40"),
    ],
    "slow": [
        Report("statements by total time", """
            select count_star as calls, round(sum_timer_wait / 1e9) as total_ms,
              round(avg_timer_wait / 1e9, 1) as mean_ms, sum_rows_examined as examined,
              schema_name as db, left(digest_text, 200) as query
            from performance_schema.events_statements_summary_by_digest
            order by sum_timer_wait desc limit 20"""),
        Report("running now, longest first",
               _SESSIONS + "and command = 'Query' order by time desc limit 20"),
    ],
    "replication": [
        Report("this replica", "show replica status"),
        Report("replicas", "select id, user, host, time as seconds, state "
               "from information_schema.processlist where command like 'Binlog Dump%'"),
    ],
    "sizes": [
        Report("tables", """
            select concat(table_schema, '.', table_name) as `table`, engine, table_rows as `rows`,
              round((data_length + index_length) / 1e6, 1) as mb,
              round(data_free / 1e6, 1) as free_mb
            from information_schema.tables where table_type = 'BASE TABLE' and table_schema not in
              ('mysql', 'information_schema', 'performance_schema', 'sys')
            order by data_length + index_length desc limit 20"""),
    ],
}  # fmt: skip
EFFECT = re.compile(
    r"\b(?:(?:for|lock)\b.*\b(?:share|update)|(?:out|dump)file|load_file|get_lock"
    r"|release_(?:all_)?locks?|nextval|setval|next\b.*\bvalue)\b",
    re.IGNORECASE | re.DOTALL,
)
"""What a select does to others: locks, files, sequences. Only words count, whatever is between
them: what is a comment and what is a text depends on the server's mode."""
_POWERS = re.compile(r"\b(ALL PRIVILEGES|SUPER|FILE)\b.* ON \*\.\*")
"""With these, a statement that reads can write files and change the server."""
GRANTS = (
    "create user hermes identified by '…'",
    "grant select, process, replication client on *.* to hermes",
)


@tool(capabilities=("network",), repeatable=True, sources=("mysql",))
async def mysql(
    context: ToolContext,
    action: Literal["overview", "activity", "locks", "slow", "replication", "sizes", "query"],
    query: str = "",
    limit: Annotated[int, Meta(ge=1, le=200)] = 50,
    source: str = "",
) -> ToolResult:
    """Look into MySQL or MariaDB. overview: connections and status; locks: who blocks whom; slow:
    statements by time; query: one statement in a read-only transaction."""
    one = pick(context, source, "mysql")
    async with _connected(one) as run:
        if action != "query":
            return await report(one, REPORTS[action], run)
        needed(query, EFFECT)
        granted = [_POWERS.search(str(row[0])) for row in (await run(await _grants(run))).rows]
        if powers := ", ".join(found[1] for found in granted if found):
            raise too_powerful(one, f"has {powers}", GRANTS)
        return rows_shown(one, await run(query), limit)


async def _grants(run: Run) -> str:
    """The statement that shows what an account may do; MySQL leaves out its roles unless asked."""
    with suppress(ToolError):
        if (roles := (await run("select current_role()")).rows[0][0] or "NONE") != "NONE":
            await run(using := f"show grants for current_user() using {roles}")
            return using
    return "show grants"


@asynccontextmanager
async def _connected(source: Source) -> AsyncIterator[Run]:
    """Runs single statements, each in a read-only transaction that ends with it."""
    import pymysql
    from pymysql.cursors import SSCursor

    source.check_reach()
    settings = source.settings
    parts, seconds = source.parts(), settings.timeout_seconds
    secure = settings.ca_file or re.search("tls|ssl", parts.query)

    def connect() -> Any:
        return pymysql.connect(
            host=host_of(settings.url), port=parts.port or 3306, user=settings.user or None,
            database=parts.path.strip("/") or None,
            ssl=tls(settings.ca_file) if secure else None,
            password=source.secret(settings.password), connect_timeout=max(1, int(seconds)),
            read_timeout=seconds, write_timeout=seconds, charset="utf8mb4",
        )  # fmt: skip

    try:
        connection = await asyncio.to_thread(connect)
    except pymysql.Error as error:
        raise ToolError(f"cannot reach {source.label}: {_said(error)}", retry="same") from None

    limits = (
        f"sql_select_limit = {ROWS}", f"max_statement_time = {max(1, seconds):.0f}",
        f"max_execution_time = {max(1, seconds) * 1000:.0f}",
    )  # fmt: skip

    def execute(statement: str) -> Rows:
        kept = Kept()
        with connection.cursor() as control:
            for limit in limits:
                with suppress(pymysql.Error):  # MySQL knows the one of time, MariaDB the other
                    control.execute(f"set session {limit}")
            control.execute("start transaction read only")
            try:
                with connection.cursor(SSCursor) as cursor:
                    cursor.execute(statement)
                    headers = [column[0] for column in cursor.description or ()]
                    while (row := cursor.fetchone()) and kept.add(row):
                        pass
                return Rows(headers, kept.rows)
            finally:
                control.execute("rollback")

    async def run(statement: str) -> Rows:
        try:
            return await asyncio.to_thread(execute, statement)
        except pymysql.Error as error:
            raise ToolError(f"the server answers: {_said(error)}", retry="changed") from None

    try:
        yield run
    finally:
        await asyncio.to_thread(connection.close)


def _said(error: Any) -> str:
    return quoted(str(error.args[-1]) if error.args else type(error).__name__)


async def changes(source: Source, _span: Window) -> list[Change]:
    """Restarts, and tables whose definition changed."""
    created = """
        select unix_timestamp(create_time), concat('table ', table_schema, '.', table_name,
          ' was created or altered')
        from information_schema.tables where create_time is not null and table_schema not in
          ('mysql', 'information_schema', 'performance_schema', 'sys')"""
    async with _connected(source) as run:
        [(_, up)] = (await run("show global status like 'Uptime'")).rows
        rows = (await run(created)).rows
    # Whole seconds, cut off: it is not in the future, however short ago it was.
    started = Change(source.clock() - float(up) - 1, "the server started")
    return [started, *(Change(float(at), what) for at, what in rows)]


async def verify(source: Source) -> str:
    async with _connected(source) as run:
        version = (await run("select version()")).rows[0][0]
    return f"answers; {version}"
