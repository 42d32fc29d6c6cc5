"""Whole incidents in houses that look like none of those that are practised."""

from collections.abc import Callable, Mapping

from hermes_agent.core.messages import ToolCall, ToolMessage
from tests.models.responder.machine import Machine, brief, converse
from tests.models.responder.test_responder import acted

CLOCK = "1794797381 2026-11-16 02:49:41 UTC +0000"
SETTINGS = """\
# of the lending desk
http:
  listen: 127.0.0.1:8080
shelf:
  folder: /data/lending/shelf2
log:
  file: /data/lending/say/today
"""
COPIES = """\
==> link <==
==> lines <==
7 /usr/local/lending/etc/lending.yaml
==> git:HEAD <==
5c5
<   folder: /data/lending/shelf
---
>   folder: /data/lending/shelf2
"""
SAID = (
    '{"ts": 1794797360.5, "lvl": "INFO", "text": "comes up"}\n'
    '{"ts": 1794797379.1, "lvl": "FATAL", "text": "no such folder: /data/lending/shelf2"}\n'
)
HOUSE: Mapping[str, str] = {
    "supervisorctl status": "lending   BACKOFF   Exited too quickly (see its log)\n",
    "tail -v -n +1 /etc/supervisor/conf.d/*.conf": (
        "==> /etc/supervisor/conf.d/desk.conf <==\n[program:lending]\n"
        "command=/usr/local/lending/bin/start\ndirectory=/usr/local/lending\n"
        "stdout_logfile=NONE\n"
    ),
    "ps -eo": "    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND\n"
    "      1       0 root     S      0  0.2 25544     700 supervisord -n\n",
    "date ": CLOCK,
    "cp ": "",
    "git ": "",
    "supervisorctl restart": "lending: started\n",
    "cat /usr/local/lending/bin/start": (
        "#!/bin/sh\ncd /usr/local/lending\nexec python3 lib/desk.py --settings etc/lending.yaml\n"
    ),
    "cat /usr/local/lending/etc/lending.yaml": SETTINGS,
    "tail -n 40 /data/lending/say/today": SAID,
    "find /usr/local/lending": (
        "150 1794797300.1 root /usr/local/lending/etc/lending.yaml\n"
        "900 1790000000.1 root /usr/local/lending/lib/desk.py\n"
    ),
    'echo "==> link <=="; readlink /usr/local/lending/etc/lending.yaml;': COPIES,
}
UP = {"supervisorctl status": "lending   RUNNING   pid 31, uptime 0:00:09\n"}
BRIEF = brief(
    service="lending",
    services=[{"name": "lending"}],
    check={
        "name": "desk",
        "command": "curl -fs http://127.0.0.1:8080/",
        "output": "",
        "exit": 7,
    },
)


async def test_a_setting_is_put_back_from_git_behind_a_wrapper_without_any_usual_place() -> None:
    machine = Machine(HOUSE, lambda command: "show HEAD:./lending.yaml >" in command, then=UP)
    await converse(machine, BRIEF)
    said = acted(machine, "resolve")
    assert (said["component"], said["category"]) == ("lending", "bad-config")
    assert "/usr/local/lending/etc/lending.yaml" in str(said["locus"])
    assert any("no such folder" in quote for quote in said["evidence"])  # type: ignore[attr-defined]


async def test_what_did_not_help_is_taken_back_before_people_are_asked() -> None:
    machine = Machine(HOUSE)
    await converse(machine, BRIEF)
    back = (
        "cp -p /var/tmp/usr-local-lending-etc-lending.yaml.replaced "
        "/usr/local/lending/etc/lending.yaml"
    )
    assert back in machine.commands
    said = acted(machine, "escalate")
    assert "taken back" in str(said["summary"])
    assert "supervisorctl restart lending" in machine.commands


async def test_checks_that_hold_while_their_service_is_down_are_not_called_resolved() -> None:
    machine = Machine(HOUSE, lambda command: "show HEAD:./lending.yaml >" in command)
    await converse(machine, BRIEF)
    assert "lending does not come up" in str(acted(machine, "escalate")["summary"])
    assert "resolve" not in [given["action"] for given in machine.acts]


class Strict(Machine):
    """Takes no diagnosis that quotes the first line that it was ever quoted."""

    refused = ""

    def answer(self, call: ToolCall, child: Callable[[str], str]) -> ToolMessage:
        given = call.input()
        if call.name == "incident" and given["action"] == "resolve" and self.well:
            self.refused = self.refused or given["evidence"][0]
            if self.refused in given["evidence"]:
                shown = self.refused if len(self.refused) <= 60 else f"{self.refused[:59]}…"
                text = f"the quote {shown!r} is in no result of this session or of its children"
                return ToolMessage(call.id, call.name, text, ok=False)
        return super().answer(call, child)


async def test_a_quote_that_does_not_count_is_left_out_and_the_remedy_stays() -> None:
    machine = Strict(HOUSE, lambda command: "show HEAD:./lending.yaml >" in command, then=UP)
    await converse(machine, BRIEF)
    said = acted(machine, "resolve")
    assert machine.refused
    assert said["evidence"]
    assert machine.refused not in said["evidence"]  # type: ignore[operator]
    assert not [command for command in machine.commands if command.startswith("cp -p /var/tmp/")]


class InTurn(Machine):
    """Every third verification fails: one of three that serve in turn is ill."""

    looks = 0

    def answer(self, call: ToolCall, child: Callable[[str], str]) -> ToolMessage:
        if call.name == "incident" and call.input()["action"] == "verify":
            self.looks += 1
            self.well = self.looks % 3 != 0
        return super().answer(call, child)


async def test_what_fails_now_and_then_is_no_false_alarm() -> None:
    machine = InTurn(HOUSE)
    await converse(machine, BRIEF)
    assert "false_alarm" not in [given["action"] for given in machine.acts]
