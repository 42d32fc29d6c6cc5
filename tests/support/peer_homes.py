"""Homes of other agents, as small data in their shapes: the tables and files that hermes-agent
0.19.0, OpenClaw 2026.9.6 and nanobot 0.3.5 write."""

import base64
import json
import sqlite3
from pathlib import Path
from typing import Any

KEY = "sk-or-v1-" + "0123456789abcdef" * 4
TOKEN = "7712345678:AA" + "Fake" * 8
SKILL = "---\nname: {}\ndescription: Rotate the logs of forge when its disk is full\n---\n\n{}\n"
LATER = "2126-01-01T08:00:00+00:00"


def write(home: Path, name: str, content: Any) -> None:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def hermes_agent(home: Path, sessions: int = 2, cwd: str = "") -> Path:
    write(home, "config.yaml", (
        "model:\n  provider: custom\n  base_url: http://127.0.0.1:9/v1\n  default: tiny\n"
        "timezone: Europe/Berlin\nterminal:\n  backend: docker\nTELEGRAM_ALLOWED_USERS: 4242\n"
        "mcp_servers:\n  files:\n    command: npx\n"
    ))  # fmt: skip
    write(home, ".env", f"OPENROUTER_API_KEY={KEY}\nTELEGRAM_BOT_TOKEN={TOKEN}\nFAL_KEY=abc\n")
    (home / ".env").chmod(0o600)
    write(
        home,
        "memories/MEMORY.md",
        "The server is called forge.\n§\nThe cat is Tom.\nHe eats.",
    )
    write(home, "memories/USER.md", "Prefers metric units.")
    write(home, "SOUL.md", f"You answer like a pirate. The key is {KEY}")
    write(home, "skills/ops/rotate-logs/SKILL.md", SKILL.format("rotate-logs", "Run logrotate."))
    write(home, "skills/shipped/SKILL.md", SKILL.format("shipped", "It came with it."))
    write(home, "skills/.bundled_manifest", "shipped:\n")
    jobs = [
        {"id": "a1", "name": "morning", "prompt": "Report the disk", "enabled": True,
         "schedule": {"kind": "cron", "expr": "0 8 * * 1-5"}},
        {"id": "a2", "name": "often", "prompt": "Look",
         "schedule": {"kind": "interval", "minutes": 120}},
        {"id": "a3", "name": "once", "prompt": "Look",
         "schedule": {"kind": "once", "run_at": LATER}},
        {"id": "a4", "name": "bent", "prompt": "Look",
         "schedule": {"kind": "cron", "expr": "99 x"}},
        {"id": "a5", "name": "script", "script": "watch.py", "no_agent": True},
    ]  # fmt: skip
    write(home, "cron/jobs.json", {"jobs": jobs})
    write(home, "auth.lock", "")
    db = sqlite3.connect(home / "state.db")
    db.executescript(
        "create table sessions (id text primary key, source text, model text, title text, "
        "started_at real, cwd text);"
        "create table messages (id integer primary key, session_id text, role text, content text, "
        "tool_calls text, tool_name text, timestamp real, active integer default 1);"
        "create index messages_by_session on messages (session_id, timestamp);"
    )
    call = json.dumps([{"function": {"name": "terminal", "arguments": '{"command": "df"}'}}])
    for number in range(sessions):
        id, at = f"2026_{number}", 1_700_000_000.0 + 1_000 * number
        db.execute("insert into sessions values (?, 'cli', 'tiny', null, ?, ?)", (id, at, cwd))
        rows = [
            ("user", f"is xylophone {number} full?", None, None, 1),
            ("assistant", "", call, None, 1),
            ("tool", "the disk of forge is 93% full " * 40, None, "terminal", 1),
            ("assistant", f"Yes. My key is {KEY}", None, None, 1),
            ("user", "a message that was taken back", None, None, 0),
        ]
        db.executemany(
            "insert into messages (session_id, role, content, tool_calls, tool_name, timestamp, "
            "active) values (?, ?, ?, ?, ?, ?, ?)",
            [(id, *row[:4], at + place, row[4]) for place, row in enumerate(rows)],
        )
    db.commit()
    db.close()
    return home


