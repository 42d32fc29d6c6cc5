"""Reads the homes of hermes-agent, OpenClaw and nanobot."""

import base64
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from hermes_agent.cli.manage.imports import settings as translate
from hermes_agent.cli.manage.imports.home import (
    TEXT_BYTES,
    Message,
    PeerHome,
    Row,
    call_text,
    content_text,
    entries,
    every_words,
    group,
    parsed,
    plain,
    result_text,
    seconds_of,
)
from hermes_agent.cli.output.formatting import count
from hermes_agent.core.errors import HermesError
from hermes_agent.host.foreign import OPENCLAW_FILES


def read_home(
    peer: str, path: Path, stack: ExitStack, servers: Mapping[str, str] | None = None
) -> PeerHome:
    """All that can be imported. `stack` closes what sessions are read from."""
    home = PeerHome(peer, path, servers or {})
    READERS[peer](home, stack)
    for variable in sorted(home.keys):
        if variable in os.environ:
            del home.keys[variable]
            home.leave("keys", variable, "it is set in this environment")
    return home


# hermes-agent


def _hermes_agent(home: PeerHome, stack: ExitStack) -> None:
    config = _yaml(home, "config.yaml")
    named = {
        key: plain(value) for key, value in config.items() if re.fullmatch(r"[A-Z_]+", str(key))
    }
    variables = named | _variables(home)
    with home.surviving("settings", "config.yaml"):
        _hermes_settings(home, config, variables)
    for view, name in (("memory", "MEMORY.md"), ("user", "USER.md")):
        home.add_notes(view, home.text("memory", f"memories/{name}").split("\n§\n"))
    _document(home, "SOUL.md", "SOUL.md")
    shipped = _shipped(home.text("skills", "skills/.bundled_manifest"))
    home.add_skills("skills", shipped)
    zone = config.get("timezone")
    for job in _list(home.json("jobs", "cron/jobs.json"), "jobs"):
        with home.surviving("jobs", _name(job)):
            _hermes_job(home, job, zone if isinstance(zone, str) else "")
    with home.surviving("sessions", "state.db"):
        _hermes_sessions(home, stack)
    with home.surviving("board", "kanban.db"):
        if (db := home.database("kanban.db", stack, "tasks")) is not None:
            cards = next(db.rows("select count(*) n from tasks"))["n"]
            home.leave("board", count(cards, "card"), "Hermes has no board")
    _mcp_servers(home, group(config, "mcp_servers"))


def _hermes_settings(home: PeerHome, config: Row, variables: dict[str, str]) -> None:
    model = config.get("model") or {}
    model = {"default": model} if isinstance(model, str) else model
    provider = plain(model.get("provider"))
    translate.services_of(home, _hermes_providers(config, variables))
    chosen = plain(model.get("default") or model.get("model"))
    if provider in ("", "auto") and not model.get("base_url"):
        maker = chosen.partition("/")[0]
        provider = "openrouter" if variables.get("OPENROUTER_API_KEY") else maker
    provider = provider.removeprefix("custom:")
    services = translate.services_of(home, [(provider, model)])
    translate.model_of(home, services, provider, chosen)
    translate.keys_of(home, variables)
    translate.channels_by_variable(home, variables)
    translate.terminal_of(home, config.get("terminal") or {})
    translate.effort_of(home, group(config, "agent").get("reasoning_effort"))
    others = sorted(
        variable
        for variable, value in variables.items()
        if re.search(r"(_KEY|_TOKEN|_SECRET|_PASSWORD)$", variable)
        and value
        and variable not in home.keys
        and value not in home.keys.values()  # copied under another name, as by `key_env`
    )
    if others:
        home.leave("keys", ", ".join(others), "not used by anything imported")


def _hermes_providers(config: Row, variables: dict[str, str]) -> Iterator[tuple[str, Row]]:
    named = [(str(name), row) for name, row in group(config, "providers").items()]
    given = [(plain(row.get("name")) or "custom", row) for row in _list(config, "custom_providers")]
    for name, row in [*given, *named]:
        if isinstance(row, dict):
            key = row.get("api_key") or variables.get(str(row.get("key_env") or ""), "")
            yield name, {**row, "api_key": key}


def _hermes_job(home: PeerHome, job: Row, zone: str) -> None:
    if job.get("no_agent") or job.get("script"):
        home.leave("jobs", _name(job), f"it runs the script {job.get('script')}")
        return
    given = job.get("schedule") or {}
    given = given if isinstance(given, dict) else {"kind": "cron", "expr": given}
    _add_job(home, job, job.get("prompt"), given, zone)


