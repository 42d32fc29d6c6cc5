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
from pathlib import Path
from typing import Any

from hermes_agent.cli.manage.imports import settings as translate
from hermes_agent.cli.manage.imports.home import (
    SESSION_BYTES,
    TEXT_BYTES,
    Message,
    PeerDatabase,
    PeerHome,
    PeerSession,
    Row,
    call_text,
    content_text,
    entries,
    every_words,
    plain,
    result_text,
    seconds_of,
)
from hermes_agent.cli.output.formatting import count
from hermes_agent.core.errors import HermesError
from hermes_agent.models.catalogue.services import SERVICES

_EFFORTS = ("low", "medium", "high", "xhigh", "max")


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
        if (path := _database(home, "kanban.db")) is not None:
            db = PeerDatabase(path, stack)
            db.columns("tasks")
            cards = next(db.rows("select count(*) n from tasks"))["n"]
            home.leave("board", count(cards, "card"), "Hermes has no board")
    if isinstance(servers := config.get("mcp_servers"), dict):
        _servers(home, servers)


def _hermes_settings(home: PeerHome, config: Row, variables: dict[str, str]) -> None:
    model = config.get("model") or {}
    model = {"default": model} if isinstance(model, str) else model
    provider = plain(model.get("provider"))
    for name, row in _services(config):
        url = row.get("base_url") or row.get("api") or row.get("url")
        key = row.get("api_key") or variables.get(str(row.get("key_env") or ""), "")
        translate.service_of(home, name, url, key, row.get("api_mode") or row.get("transport"))
    chosen = plain(model.get("default") or model.get("model"))
    if provider in ("", "auto") and not model.get("base_url"):
        maker = chosen.partition("/")[0]
        provider = "openrouter" if variables.get("OPENROUTER_API_KEY") else maker
    service = translate.service_of(
        home, provider.removeprefix("custom:"), model.get("base_url"), model.get("api_key"),
        model.get("api_mode"),
    )  # fmt: skip
    translate.model_of(home, service, chosen)
    wanted = {variable for row in SERVICES.values() for variable in row.key_variables}
    for variable, value in variables.items():
        if variable in wanted:
            translate.key_of(home, variable, value)
    translate.channels_by_variable(home, variables)
    translate.terminal_of(home, config.get("terminal") or {})
    effort = (config.get("agent") or {}).get("reasoning_effort")
    if effort in _EFFORTS:
        home.settings["models.reasoning_effort"] = effort
    others = sorted(
        variable
        for variable, value in variables.items()
        if re.search(r"(_KEY|_TOKEN|_SECRET|_PASSWORD)$", variable)
        and value
        and variable not in home.keys
    )
    if others:
        home.leave("keys", ", ".join(others), "not used by anything imported")


def _services(config: Row) -> Iterator[tuple[str, Row]]:
    for row in _list(config, "custom_providers"):
        yield plain(row.get("name")) or "custom", row
    rows = config.get("providers")
    for name, row in rows.items() if isinstance(rows, dict) else ():
        if isinstance(row, dict) and (row.get("base_url") or row.get("api") or row.get("url")):
            yield str(name), row


def _hermes_job(home: PeerHome, job: Row, zone: str) -> None:
    if job.get("no_agent") or job.get("script"):
        home.leave("jobs", _name(job), f"it runs the script {job.get('script')}")
        return
    given = job.get("schedule") or {}
    given = given if isinstance(given, dict) else {"kind": "cron", "expr": given}
    when = {
        "cron": lambda: str(given.get("expr") or ""),
        "interval": lambda: every_words(60 * int(given["minutes"])),
        "once": lambda: str(given.get("run_at") or ""),
    }.get(str(given.get("kind")))
    _add_job(home, job, str(job.get("prompt") or ""), when() if when else "", zone)


def _hermes_sessions(home: PeerHome, stack: ExitStack) -> None:
    path = _database(home, "state.db")
    if path is None:
        return
    db = PeerDatabase(path, stack)
    db.columns("sessions")
    columns = db.columns("messages")
    alive = "and active = 1" if "active" in columns else ""
    alive = "and (active = 1 or compacted = 1)" if "compacted" in columns else alive

    def messages(session: str, model: str) -> Iterator[Message]:
        with home.surviving("sessions", session):
            for row in db.rows(
                f"select * from messages where session_id = ? {alive} order by id", session
            ):
                text = content_text(_parsed(row.get("content")))
                if row["role"] == "tool":
                    text = result_text(row.get("tool_name"), text)
                for call in _parsed_list(row.get("tool_calls")):
                    made = call.get("function") or call
                    text = f"{text}\n\n{call_text(made.get('name'), made.get('arguments'))}".strip()
                yield Message(
                    str(row["id"]), str(row["role"]), text, seconds_of(row["timestamp"]), model
                )

    for row in db.rows(
        "select * from sessions where id in (select session_id from messages) order by started_at"
    ):
        id, model = str(row["id"]), str(row.get("model") or "")
        folder = str(row.get("cwd") or "")
        if Path(folder).is_relative_to(home.path):
            folder = ""
        title = str(row.get("title") or "")
        home.sessions.append(PeerSession(id, title, _lazily(messages, id, model), folder))


