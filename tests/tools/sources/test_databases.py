"""PostgreSQL, MariaDB and Redis, each for real: what is slow, blocked, large, and what cannot be
changed from here."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.tools.sources.changes import what_changed
from hermes_agent.tools.sources.databases import mysql as mysql_source
from hermes_agent.tools.sources.databases.mysql import mysql
from hermes_agent.tools.sources.databases.postgresql import postgresql
from hermes_agent.tools.sources.databases.redis import redis
from hermes_agent.tools.sources.databases.reports import needed
from tests.support.databases import folder_of_user, listens, postgres_server
from tests.support.sources import Observer, free_port, server

ORDERS = (
    "create table orders (id int primary key, note text)",
    "insert into orders select n, 'x' from generate_series(1, 300) n",
    "create role deputy login in role owner",
    "create role standby login replication",
    "create role shop login",
    "grant insert on orders to shop",
    "create role caller login",
    "create extension dblink",
    "revoke execute on all functions in schema public from public",
    "grant execute on function dblink(text, text) to caller",
)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server(ORDERS) as url:
        yield url


@pytest.fixture
def orders(observer: Observer, postgres: str) -> Observer:
    observer.sources["db"] = SourceSettings(kind="postgresql", url=postgres, user="looker")
    return observer


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        ("select * from t where '#' = '#' for update", "for update"),
        ("select * from t lock /* x */ in share mode", "lock .* share"),
        ("select * from t for/*x*/share", "for.*share"),
        ("select '--', get_lock('a', 9)", "get_lock"),
        ("select 1 into/**/outfile '/tmp/x'", "outfile"),
        ("select next /**/ value for s", "next .* value"),
    ],
)
def test_an_effect_cannot_hide_in_texts_and_comments(statement: str, effect: str) -> None:
    with pytest.raises(ToolError, match=f"only reads: {effect}"):
        needed(statement, mysql_source.EFFECT)
    assert needed("select id from orders where note = 'x'", mysql_source.EFFECT)


async def test_postgresql_shows_who_blocks_whom(orders: Observer, postgres: str) -> None:
    with psycopg.connect(postgres, user="owner") as first:
        first.execute("update orders set note = 'first' where id = 1")
        update = "update orders set note = 'second' where id = 1"
        waiting = await asyncio.create_subprocess_exec(
            "psql", postgres, "-U", "owner", "-c", update, stdout=subprocess.DEVNULL
        )
        blocked = None
        while blocked is None:
            result = await orders.call(postgresql, action="locks")
            blocked = result.data["rows"].get("who waits, and for whom") or None
        assert "set note = 'second'" in result.text
        assert "who blocks" in result.text
        assert "idle in transaction" in result.text
        overview = await orders.call(postgresql, action="overview")
        assert "PostgreSQL" in overview.text
        first.rollback()
    assert await waiting.wait() == 0


async def test_postgresql_shows_sizes_and_what_no_index_helps(orders: Observer) -> None:
    result = await orders.call(postgresql, action="sizes")
    assert "public.orders" in result.text
    slow = await orders.call(postgresql, action="slow")
    assert 'statements by total time: PostgreSQL answers: "relation' in slow.text
    assert "[" in slow.text


@pytest.mark.parametrize(
    "statement",
    [
        "delete from orders",
        "create table t ()",
        "select 1; delete from orders",
        "commit; delete from orders",
        "copy orders to program 'touch /tmp/x'",
        "select pg_reload_conf()",
        "do $$ begin perform pg_advisory_lock(1); end $$",
        "prepare transaction 'x'",
        "with gone as (delete from orders returning *) select * from gone",
        "select set_config('transaction_read_only', 'off', false), lo_creat(-1)",
        "select * from orders for update",
        "select pg_logical_emit_message(false, 'outbox', 'pay')",
        "select query_to_xml('select pg_logical_' || 'emit_message(true, 1, 2)', true, true, '')",
        "select U&\"pg_logical_\\0065mit_message\"(false, 'outbox', 'pay')",
        "select pg_advisory_lock(1)",
    ],
)
async def test_a_statement_changes_nothing_in_postgresql(orders: Observer, statement: str) -> None:
    with pytest.raises(ToolError, match=r"PostgreSQL answers|not a statement that (only )?reads"):
        await orders.call(postgresql, action="query", query=statement)


async def test_only_the_first_rows_of_a_large_result_are_fetched(orders: Observer) -> None:
    large = "select generate_series(1, 100000000), repeat('x', 1000)"
    result = await orders.call(postgresql, action="query", query=large, limit=2)
    assert result.data["rows"] == 200
    wide = "select generate_series(1, 1000), repeat('x', 10000000)"
    result = await orders.call(postgresql, action="query", query=wide, limit=2)
    assert result.data["rows"] == 2


async def test_a_statement_that_reads_is_a_table(orders: Observer) -> None:
    result = await orders.call(
        postgresql, action="query", query="select id, note from orders order by id", limit=3
    )
    assert "2   x" in result.text
    assert "only the first 200 rows were read" in result.text


@pytest.mark.parametrize(
    ("user", "power"),
    [
        ("owner", "is a superuser"),
        ("deputy", "is a superuser"),
        ("standby", "may replicate"),
        ("shop", "can write to orders"),
        ("caller", "may call public.dblink"),
    ],
)
async def test_statements_need_an_account_that_can_only_read(
    observer: Observer, postgres: str, user: str, power: str
) -> None:
    observer.sources["db"] = SourceSettings(kind="postgresql", url=postgres, user=user)
    with pytest.raises(ToolError, match=power) as caught:
        await observer.call(postgresql, action="query", query="select 1")
    assert "grant pg_monitor" in caught.value.hint
    assert f"the account {power}" in await observer.verify()


async def test_a_started_server_is_a_change(orders: Observer) -> None:
    result = await orders.call(what_changed, around="now", minutes=10)
    assert "db: the server started" in result.text


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder, port = tmp_path_factory.mktemp("redis"), free_port()
    command = [
        "redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
        "--requirepass", "open-sesame", "--slowlog-log-slower-than", "0",
    ]  # fmt: skip
    with server(folder, command, lambda: listens(port)):
        yield port


@pytest.fixture
def keys(observer: Observer, cache: int) -> Observer:
    secret = SourceSettings(
        kind="redis", url=f"redis://127.0.0.1:{cache}", password="secret:REDIS_PASSWORD"
    )
    observer.sources["cache"] = secret
    observer.secrets = {"REDIS_PASSWORD": "open-sesame"}
    cli = ["redis-cli", "-p", str(cache), "-a", "open-sesame"]
    for words in (["SET", "cart:1", "apples"], ["LPUSH", "queue:mail", "a", "b"]):
        subprocess.run([*cli, *words], check=True, capture_output=True)
    return observer


async def test_redis_shows_memory_clients_and_its_slow_log(keys: Observer) -> None:
    overview = await keys.call(redis, action="overview")
    assert overview.data["facts"]["role"] == "master"
    assert "1 clients" in (await keys.call(redis, action="activity")).text
    slow = await keys.call(redis, action="slow")
    assert "LPUSH queue:mail" in slow.text
    assert "open-sesame" not in slow.text


async def test_redis_shows_what_takes_the_memory(keys: Observer) -> None:
    sizes = await keys.call(redis, action="sizes")
    assert sizes.data == {"source": "cache", "keys": 2, "looked_at": 2}
    assert "cart*" in sizes.text
    one = await keys.call(redis, action="key", key="queue:mail")
    assert (one.data["type"], one.data["ttl"]) == ("list", -1)
    assert "'b', 'a'" in one.text


async def test_redis_says_why_it_refuses(keys: Observer) -> None:
    keys.secrets = {"REDIS_PASSWORD": "wrong"}
    with pytest.raises(ToolError, match="WRONGPASS"):
        await keys.call(redis, action="overview")


async def test_redis_without_logins_does_not_repeat_the_password(
    observer: Observer, tmp_path: Path
) -> None:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    with server(tmp_path, [*command, "--rename-command", "AUTH", ""], lambda: listens(port)):
        url = f"redis://127.0.0.1:{port}"
        observer.sources["cache"] = SourceSettings(kind="redis", url=url, password="secret:KEY")
        observer.secrets = {"KEY": "open-sesame"}
        with pytest.raises(ToolError, match="unknown command") as caught:
            await observer.call(redis, action="overview")
    assert "sesame" not in str(caught.value)


async def test_redis_is_asked_for_the_sizes_of_many_keys_at_once(observer: Observer) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for words, said in (
            (["SCAN"], b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
            (["\r\na", "\r\nb"], b":10\r\n:20\r\n"), (["DBSIZE"], b":2\r\n"),
        ):  # fmt: skip
            for word in words:
                await reader.readuntil(f"{word}\r\n".encode())
            writer.write(said)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as there:
        port = there.sockets[0].getsockname()[1]
        url = f"redis://127.0.0.1:{port}"
        observer.sources["cache"] = SourceSettings(kind="redis", url=url, timeout_seconds=5)
        sizes = await observer.call(redis, action="sizes")
    assert "b    20 B" in sizes.text


@pytest.mark.parametrize("end", [":notaport", ":99999", ":6379/carts"])
async def test_an_address_that_is_none_is_not_taken_for_another(
    observer: Observer, end: str
) -> None:
    observer.sources["cache"] = SourceSettings(kind="redis", url=f"rediss://127.0.0.1{end}")
    with pytest.raises(ToolError, match="has an invalid address") as refused:
        await observer.call(redis, action="overview")
    assert "sources.cache.url" in refused.value.hint


@pytest.fixture(scope="module")
def mariadb() -> Iterator[str]:
    with folder_of_user("mysql") as (folder, how):
        yield from _mariadb(folder, how)


def _mariadb(folder: Path, how: dict[str, Any]) -> Iterator[str]:
    port = free_port()
    data = f"--datadir={folder / 'data'}"
    make = ["mariadb-install-db", "--no-defaults", data, "--auth-root-authentication-method=normal"]
    subprocess.run(make, check=True, capture_output=True, cwd=folder, **how)
    command = [
        "/usr/sbin/mariadbd", "--no-defaults", data, f"--port={port}", "--bind-address=127.0.0.1",
        f"--socket={folder / 's'}",
    ]  # fmt: skip
    with server(folder, command, lambda: listens(port), **how):
        with closing(pymysql.connect(host="127.0.0.1", port=port, user="root")) as owner:
            with owner.cursor() as cursor:
                cursor.execute("create database shop")
                cursor.execute("create table shop.orders (id int primary key) engine=innodb")
                cursor.execute("insert into shop.orders values (1), (2)")
                cursor.execute("create user looker@localhost identified by 'sesame'")
                cursor.execute("create sequence shop.number")
                cursor.execute("create role files")
                cursor.execute("grant file on *.* to files")
                cursor.execute("create user clerk@localhost")
                cursor.execute("grant files to clerk@localhost")
                cursor.execute("grant select on shop.* to clerk@localhost")
                cursor.execute("set default role files for clerk@localhost")
                cursor.execute(
                    "grant select, process, replication client on *.* to looker@localhost"
                )
            owner.commit()
        yield f"mysql://127.0.0.1:{port}/shop"


@pytest.mark.slow
async def test_mariadb_shows_locks_and_runs_only_what_reads(
    observer: Observer, mariadb: str
) -> None:
    observer.sources["db"] = SourceSettings(
        kind="mysql", url=mariadb, user="looker", password="secret:DB_PASSWORD"
    )
    observer.secrets = {"DB_PASSWORD": "sesame"}
    assert "shop.orders" in (await observer.call(mysql, action="sizes")).text
    assert "Threads_connected" in (await observer.call(mysql, action="overview")).text
    found = await observer.call(mysql, action="query", query="select count(*) as n from orders")
    assert "n\n2" in found.text
    for statement in ("delete from orders", "set global read_only = 1", "kill 1"):
        with pytest.raises(ToolError, match="not a statement that reads"):
            await observer.call(mysql, action="query", query=statement)
    for statement in ("select * from orders for/**/share", "select nextval(number)"):
        with pytest.raises(ToolError, match="not a statement that only reads"):
            await observer.call(mysql, action="query", query=statement)
    with pytest.raises(ToolError):
        await observer.call(mysql, action="query", query="select 1; drop table orders")
    large = "select * from seq_1_to_100000000"
    found = await observer.call(mysql, action="query", query=large)
    assert found.data["rows"] == 200
    changed = await observer.call(what_changed, around="now", minutes=10)
    assert "db: the server started" in changed.text
    assert "db: table shop.orders was created or altered" in changed.text
    observer.sources["db"] = SourceSettings(kind="mysql", url=mariadb, user="clerk")
    with pytest.raises(ToolError, match="has FILE"):
        await observer.call(mysql, action="query", query="select 1")
    observer.sources["db"] = SourceSettings(kind="mysql", url=mariadb, user="root")
    with pytest.raises(ToolError, match="ALL PRIVILEGES"):
        await observer.call(mysql, action="query", query="select 1")
    assert "MariaDB" in await observer.verify()
