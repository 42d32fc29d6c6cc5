"""Whole incidents in houses that look like none of those that are practised."""

from collections.abc import Mapping

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
    machine = Machine(HOUSE, lambda command: "show HEAD:./lending.yaml >" in command)
    await converse(machine, BRIEF)
    said = acted(machine, "resolve")
    assert (said["component"], said["category"]) == ("lending", "bad-config")
    assert "/usr/local/lending/etc/lending.yaml" in str(said["locus"])
    assert any("no such folder" in quote for quote in said["evidence"])  # type: ignore[attr-defined]


async def test_what_did_not_help_is_taken_back_before_people_are_asked() -> None:
    machine = Machine(HOUSE)
    await converse(machine, BRIEF)
    back = (
        "cp /var/tmp/usr-local-lending-etc-lending.yaml.replaced "
        "/usr/local/lending/etc/lending.yaml"
    )
    assert back in machine.commands
    said = acted(machine, "escalate")
    assert "taken back" in str(said["summary"])
    assert "supervisorctl restart lending" in machine.commands
