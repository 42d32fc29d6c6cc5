"""A machine as its commands printed it once: what the responder is shown in tests."""

import json
from collections.abc import Callable, Mapping

from hermes_agent.core.messages import (
    AssistantMessage,
    Message,
    Reply,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.responder.model import ResponderModel
from tests.models.helpers import reply, request

MOST_REPLIES = 80

STATUS = """\
edge                             RUNNING   pid 7, uptime 0:01:10
stock                            RUNNING   pid 8, uptime 0:01:10
"""
PROGRAMS = """\
==> /etc/supervisor/conf.d/edge.conf <==
[program:edge]
command=/opt/bin/as-app python3 /srv/edge/server.py /etc/edge/edge.conf
directory=/srv/edge
stdout_logfile=/var/log/supervisor/edge.log

==> /etc/supervisor/conf.d/stock.conf <==
[program:stock]
command=/opt/bin/as-app python3 /srv/stock/server.py /etc/stock/stock.conf
directory=/srv/stock
stdout_logfile=/var/log/supervisor/stock.log
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544      80 supervisord -n
      7       1 root     Sl     0  0.1 23328      70 python3 /srv/edge/server.py /etc/edge/edge.conf
      8       1 root     Sl     0  0.1 23252      70 python3 /srv/stock/server.py
"""
CLOCK = "1794772992 2026-11-15 20:03:12 UTC"
WELL: Mapping[str, str] = {
    "supervisorctl status": STATUS,
    "tail -v -n +1 /etc/supervisor/conf.d/*.conf": PROGRAMS,
    "ps -eo": PROCESSES,
    "date ": CLOCK,
    "cat /etc/edge/edge.conf": "[service]\nport = 8080\nupstream = http://127.0.0.1:9090\n",
    "cat /etc/stock/stock.conf": "[service]\nport = 9090\ndata = /var/lib/stock\n",
}
"""Outputs by how their commands begin."""


def brief(**changed: object) -> str:
    told = {
        "incident": "inc-1",
        "severity": "P1",
        "title": "edge does not answer",
        "service": "edge",
        "terminal": "box",
        "check": {
            "name": "edge", "command": "curl -fs http://127.0.0.1:8080/ready", "output": "",
            "exit": 22,
        },
        "services": [{"name": "edge", "needs": ["stock"]}, {"name": "stock"}],
        "skills": [],
        "earlier": [],
    }  # fmt: skip
    return f"edge does not answer.\n\n```json\n{json.dumps(told | changed)}\n```\n"


class Machine:
    """Answers calls; `mends` says after which command the checks hold, and `then` what is printed
    otherwise from there on."""

    def __init__(
        self,
        outputs: Mapping[str, str] = WELL,
        mends: Callable[[str], bool] = lambda _: False,
        *,
        well: bool = False,
        then: Mapping[str, str] | None = None,
    ) -> None:
        self.outputs = outputs
        self.then = then or {}
        self.mends = mends
        self.well = well
        self.commands: list[str] = []
        self.acts: list[dict[str, object]] = []
        self.skills: dict[str, Mapping[str, str]] = {}

    def answer(self, call: ToolCall, child: Callable[[str], str]) -> ToolMessage:
        given = call.input()
        match call.name:
            case "terminal":
                return self._ran(call, given["command"])
            case "delegate":
                told = [child(task["task"]) for task in given["tasks"]]
                text = "\n\n".join(f"## child {n} (s)\n{one}" for n, one in enumerate(told, 1))
                return ToolMessage(call.id, call.name, text)
            case "write_skill":
                self.skills[given["name"]] = given["files"]
                return ToolMessage(call.id, call.name, "kept")
            case "skill":
                files = self.skills.get(given["name"], {})
                return ToolMessage(call.id, call.name, files.get(given.get("file", "SKILL.md"), ""))
            case "incident":
                self.acts.append(given)
                if given["action"] == "verify":
                    text = "edge: holds" if self.well else "edge: FAILS: saw exit 22"
                    return ToolMessage(call.id, call.name, text)
                if given["action"] == "resolve" and not self.well:
                    return ToolMessage(call.id, call.name, "the check fails", ok=False)
        return ToolMessage(call.id, call.name, "done")

    def _ran(self, call: ToolCall, command: str) -> ToolMessage:
        self.commands.append(command)
        self.well = self.well or self.mends(command)
        outputs = [*(self.then.items() if self.well else ()), *self.outputs.items()]
        fitting = [text for start, text in outputs if command.startswith(start)]
        if fitting:
            return ToolMessage(call.id, call.name, fitting[0] or "[no output]")
        return ToolMessage(call.id, call.name, "[exit code 1]", ok=False)


async def converse(machine: Machine, *said: str) -> list[Message]:
    """The whole conversation, every reply of it made twice: it must follow from the messages."""
    messages: list[Message] = []
    for text in said:
        messages.append(UserMessage(text))
        await _turn(machine, messages)
    return messages


async def _turn(machine: Machine, messages: list[Message]) -> None:
    for _ in range(MOST_REPLIES):
        answer = await _once(messages)
        messages.append(answer.message)
        if not answer.calls:
            return
        for call in answer.calls:
            told: dict[str, str] = {}
            if call.name == "delegate":
                for task in call.input()["tasks"]:
                    inner: list[Message] = [UserMessage(task["task"])]
                    await _turn(machine, inner)
                    told[task["task"]] = inner[-1].text
            messages.append(machine.answer(call, told.__getitem__))
    raise AssertionError("it does not come to an end")


async def _once(messages: list[Message]) -> Reply:
    first = await reply(ResponderModel(), request(*messages))
    assert await reply(ResponderModel(), request(*messages)) == first
    return first


def replies(messages: list[Message]) -> list[AssistantMessage]:
    return [message for message in messages if isinstance(message, AssistantMessage)]
