"""Containers of Docker or Podman, through the engine's socket. It changes nothing."""

import asyncio
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import yaml
from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.format import shortened
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import Source, attempted, pick, required, segment
from hermes_agent.tools.sources.redaction import text_without_secrets, without_secrets
from hermes_agent.tools.sources.results import Change, answer, size, table
from hermes_agent.tools.sources.times import Window, parsed, stamp, window

MOST = 100
"""How many containers are looked at one by one."""
CRASHES, LAST_LINES = 3, 8
RECENT_SECONDS = 3600.0
"""A restart that long ago is still told."""
TOLD = {
    "create", "start", "die", "oom", "destroy", "kill", "pause", "unpause", "restart", "rename",
    "update", "pull", "tag", "delete", "health_status",
}  # fmt: skip
QUIET = {"create", "destroy", "health_status: healthy"}
"""No changes of their own: what starts and ends says the same."""
_SERVICE = ("com.docker.compose.project", "com.docker.compose.service")


@tool(capabilities=("network",), repeatable=True, sources=("containers",))
async def containers(
    context: ToolContext,
    action: Literal["list", "inspect", "logs", "stats", "events"],
    name: str = "",
    since: str = "1h ago",
    until: str = "now",
    limit: Annotated[int, Meta(ge=1, le=2000)] = 100,
    source: str = "",
) -> ToolResult:
    """Look at containers of Docker or Podman. list: all, those in trouble first: state, health,
    restarts, exit codes, ends of logs. inspect: one's configuration, limits, health checks. logs:
    the last `limit` lines. stats: use of CPU, memory, network. events: starts, ends, kills."""
    one, now = connect(pick(context, source, "containers")), context.clock()
    match action:
        case "list":
            return await _list(one, name)
        case "inspect":
            return await _inspect(one, name)
        case "logs":
            return await _logs(one, name, window(since, until, now), limit, now)
        case "stats":
            return await _stats(one, name, limit)
        case "events":
            return await _events(one, name, window(since, until, now), limit)


def connect(source: Source) -> Source:
    """With the address as HTTP knows it."""
    url = source.settings.url
    if url.startswith("tcp://"):
        secure = "https" if source.settings.ca_file or url.endswith(":2376") else "http"
        return source.at(f"{secure}{url.removeprefix('tcp')}")
    return source


async def _found(source: Source, name: str) -> Any:
    """What the engine knows of a container; a name that is wrong is answered with similar ones."""
    required(name, "name", "the name or id of a container: `list`")
    path = f"/containers/{segment(name.removeprefix('/'))}/json"
    answered, data = await source.reply("GET", path)
    if answered.status_code == 404:
        names = [_name(one) for one in await source.get("/containers/json", {"all": "true"})]
        near = [one for one in names if name.lower() in one.lower()] or names
        hint = f"there are: {', '.join(near[:15]) or 'none'}"
        raise ToolError(f"there is no container {name!r}", hint, "changed")
    source.refuse(answered, data.decode(errors="replace"))
    return source.read(data)


def _name(one: Mapping[str, Any]) -> str:
    names = one.get("Names") or [one.get("Name", "")]
    return str(names[0]).removeprefix("/")


def problems(one: Mapping[str, Any], now: float) -> list[str]:
    """What is wrong with a container that was inspected."""
    state, found = one["State"], []
    if state.get("OOMKilled"):
        limit = one.get("HostConfig", {}).get("Memory", 0)
        found.append(f"killed for its memory, limit {size(limit) if limit else 'none'}")
    if not state.get("Running") and state.get("ExitCode"):
        found.append(f"ended with exit code {state['ExitCode']}")
    if state.get("Restarting"):
        found.append("restarts again and again")
    if state.get("Dead"):
        found.append("dead")
    if state.get("Error"):
        found.append(shortened(state["Error"], 300))
    health = state.get("Health") or state.get("Healthcheck") or {}
    if health.get("Status") == "unhealthy":
        log = health.get("Log") or [{}]
        said = shortened(log[-1].get("Output") or "", 200)
        found.append(f"unhealthy, {health.get('FailingStreak', '?')} checks failed: {said}")
    restarts = one.get("RestartCount", 0)
    if restarts and (found or now - parsed(state.get("StartedAt")) < RECENT_SECONDS):
        found.append(f"{restarts} restarts")
    return found