# OpenClaw


def _openclaw(home: PeerHome, stack: ExitStack) -> None:
    names = ("openclaw.json", "clawdbot.json", "moltbot.json")
    config = next((found for name in names if (found := _json5(home, name))), {})
    with home.surviving("settings", "openclaw.json"):
        _openclaw_settings(home, config)
    folder = _inside(home, _at(config, "agents", "defaults", "workspace"), "workspace")
    _workspace(home, folder, "MEMORY.md")
    for name in sorted(_names(home.path / folder / "memory")):
        if (day := re.fullmatch(r"(\d{4}-\d\d-\d\d).*\.md", name)) is not None:
            texts = entries(home.text("memory", f"{folder}/memory/{name}"))
            home.add_notes("memory", [f"{day[1]}: {text}" for text in texts])
    home.add_skills("skills", lambda _name, _place: False)
    for job in _openclaw_jobs(home, stack):
        with home.surviving("jobs", _name(job)):
            _openclaw_job(home, job)
    for agent in sorted(_names(home.path / "agents")):
        with home.surviving("sessions", f"agents/{agent}"):
            _openclaw_sessions(home, agent, stack)
    if isinstance(servers := _at(config, "mcp", "servers"), dict):
        _servers(home, servers)


def _openclaw_settings(home: PeerHome, config: Row) -> None:
    rows = _at(config, "models", "providers")
    ours = {
        name: translate.service_of(
            home, name, row.get("baseUrl"), row.get("apiKey"), row.get("api")
        )
        for name, row in (rows.items() if isinstance(rows, dict) else ())
        if isinstance(row, dict)
    }
    chosen = _at(config, "agents", "defaults", "model")
    chosen = chosen.get("primary") if isinstance(chosen, dict) else chosen
    if isinstance(chosen, str) and "/" in chosen:
        provider, model = chosen.split("/", 1)
        service = ours[provider] if provider in ours else translate.service_of(home, provider)
        translate.model_of(home, service, model)
    wanted = {variable for row in SERVICES.values() for variable in row.key_variables}
    variables = _at(config, "env", "vars") or config.get("env")
    for source in (_variables(home), variables if isinstance(variables, dict) else {}):
        for variable in wanted & source.keys():
            translate.key_of(home, variable, source[variable])
    for agent in sorted(_names(home.path / "agents")):
        store = home.json("keys", f"agents/{agent}/agent/auth-profiles.json")
        for profile in (store.get("profiles") or {}).values() if isinstance(store, dict) else ():
            if profile.get("type") == "api_key":
                translate.service_of(home, str(profile.get("provider")), "", profile.get("key"))
            else:
                home.leave("keys", f"login of {profile.get('provider')}", "log in here again")
    translate.channels_by_name(home, config.get("channels") or {})


def _openclaw_jobs(home: PeerHome, stack: ExitStack) -> Iterator[Row]:
    yield from _list(home.json("jobs", "cron/jobs.json"), "jobs")
    with home.surviving("jobs", "state/openclaw.sqlite"):
        if (path := _database(home, "state/openclaw.sqlite")) is not None:
            db = PeerDatabase(path, stack)
            db.columns("cron_jobs")
            for row in db.rows("select job_json from cron_jobs"):
                yield json.loads(row["job_json"])


def _openclaw_job(home: PeerHome, job: Row) -> None:
    payload, given = job.get("payload") or {}, job.get("schedule") or {}
    if str(job.get("declarationKey") or "") or payload.get("kind") == "heartbeat":
        home.leave("jobs", _name(job), "internal to OpenClaw")
        return
    prompt = payload.get("message") or payload.get("text") or ""
    if not prompt:
        home.leave("jobs", _name(job), f"not a prompt: {payload.get('kind')}")
        return
    _add_job(home, job, str(prompt), _when(given, "at", "everyMs"), str(given.get("tz") or ""))