def _hermes_sessions(home: PeerHome, stack: ExitStack) -> None:
    db = home.database("state.db", stack, "sessions")
    if db is None:
        return
    columns = db.columns("messages")
    alive = "and active = 1" if "active" in columns else ""
    alive = "and (active = 1 or compacted = 1)" if "compacted" in columns else alive

    def messages(session: str, model: str) -> Iterator[Message]:
        sql = f"select * from messages where session_id = ? {alive} order by id"
        for row in db.rows(sql, session):
            said, role = row.get("content"), str(row["role"])
            if isinstance(said, str) and said.startswith("[{"):  # it has several parts
                said = parsed(said)
            text = _text(role, said, row.get("tool_name"), parsed(row.get("tool_calls")))
            yield Message(str(row["id"]), role, text, seconds_of(row["timestamp"]), model)

    for row in db.rows(
        "select * from sessions where id in (select session_id from messages) order by started_at"
    ):
        id, model = str(row["id"]), str(row.get("model") or "")
        folder = str(row.get("cwd") or "")
        if Path(folder).is_relative_to(home.path):
            folder = ""
        title = str(row.get("title") or "")
        home.add_session(id, partial(messages, id, model), title, folder)


# OpenClaw


def _openclaw(home: PeerHome, stack: ExitStack) -> None:
    files = (group(home.json("settings", name)) for name in OPENCLAW_FILES)
    config = next(filter(None, files), {})
    with home.surviving("settings", "openclaw.json"):
        _openclaw_settings(home, config)
    folder = _workspace_of(home, config)
    _workspace(home, folder, "MEMORY.md")
    for name in home.names("memory", f"{folder}/memory"):
        if (day := re.fullmatch(r"(\d{4}-\d\d-\d\d).*\.md", name)) is not None:
            texts = entries(home.text("memory", f"{folder}/memory/{name}"))
            home.add_notes("memory", [f"{day[1]}: {text}" for text in texts])
    home.add_skills("skills")
    for job in _openclaw_jobs(home, stack):
        with home.surviving("jobs", _name(job)):
            _openclaw_job(home, job)
    for agent in home.names("sessions", "agents"):
        with home.surviving("sessions", f"agents/{agent}"):
            _openclaw_sessions(home, agent, stack)
    _mcp_servers(home, group(config, "mcp", "servers"))


def _openclaw_settings(home: PeerHome, config: Row) -> None:
    services = translate.services_of(home, group(config, "models", "providers").items())
    chosen = group(config, "agents", "defaults").get("model")
    chosen = chosen.get("primary") if isinstance(chosen, dict) else chosen
    if isinstance(chosen, str) and "/" in chosen:
        translate.model_of(home, services, *chosen.split("/", 1))
    translate.keys_of(home, _variables(home))
    translate.keys_of(home, group(config, "env", "vars") or group(config, "env"))
    for agent in home.names("keys", "agents"):
        store = home.json("keys", f"agents/{agent}/agent/auth-profiles.json")
        for profile in group(store, "profiles").values():
            if profile.get("type") == "api_key":
                translate.service_of(home, str(profile.get("provider")), "", profile.get("key"))
            else:
                home.leave("keys", f"login of {profile.get('provider')}", "log in here again")
    translate.channels_by_name(home, config.get("channels") or {})


def _openclaw_jobs(home: PeerHome, stack: ExitStack) -> Iterator[Row]:
    yield from _list(home.json("jobs", "cron/jobs.json"), "jobs")
    with home.surviving("jobs", "state/openclaw.sqlite"):
        if (db := home.database("state/openclaw.sqlite", stack, "cron_jobs")) is not None:
            for row in db.rows("select job_json from cron_jobs"):
                yield json.loads(row["job_json"])


def _openclaw_job(home: PeerHome, job: Row) -> None:
    payload, given = job.get("payload") or {}, job.get("schedule") or {}
    if job.get("declarationKey") or payload.get("kind") == "heartbeat":
        home.leave("jobs", _name(job), "internal to OpenClaw")
        return
    prompt = payload.get("message") or payload.get("text") or ""
    if not prompt:
        home.leave("jobs", _name(job), f"not a prompt: {payload.get('kind')}")
        return
    _add_job(home, job, prompt, given)


def _openclaw_sessions(home: PeerHome, agent: str, stack: ExitStack) -> None:
    folder = f"agents/{agent}/sessions"
    for name in home.names("sessions", folder):
        if name.endswith(".jsonl") and home.has_transcript(f"{folder}/{name}"):
            lines = partial(home.lines, f"{folder}/{name}")
            home.add_session(name.removesuffix(".jsonl"), partial(_openclaw_messages, lines))
    file = f"agents/{agent}/agent/openclaw-agent.sqlite"
    if (db := home.database(file, stack, "transcript_events")) is None:
        return

    def events(session: str) -> Iterator[Any]:
        sql = "select event_json from transcript_events where session_id = ? order by seq"
        packed = 0
        for row in db.rows(sql, session):
            if row["event_json"]:
                yield json.loads(row["event_json"])
            else:
                packed += 1
        if packed:
            home.leave("sessions", session, f"{packed} archived events are compressed")

    for row in db.rows("select distinct session_id from transcript_events"):
        session = str(row["session_id"])
        home.add_session(session, partial(_openclaw_messages, partial(events, session)))


