"""Sessions as people read them, and finding one."""

from typing import Any

from hermes_agent.cli.client.api import RuntimeClient, session_path
from hermes_agent.cli.output.formatting import ago, dollars, stamp, table
from hermes_agent.cli.output.turn_printer import one_line


def find(api: RuntimeClient, reference: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(session_path(reference))
    return found


def sessions_text(rows: list[dict[str, Any]], now: float) -> str:
    if not rows:
        return 'no sessions yet\nhint: hermes ask "…" or `hermes chat` opens one'
    cells = [
        (row["id"], row["state"], ago(row["updated"], now), str(row["messages"]),
         dollars(row["cost"]), one_line(row["model"]), one_line(row["name"] or row["title"], 60))
        for row in rows
    ]  # fmt: skip
    return table(("session", "state", "used", "messages", "cost", "model", "name"), cells)


def found_text(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        who = one_line(f"{row['role']} {row['tool']}")
        title = f"  {one_line(row['title'], 50)}" if row["title"] else ""
        lines.append(f"{row['session']} {stamp(row['time'])} {who}{title}")
        lines.append(f"    {one_line(row['snippet'], 200)}")
        lines += [f"    · {near['role']}: {one_line(near['text'])}" for near in row["around"]]
    return "\n".join(lines) or "nothing found"