def _openclaw_sessions(home: PeerHome, agent: str, stack: ExitStack) -> None:
    folder = f"agents/{agent}/sessions"
    for name in sorted(_names(home.path / folder)):
        if name.endswith(".jsonl") and _fits(home, f"{folder}/{name}"):
            lines = _lazily(home.lines, f"{folder}/{name}")
            session = name.removesuffix(".jsonl")
            home.sessions.append(PeerSession(session, "", _lazily(_openclaw_messages, lines)))
    path = _database(home, f"agents/{agent}/agent/openclaw-agent.sqlite")
    if path is None:
        return
    db = PeerDatabase(path, stack)
    db.columns("transcript_events")

    def events(session: str) -> Iterator[Any]:
        with home.surviving("sessions", session):
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
        lines = _lazily(events, session)
        home.sessions.append(PeerSession(session, "", _lazily(_openclaw_messages, lines)))


def _openclaw_messages(lines: Callable[[], Iterator[Any]]) -> Iterator[Message]:
    for number, line in enumerate(lines()):
        said = line.get("message") if isinstance(line, dict) else None
        if not isinstance(said, dict) or line.get("type") != "message":
            continue
        role, text = str(said.get("role")), content_text(said.get("content"))
        if role in ("toolResult", "tool"):
            role, text = "tool", result_text(said.get("toolName"), text)
        if role in ("user", "assistant", "tool"):
            when = seconds_of(line.get("timestamp") or said.get("timestamp"))
            model = str(said.get("model") or "")
            yield Message(str(line.get("id") or number), role, text, when, model)


# nanobot


def _nanobot(home: PeerHome, _stack: ExitStack) -> None:
    config = home.json("settings", "config.json")
    config = config if isinstance(config, dict) else {}
    with home.surviving("settings", "config.json"):
        _nanobot_settings(home, config)
    folder = _inside(home, _at(config, "agents", "defaults", "workspace"), "workspace")
    _workspace(home, folder, "memory/MEMORY.md")
    for job in _nanobot_jobs(home, folder):
        with home.surviving("jobs", _name(job)):
            payload, given = job.get("payload") or {}, _snaked(job.get("schedule") or {})
            when = _when(given, "at_ms", "every_ms")
            _add_job(home, job, str(payload.get("message") or ""), when, str(given.get("tz") or ""))
    for place in ("sessions", f"{folder}/sessions"):
        if not home.holds("sessions", place):
            continue
        for path in sorted((home.path / place).rglob("*.jsonl")):
            name = path.relative_to(home.path).as_posix()
            if _fits(home, name):
                key = f"{path.parent.name}/{_nanobot_key(path.stem)}"
                messages = _lazily(_nanobot_messages, home, name)
                home.sessions.append(PeerSession(key, "", messages))
    if isinstance(servers := _at(config, "tools", "mcpServers"), dict):
        _servers(home, servers)


def _nanobot_settings(home: PeerHome, config: Row) -> None:
    rows = config.get("providers")
    ours = {
        name: translate.service_of(
            home, name, row.get("apiBase"), row.get("apiKey"), row.get("apiType")
        )
        for name, row in (rows.items() if isinstance(rows, dict) else ())
        if isinstance(row, dict) and (row.get("apiKey") or row.get("apiBase"))
    }
    defaults = _at(config, "agents", "defaults") or {}
    model, provider = str(defaults.get("model") or ""), str(defaults.get("provider") or "auto")
    if provider == "auto":
        provider = model.partition("/")[0]
    service = ours[provider] if provider in ours else translate.service_of(home, provider)
    translate.model_of(home, service, model)
    if defaults.get("timezoneMode") == "manual":
        home.settings["jobs.zone"] = str(defaults.get("timezone") or "")
    if defaults.get("reasoningEffort") in _EFFORTS:
        home.settings["models.reasoning_effort"] = defaults["reasoningEffort"]
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
        text = content_text(line.get("content"))
        if line["role"] == "tool":
            text = result_text(line.get("name"), text)
        for call in line.get("tool_calls") or ():
            made = call.get("function") or {}
            text = f"{text}\n\n{call_text(made.get('name'), made.get('arguments'))}".strip()
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
    home.add_skills(f"{folder}/skills", lambda _name, _place: False)


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


def _servers(home: PeerHome, servers: Row) -> None:
    for name in sorted(map(str, servers)):
        home.leave("settings", f"MCP server {name}", "`hermes mcp add` adds it, once you trust it")