def _openclaw_messages(lines: Callable[[], Iterator[Any]]) -> Iterator[Message]:
    for number, line in enumerate(lines()):
        said = line.get("message") if isinstance(line, dict) else None
        if not isinstance(said, dict) or line.get("type") != "message":
            continue
        role = "tool" if said.get("role") == "toolResult" else said.get("role")
        if role in ("user", "assistant", "tool"):
            text = _text(role, said.get("content"), said.get("toolName"))
            when = seconds_of(line.get("timestamp") or said.get("timestamp"))
            model = str(said.get("model") or "")
            yield Message(str(line.get("id") or number), role, text, when, model)


# nanobot


def _nanobot(home: PeerHome, _stack: ExitStack) -> None:
    config = group(home.json("settings", "config.json"))
    with home.surviving("settings", "config.json"):
        _nanobot_settings(home, config)
    folder = _workspace_of(home, config)
    _workspace(home, folder, "memory/MEMORY.md")
    for job in _nanobot_jobs(home, folder):
        with home.surviving("jobs", _name(job)):
            payload, given = job.get("payload") or {}, job.get("schedule") or {}
            _add_job(home, job, payload.get("message"), given)
    for place in ("sessions", f"{folder}/sessions"):
        if not home.holds("sessions", place):
            continue
        for path in sorted((home.path / place).rglob("*.jsonl")):
            name = path.relative_to(home.path).as_posix()
            if home.has_transcript(name):
                key = f"{path.parent.name}/{_nanobot_key(path.stem)}"
                home.add_session(key, partial(_nanobot_messages, home, name))
    _mcp_servers(home, group(config, "tools", "mcpServers"))


def _nanobot_settings(home: PeerHome, config: Row) -> None:
    services = translate.services_of(home, group(config, "providers").items())
    defaults = group(config, "agents", "defaults")
    model, provider = str(defaults.get("model") or ""), str(defaults.get("provider") or "auto")
    if provider == "auto":
        provider = model.partition("/")[0]
    translate.model_of(home, services, provider, model)
    if defaults.get("timezoneMode") == "manual":
        home.settings["jobs.zone"] = str(defaults.get("timezone") or "")
    translate.effort_of(home, defaults.get("reasoningEffort"))
    translate.channels_by_name(home, config.get("channels") or {})


def _nanobot_jobs(home: PeerHome, folder: str) -> Iterator[Row]:
    """The stored jobs, with the changes in the log beside them."""
    found: dict[str, Row] = {}
    for place in (f"{folder}/cron", "cron"):
        for job in _list(home.json("jobs", f"{place}/jobs.json"), "jobs"):
            found[str(job.get("id"))] = job
        for line in home.text("jobs", f"{place}/action.jsonl").splitlines():
            with home.surviving("jobs", f"{place}/action.jsonl"):
                change = json.loads(line)
                params = change.get("params") or {}
                id = str(params.get("id") or params.get("job_id"))
                if change.get("action") in ("delete", "del", "remove"):
                    found.pop(id, None)
                elif params.get("schedule"):
                    found[id] = params
    yield from found.values()


def _nanobot_messages(home: PeerHome, name: str) -> Iterator[Message]:
    for number, line in enumerate(home.lines(name)):
        if not isinstance(line, dict) or line.get("role") not in ("user", "assistant", "tool"):
            continue
        text = _text(line["role"], line.get("content"), line.get("name"), line.get("tool_calls"))
        # Lines have no ids, and their numbers change when the start is archived.
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
        when = line.get("timestamp")
        yield Message(f"{when or number}-{digest}", line["role"], text, seconds_of(when))


def _nanobot_key(stem: str) -> str:
    try:
        key = base64.urlsafe_b64decode(stem + "=" * (-len(stem) % 4)).decode()
    except ValueError:
        return stem
    return key if key.isprintable() else stem


# what they share


def _workspace(home: PeerHome, folder: str, memory: str) -> None:
    home.add_notes("memory", entries(home.text("memory", f"{folder}/{memory}")))
    home.add_notes("user", entries(home.text("memory", f"{folder}/USER.md")))
    _document(home, f"{folder}/SOUL.md", "SOUL.md")
    _document(home, f"{folder}/AGENTS.md", "AGENTS.md")
    home.add_skills(f"{folder}/skills")