async def _list(source: Source, part: str) -> ToolResult:
    listed = [
        one for one in await source.get("/containers/json", {"all": "true"}) if part in _name(one)
    ]
    whole = await asyncio.gather(
        *(attempted(source.get(f"/containers/{one['Id']}/json")) for one in listed[:MOST])
    )
    rows, bad = [], []
    for one, known in zip(listed, whole, strict=False):
        if isinstance(known, ToolError):
            continue  # it has gone meanwhile
        trouble = problems(known, source.clock())
        labels = one.get("Labels") or {}
        service = "/".join(labels[key] for key in _SERVICE if labels.get(key))
        rows.append((not trouble, _name(one), service, one["Image"], one["Status"],
                     "; ".join(trouble)))  # fmt: skip
        if trouble and not known["State"].get("Running"):
            bad.append((parsed(known["State"].get("FinishedAt")), known))
    rows.sort()
    count = sum(not row[0] for row in rows)
    lines = [f"{count} of {len(rows)} containers are in trouble"]
    headers = ("name", "service", "image", "status", "trouble")
    lines.append(table(headers, [row[1:] for row in rows], MOST))
    bad.sort(key=lambda row: -row[0])
    for _, known in bad[:CRASHES]:
        if text := await _lines(source, known, tail=LAST_LINES):
            lines += ["", f"the end of the log of {_name(known)}:", text_without_secrets(text)]
    more = f"only {MOST} of {len(listed)} were looked at" if len(listed) > MOST else ""
    data = {"containers": len(listed), "in trouble": count}
    return answer(source, "\n".join(lines), data, [more])


async def _inspect(source: Source, name: str) -> ToolResult:
    one = await _found(source, name)
    config, host = one["Config"], one.get("HostConfig", {})
    networks = one.get("NetworkSettings", {}).get("Networks") or {}
    shown = {
        "name": _name(one), "image": config.get("Image"), "created": one.get("Created"),
        "state": {key: value for key, value in one["State"].items() if value},
        "problems": problems(one, source.clock()), "restarts": one.get("RestartCount", 0),
        "command": [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])],
        "user": config.get("User"), "workdir": config.get("WorkingDir"),
        "env": config.get("Env"),
        "healthcheck": config.get("Healthcheck"), "labels": config.get("Labels"),
        "restart policy": (host.get("RestartPolicy") or {}).get("Name"),
        "limits": {
            "memory": size(host["Memory"]) if host.get("Memory") else None,
            "cpus": host.get("NanoCpus", 0) / 1e9 or None, "pids": host.get("PidsLimit"),
        },
        "ports": {
            port: [f"{at.get('HostIp')}:{at.get('HostPort')}" for at in to or []]
            for port, to in (one.get("NetworkSettings", {}).get("Ports") or {}).items()
        },
        "networks": {
            key: {"address": value.get("IPAddress"), "aliases": value.get("Aliases")}
            for key, value in networks.items()
        },
        "mounts": [
            f"{at.get('Source') or at.get('Name')} on {at.get('Destination')}"
            f" ({'rw' if at.get('RW') else 'ro'})"
            for at in one.get("Mounts") or []
        ],
    }  # fmt: skip
    kept = {key: value for key, value in without_secrets(shown).items() if value}
    text = yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=110).rstrip()
    return answer(source, text, {"name": _name(one), "problems": shown["problems"]})


def unpacked(data: bytes) -> Iterator[bytes]:
    """The pieces of a log; those of a container without a terminal have a header each."""
    while len(data) >= 8 and data[0] in (0, 1, 2) and data[1:4] == b"\0\0\0":
        (length,) = struct.unpack(">I", data[4:8])
        yield data[8 : 8 + length]
        data = data[8 + length :]
    yield data


async def _lines(source: Source, one: Mapping[str, Any], **params: Any) -> str:
    wanted = {"stdout": "true", "stderr": "true", **params}
    answered, data = await source.reply("GET", f"/containers/{one['Id']}/logs", params=wanted)
    if not answered.is_success:
        return ""  # its log goes to a driver that cannot be read
    pieces = [data] if one["Config"].get("Tty") else unpacked(data)
    return b"".join(pieces).decode(errors="replace").rstrip()


async def _logs(source: Source, name: str, span: Window, limit: int, now: float) -> ToolResult:
    one = await _found(source, name)
    tail = limit if span.end >= now else "all"  # the engine counts from the end of the whole log
    text = await _lines(
        source, one, tail=tail, timestamps="true", since=int(span.start), until=int(span.end) + 1
    )
    lines = text.splitlines()
    text = text_without_secrets("\n".join(lines[-limit:])) or "no lines in that time"
    return answer(source, text, {"name": _name(one), "lines": len(lines)})