def _add_job(home: PeerHome, job: Row, prompt: str, when: str, zone: str) -> None:
    name = re.sub(r"[/\s]+", " ", str(job.get("name") or "")).strip()[:80]
    if when and seconds_of(when) and seconds_of(when) < time.time():
        home.leave("jobs", _name(job), "it was due once, in the past")
        return
    home.jobs.append(
        {"key": str(job.get("id") or name), "prompt": prompt, "when": when, "name": name,
         "zone": zone}
    )  # fmt: skip


def _when(given: Row, once: str, every: str) -> str:
    """A schedule in our words; empty if it has none that we know."""
    kind = given.get("kind")
    if kind == "cron":
        return str(given.get("expr") or "")
    if kind == "every" and given.get(every):
        return every_words(max(1, int(given[every]) // 1000))
    if kind == "at" and (moment := seconds_of(given.get(once) or given.get("atMs"))):
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    return ""


def _snaked(row: Row) -> Row:
    return {re.sub(r"([A-Z])", lambda m: f"_{m[1].lower()}", name): row[name] for name in row}


def _name(job: Any) -> str:
    return str((job.get("name") or job.get("id")) if isinstance(job, dict) else job)[:80]


def _yaml(home: PeerHome, name: str) -> Row:
    from hermes_agent.host.config import read_config

    with home.surviving("settings", name):
        if home.read("settings", name):
            try:
                return read_config(home.path / name)
            except HermesError as error:
                home.leave("settings", name, error.message)
    return {}


def _json5(home: PeerHome, name: str) -> Row:
    """A JSON file that may have comments and trailing commas."""
    text = home.text("settings", name)
    with home.surviving("settings", name):
        if text.strip():
            try:
                found = json.loads(text)
            except ValueError:
                bare = _JSON5.sub(r"\1", text)
                found = json.loads(re.sub(r",(\s*[}\]])", r"\1", bare))
            return found if isinstance(found, dict) else {}
    return {}


_JSON5 = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\\?\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
"""Strings, which stay, and comments, which go. What is left open goes on to the end."""


def _variables(home: PeerHome) -> dict[str, str]:
    from hermes_agent.policy.secrets import parse

    found: dict[str, str] = {}
    for line in home.text("keys", ".env").splitlines():
        try:
            found |= parse(line, ".env")
        except HermesError as error:
            home.leave("keys", ".env", error.message)
    return found


def _database(home: PeerHome, name: str) -> Path | None:
    path = home.path / name
    if not path.exists() or not path.stat().st_size:
        return None
    if not home.inside(path).is_file():
        raise ValueError("it is not a plain file")
    return path


def _fits(home: PeerHome, name: str) -> bool:
    with home.surviving("sessions", name):
        real = home.inside(home.path / name)
        if not real.is_file():
            raise ValueError("it is not a plain file")
        if real.stat().st_size > SESSION_BYTES:
            raise ValueError(f"it is larger than {SESSION_BYTES // 1_000_000} MB")
        return True
    return False


def _inside(home: PeerHome, given: Any, default: str) -> str:
    """A folder in the home, relative to it."""
    if isinstance(given, str) and given:
        path = Path(os.path.normpath(os.path.expanduser(given)))
        if path.is_absolute() and path.is_relative_to(home.path):
            return path.relative_to(home.path).as_posix()
        if path.name != default:
            home.leave("documents", given, "the workspace is outside the home")
    return default


def _names(folder: Path) -> list[str]:
    return os.listdir(folder) if folder.is_dir() and not folder.is_symlink() else []


def _at(row: Any, *steps: str) -> Any:
    for step in steps:
        row = row.get(step) if isinstance(row, dict) else None
    return row


def _list(row: Any, name: str) -> list[Row]:
    found = row.get(name) if isinstance(row, dict) else row
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _parsed(content: Any) -> Any:
    """Content with several parts is stored as JSON."""
    if isinstance(content, str) and content.startswith("[{"):
        try:
            return json.loads(content)
        except ValueError:
            return content
    return content


def _parsed_list(text: Any) -> list[Row]:
    try:
        return _list(json.loads(text), "") if isinstance(text, str) and text else []
    except ValueError:
        return []


def _lazily(work: Callable[..., Iterator[Any]], *given: Any) -> Callable[[], Iterator[Any]]:
    return lambda: work(*given)


READERS: dict[str, Callable[[PeerHome, ExitStack], None]] = {
    "hermes-agent": _hermes_agent,
    "openclaw": _openclaw,
    "nanobot": _nanobot,
}