def _text(role: str, content: Any, tool: Any, calls: Any = ()) -> str:
    """What a message says, with the calls of tools that it makes, or the result of one."""
    text = content_text(content)
    if role == "tool":
        text = result_text(tool, text)
    for call in _list(calls):
        made = group(call, "function") or call
        text = f"{text}\n\n{call_text(made.get('name'), made.get('arguments'))}".strip()
    return text


def _document(home: PeerHome, path: str, name: str) -> None:
    text = home.text("documents", path)
    if any(mark in text for mark in _TEMPLATES):
        home.leave("documents", name, f"unchanged default of {home.peer}")
    elif text.strip():
        home.documents[name] = text


_TEMPLATES = (
    "You are Hermes Agent, an intelligent AI assistant created by Nous Research.",
    "_You're not a chatbot. You're becoming someone._",
    "I am nanobot 🐈, a personal AI assistant.",
    "This folder is home. Treat it that way.",
    "Keep workspace conventions here. Personality and tone belong in `SOUL.md`.",
    "Use this file for project-specific preferences, recurring workflow conventions, and",
    "You are a helpful AI assistant. Be concise, accurate, and friendly.",
)
"""Sentences of documents that were never changed."""


def _shipped(manifest: str) -> Callable[[str, Path], bool]:
    """Whether a skill is as it came with hermes-agent, by the hashes that it keeps."""
    rows = (line.partition(":") for line in manifest.splitlines())
    hashes = {name.strip(): hash.strip() for name, _, hash in rows}

    def same(name: str, folder: Path) -> bool:
        if name not in hashes:
            return False
        whole = hashlib.md5(usedforsecurity=False)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                if path.stat().st_size > TEXT_BYTES:
                    return False
                whole.update(path.relative_to(folder).as_posix().encode())
                whole.update(path.read_bytes())
        return hashes[name] in ("", whole.hexdigest())

    return same


def _mcp_servers(home: PeerHome, servers: Row) -> None:
    for name in sorted(map(str, servers)):
        home.leave("settings", f"MCP server {name}", "`hermes mcp add` adds it, once you trust it")


def _add_job(home: PeerHome, job: Row, prompt: object, given: Row, zone: str = "") -> None:
    """`given` is its schedule."""
    when = _when({re.sub(r"([A-Z])", r"_\1", name).lower(): given[name] for name in given})
    name = re.sub(r"[/\s]+", " ", str(job.get("name") or "")).strip()[:80]
    if when and seconds_of(when) and seconds_of(when) < time.time():
        home.leave("jobs", _name(job), "it was due once, in the past")
        return
    home.jobs.append(
        {"key": str(job.get("id") or name), "prompt": str(prompt or ""), "when": when,
         "name": name, "zone": zone or str(given.get("tz") or "")}
    )  # fmt: skip


def _when(given: Row) -> str:
    """A schedule in our words; empty if it has none that we know."""
    match given.get("kind"):
        case "cron":
            return str(given.get("expr") or "")
        case "interval":
            return every_words(60 * int(given["minutes"]))
        case "every" if given.get("every_ms"):
            return every_words(max(1, int(given["every_ms"]) // 1000))
        case "once":
            return str(given.get("run_at") or "")
        case "at" if moment := seconds_of(given.get("at") or given.get("at_ms")):
            return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    return ""


def _name(job: Any) -> str:
    return str((job.get("name") or job.get("id")) if isinstance(job, dict) else job)[:80]


def _yaml(home: PeerHome, name: str) -> Row:
    from hermes_agent.host.config import read_config

    with home.surviving("settings", name):
        if home.read("settings", name):
            return read_config(home.path / name)
    return {}


def _variables(home: PeerHome) -> dict[str, str]:
    from hermes_agent.policy.secrets import parse

    found: dict[str, str] = {}
    bad = 0
    for line in home.text("keys", ".env").splitlines():
        try:
            found |= parse(line, ".env")
        except HermesError:
            bad += 1
    if bad:
        what = "not NAME=value, or with an unclosed quote"
        home.leave("keys", ".env", f"{count(bad, 'line')} {what}")
    return found


def _workspace_of(home: PeerHome, config: Row) -> str:
    """The folder with its documents, relative to the home."""
    given, default = group(config, "agents", "defaults").get("workspace"), "workspace"
    if isinstance(given, str) and given:
        path = Path(os.path.normpath(os.path.expanduser(given)))
        if path.is_absolute() and path.is_relative_to(home.path):
            return path.relative_to(home.path).as_posix()
        if path.name != default:
            home.leave("documents", given, "the workspace is outside the home")
    return default


def _list(row: Any, name: str = "") -> list[Row]:
    """The objects of a list, which may be below a name."""
    found = row.get(name) if isinstance(row, dict) else row
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


READERS: dict[str, Callable[[PeerHome, ExitStack], None]] = {
    "hermes-agent": _hermes_agent,
    "openclaw": _openclaw,
    "nanobot": _nanobot,
}