def openclaw(home: Path) -> Path:
    workspace = home / "workspace"
    write(home, "openclaw.json", {
        "agents": {"defaults": {"workspace": str(workspace), "model": {"primary": "mine/tiny"}}},
        "models": {"providers": {"mine": {
            "baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": KEY}}},
        "channels": {"telegram": {"botToken": TOKEN, "allowFrom": ["4242", "*"]}},
    })  # fmt: skip
    write(workspace, "MEMORY.md", "# Memory\n\n- The lamp is called lumen.\n")
    write(workspace, "memory/2026-11-18.md", "# 2026-11-18\n\n- Watered the plants.\n")
    write(workspace, "AGENTS.md", "Always say which plant.")
    write(workspace, "skills/water/SKILL.md", SKILL.format("water", "Turn on the pump."))
    lines: list[Any] = [
        {"type": "session", "version": 4, "id": "s1"},
        {"type": "message", "id": "m1", "timestamp": "2026-01-05T08:00:00Z",
         "message": {"role": "user", "content": "who is rusty?"}},
        {"type": "message", "id": "m2", "timestamp": "2026-01-05T08:00:01Z", "message": {
            "role": "assistant", "content": [
                {"type": "text", "text": "A fox."},
                {"type": "toolCall", "name": "exec", "arguments": {"command": "id"}}]}},
        {"type": "message", "id": "m3", "timestamp": "2026-01-05T08:00:02Z",
         "message": {"role": "toolResult", "toolName": "exec", "content": "uid=0"}},
    ]  # fmt: skip
    (home / "agents/main/agent").mkdir(parents=True)
    db = sqlite3.connect(home / "agents/main/agent/openclaw-agent.sqlite")
    db.execute("create table transcript_events (session_id text, seq integer, event_json text)")
    rows = [("s1", place, json.dumps(line)) for place, line in enumerate(lines)]
    db.executemany("insert into transcript_events values (?, ?, ?)", rows)
    db.commit()
    db.close()
    older = "\n".join(json.dumps(line).replace("rusty", "amber") for line in lines)
    write(home, "agents/main/sessions/s0.jsonl", older + "\nno json\n")
    jobs = [
        {"id": "j1", "name": "disk",
         "schedule": {"kind": "cron", "expr": "0 7 * * *", "tz": "Asia/Tokyo"},
         "payload": {"kind": "agentTurn", "message": "Report the disk"}},
        {"id": "j2", "name": "heartbeat-main", "declarationKey": "heartbeat:main",
         "schedule": {"kind": "every", "everyMs": 1}, "payload": {"kind": "heartbeat"}},
    ]  # fmt: skip
    write(home, "cron/jobs.json", {"jobs": jobs})
    return home


def nanobot(home: Path) -> Path:
    write(home, "config.json", {
        "agents": {"defaults": {"model": "anthropic/claude-x", "provider": "auto",
                                "workspace": str(home / "workspace")}},
        "providers": {"anthropic": {"apiKey": "sk-ant-" + "x" * 40}},
        "channels": {"telegram": {"enabled": True, "token": TOKEN, "allowFrom": ["4242"]}},
    })  # fmt: skip
    write(home / "workspace", "memory/MEMORY.md", (
        "# Long-term Memory\n\n(Important facts about the user)\n\n- The printer is called inky.\n"
    ))  # fmt: skip
    job = {"id": "c1", "name": "disk", "schedule": {"kind": "every", "every_ms": 7_200_000},
           "payload": {"kind": "agent_turn", "message": "Report the disk"}}  # fmt: skip
    write(
        home / "workspace", "cron/action.jsonl", json.dumps({"action": "add", "params": job}) + "\n"
    )
    lines = [
        {"_type": "metadata", "key": "cli:direct"},
        {"role": "user", "content": "who is marimba?", "timestamp": "2026-01-05T08:00:00"},
        {"role": "assistant", "content": "A cat.", "timestamp": "2026-01-05T08:00:01"},
    ]
    stem = base64.urlsafe_b64encode(b"cli:direct").decode().rstrip("=")
    write(home, f"sessions/0949/{stem}.jsonl", "\n".join(map(json.dumps, lines)) + "\n")
    return home


MAKERS = {"hermes-agent": hermes_agent, "openclaw": openclaw, "nanobot": nanobot}
