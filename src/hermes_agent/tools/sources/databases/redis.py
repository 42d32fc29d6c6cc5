"""Redis and Valkey, by their own wire: a fixed set of commands that read."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.addresses import host_of
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import ANSWER_BYTES, Source, pick, quoted, required, tls
from hermes_agent.tools.sources.redaction import HIDDEN
from hermes_agent.tools.sources.results import Change, answer, size, table
from hermes_agent.tools.sources.times import Window, stamp

SCANNED = 2_000
"""How many keys are sampled for their sizes."""
SHOWN = 20
DEPTH = 8
READS = {
    "string": ("GETRANGE", "0", "500"), "list": ("LRANGE", "0", "9"),
    "hash": ("HSCAN", "0", "COUNT", "10"), "set": ("SSCAN", "0", "COUNT", "10"),
    "zset": ("ZRANGE", "0", "9", "WITHSCORES"), "stream": ("XREVRANGE", "+", "-", "COUNT", "3"),
}  # fmt: skip
OVERVIEW = (
    "redis_version", "role", "uptime_in_seconds", "connected_clients", "blocked_clients",
    "maxclients", "used_memory_human", "maxmemory_human", "maxmemory_policy",
    "mem_fragmentation_ratio", "evicted_keys", "expired_keys", "keyspace_hits",
    "keyspace_misses", "rejected_connections", "instantaneous_ops_per_sec",
    "rdb_last_bgsave_status", "rdb_changes_since_last_save",
    "aof_last_write_status", "loading", "master_link_status", "connected_slaves",
)  # fmt: skip


class _Refused(Exception):
    """What the server answered instead of a value."""


@tool(capabilities=("network",), repeatable=True, sources=("redis",))
async def redis(
    context: ToolContext,
    action: Literal["overview", "activity", "slow", "replication", "sizes", "key"],
    key: str = "",
    source: str = "",
) -> ToolResult:
    """Look into Redis. overview: memory, clients, evictions, persistence; activity: clients; slow:
    its slow log; sizes: key prefixes by memory, from a sample; key: type, TTL and start of one."""
    one = pick(context, source, "redis")
    async with _connected(one) as ask:
        match action:
            case "overview" | "replication":
                return await _overview(one, ask, action)
            case "activity":
                return await _clients(one, ask)
            case "slow":
                return await _slow(one, ask)
            case "sizes":
                return await _sizes(one, ask)
            case "key":
                return await _key(one, ask, key)


async def _overview(source: Source, ask: Any, action: str) -> ToolResult:
    facts = info(await ask("INFO"))
    if action == "replication":
        names = [
            name for name in facts if name.startswith(("role", "master_", "slave", "connected_s"))
        ]
    else:
        names = [name for name in OVERVIEW if name in facts]
    rows: list[tuple[str, str]] = [(name, facts[name]) for name in names]
    rows += [(name, value) for name, value in facts.items() if re.fullmatch(r"db\d+", name)]
    return answer(source, table(("", "value"), rows), {"facts": dict(rows)})


async def _clients(source: Source, ask: Any) -> ToolResult:
    clients = [
        dict(word.partition("=")[::2] for word in line.split())
        for line in str(await ask("CLIENT", "LIST")).splitlines()
    ]
    hosts = Counter(one.get("addr", "").rpartition(":")[0] for one in clients)
    clients.sort(key=lambda one: -int(one.get("omem", 0)))
    fields = ("addr", "name", "age", "idle", "cmd", "omem", "sub")
    rows = [[one.get(name, "") for name in fields] for one in clients]
    where = ", ".join(f"{host}: {count}" for host, count in hosts.most_common(10))
    text = f"{len(clients)} clients ({where})\n{table(fields, rows, SHOWN)}"
    return answer(source, text, {"clients": len(clients)})


async def _slow(source: Source, ask: Any) -> ToolResult:
    entries = await ask("SLOWLOG", "GET", "30")
    rows = [
        (stamp(one[1]), f"{one[2] / 1000:.1f}", shortened(" ".join(map(str, one[3])), 150))
        for one in entries
    ]
    return answer(source, table(("time", "ms", "command"), rows) if rows else "nothing is slow")


async def _sizes(source: Source, ask: Any) -> ToolResult:
    cursor, seen = "0", 0
    total: Counter[str] = Counter()
    largest: list[tuple[int, str]] = []
    while seen < SCANNED:
        cursor, keys = await ask("SCAN", cursor, "COUNT", "200")
        for one, used in zip(keys, await ask("MEMORY", "USAGE", each=keys), strict=True):
            taken = int(used or 0)
            total[re.split(r"[:/.{]|\d", one, maxsplit=1)[0] + "*"] += taken
            largest.append((taken, one))
        seen += len(keys)
        if cursor == "0":
            break
    count = await ask("DBSIZE")
    prefixes = [(name, size(taken)) for name, taken in total.most_common(SHOWN)]
    keys_by_size = [(one, size(taken)) for taken, one in sorted(largest, reverse=True)[:SHOWN]]
    text = (
        f"{count} keys, {seen} looked at\n{table(('prefix', 'memory'), prefixes)}\n\n"
        f"largest\n{table(('key', 'memory'), keys_by_size)}"
    )
    return answer(source, text, {"keys": count, "looked_at": seen})


async def _key(source: Source, ask: Any, key: str) -> ToolResult:
    required(key, "key", "action sizes lists some")
    kind = await ask("TYPE", key)
    if kind == "none":
        return answer(source, "no such key", {"type": ""})
    ttl, taken = await ask("TTL", key), await ask("MEMORY", "USAGE", key)
    verb, *rest = READS.get(kind, ("TYPE",))
    start = await ask(verb, key, *rest)
    text = f"type {kind}, TTL {ttl} s, {size(taken or 0)}\n{shortened(str(start), 1000)}"
    return answer(source, text, {"type": kind, "ttl": ttl})


def info(text: str) -> Mapping[str, str]:
    lines = (line.partition(":") for line in text.splitlines() if line[:1] not in ("#", ""))
    return {name: value for name, _, value in lines}


@asynccontextmanager
async def _connected(source: Source) -> AsyncIterator[Any]:
    """Asks one command after the other."""
    source.check_reach()
    settings = source.settings
    parts = source.parts()
    database = parts.path.strip("/")
    if not host_of(settings.url) or not re.fullmatch(r"\d*", database):
        raise source.invalid("write redis://HOST:PORT/NUMBER")
    context = tls(settings.ca_file) if parts.scheme == "rediss" else None
    writer = None
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            reader, writer = await asyncio.open_connection(
                host_of(settings.url), parts.port or 6379, ssl=context
            )

            async def ask(*words: str, each: Sequence[str] | None = None) -> Any:
                """One answer; or one for `each` last word, all asked at once."""
                assert writer is not None
                asked = [words] if each is None else [(*words, one) for one in each]
                writer.write(b"".join(encoded(*one) for one in asked))
                await writer.drain()
                replies = [await Replies(reader).read() for _ in asked]
                return replies[0] if each is None else replies

            if settings.password:
                user = (settings.user,) if settings.user else ()
                password = source.secret(settings.password)
                try:
                    await ask("AUTH", *user, password)
                except _Refused as error:  # a server that does not know AUTH repeats all of it
                    raise _Refused(str(error).replace(password, HIDDEN)) from None
            if database:
                await ask("SELECT", database)
            yield ask
    except TimeoutError:
        seconds = settings.timeout_seconds
        raise ToolError(f"{source.label} took longer than {seconds:.0f} s", retry="same") from None
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ToolError(f"cannot reach {source.label}: {error}", retry="same") from None
    except _Refused as error:
        hint = "remove it, and add it with --password" if "NOAUTH" in str(error) else ""
        said = f"{source.label} answers: {quoted(str(error))}"
        raise ToolError(said, hint, retry="changed") from None
    finally:
        if writer is not None:
            writer.close()


def encoded(*words: str) -> bytes:
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        data = word.encode(errors="surrogateescape")
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Replies:
    """Reads one reply, as far as it is as large and as deep as those that are asked for."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._left = ANSWER_BYTES

    async def read(self, depth: int = 0) -> Any:
        line = (await self._reader.readuntil(b"\r\n"))[:-2]
        kind, rest = line[:1], line[1:].decode(errors="replace")
        self._take(len(line) + 16, depth)
        match kind:
            case b"+":
                return rest
            case b"-":
                raise _Refused(rest)
            case b":" if re.fullmatch(r"-?\d{1,19}", rest):
                return int(rest)
            case b"$" | b"*" if rest == "-1":
                return None
            case b"$" if re.fullmatch(r"\d{1,19}", rest):
                self._take(int(rest), depth)
                data = (await self._reader.readexactly(int(rest) + 2))[:-2]
                return data.decode(errors="surrogateescape")
            case b"*" if re.fullmatch(r"\d{1,19}", rest):
                return [await self.read(depth + 1) for _ in range(int(rest))]
        raise _Refused(f"an answer that is not Redis's: {line[:40]!r}")

    def _take(self, size: int, depth: int) -> None:
        self._left -= size
        if self._left < 0 or depth > DEPTH:
            raise _Refused(
                f"more than {ANSWER_BYTES // 1_000_000} MB, or deeper than {DEPTH} lists"
            )


async def changes(source: Source, _span: Window) -> list[Change]:
    """Restarts and the last save."""
    async with _connected(source) as ask:
        facts = info(await ask("INFO"))
    started = source.clock() - float(facts.get("uptime_in_seconds", 0))
    found = [Change(started, "the server started")]
    if facts.get("rdb_last_bgsave_status") == "err":
        found.append(Change(float(facts.get("rdb_last_save_time", 0)), "the last save that worked"))
    return found


async def verify(source: Source) -> str:
    async with _connected(source) as ask:
        facts = info(await ask("INFO"))
    return f"answers; Redis {facts.get('redis_version', '?')}, {facts.get('role', '?')}"