async def _stats(source: Source, part: str, limit: int) -> ToolResult:
    running = [one for one in await source.get("/containers/json") if part in _name(one)][:limit]
    once = {"stream": "false"}
    measured = await asyncio.gather(
        *(attempted(source.get(f"/containers/{one['Id']}/stats", once)) for one in running)
    )
    rows = [
        (*_use(now), _name(one))
        for one, now in zip(running, measured, strict=True)
        if not isinstance(now, ToolError)
    ]
    rows.sort(key=lambda row: -row[0])
    shown = [(row[-1], *row[1:-1]) for row in rows]
    headers = ("name", "cpu", "memory", "limit", "of limit", "received", "sent", "processes")
    return answer(source, table(headers, shown, limit), {"running": len(rows)})


def _use(now: Mapping[str, Any]) -> tuple[Any, ...]:
    memory, cpu, before = now.get("memory_stats") or {}, now["cpu_stats"], now["precpu_stats"]
    # As the engine's own command counts: without the cache of files that may go any time.
    cache = (memory.get("stats") or {}).get("inactive_file", 0)
    used, most = max(0, memory.get("usage", 0) - cache), memory.get("limit", 0)
    spent = cpu["cpu_usage"]["total_usage"] - before.get("cpu_usage", {}).get("total_usage", 0)
    passed = cpu.get("system_cpu_usage", 0) - before.get("system_cpu_usage", 0)
    share = spent / passed * cpu.get("online_cpus", 1) if passed > 0 else 0.0
    nets = (now.get("networks") or {}).values()
    return (
        used, f"{share:.1%}", size(used), size(most) if most else "none",
        f"{used / most:.0%}" if most else "", size(sum(one["rx_bytes"] for one in nets)),
        size(sum(one["tx_bytes"] for one in nets)),
        (now.get("pids_stats") or {}).get("current", ""),
    )  # fmt: skip


async def _happened(source: Source, span: Window) -> list[Mapping[str, Any]]:
    params: dict[str, Any] = {"since": int(span.start)}
    answered, _ = await source.reply("GET", "/_ping")
    if "libpod" in answered.headers.get("server", "").lower():
        params["stream"] = "false"  # with an end, Podman 4 leaves out events before it
    else:
        params["until"] = f"{min(span.end, source.clock()):.3f}"  # it would wait for what is ahead
    lines = (await source.text("GET", "/events", params=params)).splitlines()
    found = [source.read(line) for line in lines if line.strip()]
    return [
        one for one in found
        if str(one.get("Action", "")).partition(":")[0] in TOLD and one["time"] <= span.end
    ]  # fmt: skip


def _event(one: Mapping[str, Any]) -> tuple[float, str]:
    about = one.get("Actor", {}).get("Attributes") or {}
    name = about.get("name") or one.get("Actor", {}).get("ID", "")[:12]
    image = f" ({about['image']})" if about.get("image") else ""
    code = about.get("exitCode") or about.get("containerExitCode")
    ended = f", exit code {code}" if code and one["Action"] in ("die", "died") else ""
    signal = f", signal {about['signal']}" if about.get("signal") else ""
    at = one.get("timeNano", 0) / 1e9 or float(one.get("time", 0))
    return at, f"{one['Type']} {name}{image}: {one['Action']}{ended}{signal}"


async def _events(source: Source, part: str, span: Window, limit: int) -> ToolResult:
    found = [_event(one) for one in await _happened(source, span)]
    rows = [f"{stamp(at)}  {what}" for at, what in sorted(found) if part in what]
    cut = [f"… {len(rows) - limit} earlier ones"] if len(rows) > limit else []
    text = "\n".join([*cut, *rows[-limit:]]) or "nothing happened in that time"
    return answer(source, text, {"events": len(rows)})


async def changes(source: Source, span: Window) -> list[Change]:
    """What began, ended and was killed."""
    events: Sequence[Mapping[str, Any]] = await _happened(connect(source), span)
    found, killed = [], set()
    for one in events:
        if one["Action"] == "kill":
            killed.add(one["Actor"]["ID"])
        elif one["Action"] not in QUIET:
            at, what = _event(one)
            by_kill = one["Action"] == "die" and one["Actor"]["ID"] in killed
            killed.discard(one["Actor"]["ID"])
            found.append(Change(at, f"{what}, by a signal from outside" if by_kill else what))
    return found


async def verify(source: Source) -> str:
    source = connect(source)
    version, listed = await asyncio.gather(
        source.get("/version"), source.get("/containers/json", {"all": "true"})
    )
    parts = [one["Name"] for one in version.get("Components") or []]
    engine = "Podman" if any("Podman" in part for part in parts) else "Docker"
    return f"answers; {engine} {version['Version']}; {len(listed)} containers"
