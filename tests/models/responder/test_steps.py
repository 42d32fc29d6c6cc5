"""How a remedy is carried out, whom it may be for, and when no other is looked for."""

import subprocess
from pathlib import Path

import pytest

from hermes_agent.core.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from hermes_agent.models.responder.acting import _ready
from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.model import ResponderModel
from hermes_agent.models.responder.rules.ideas import Idea, keeping
from hermes_agent.models.responder.steps import run_as, together
from hermes_agent.models.responder.tried import Tried
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.needed import is_concerned
from hermes_agent.models.responder.view.seen import Seen
from tests.models.helpers import reply, request
from tests.models.responder.machine import PROCESSES, WELL, Machine, brief, converse

RESTART = "supervisorctl restart stock"


def test_a_file_of_which_no_copy_could_be_kept_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("port = 1\n")
    lost = f"cp -p -T --backup=numbered {path} {tmp_path}/gone/a"
    fix = (lost, f"sed -i s/1/2/ {path}", RESTART)
    assert together(fix) == [fix[:2], (RESTART,)]
    assert subprocess.run(["bash", "-c", run_as(fix[:2])], check=False).returncode
    assert path.read_text() == "port = 1\n"


def test_what_is_not_there_is_written_without_a_copy(tmp_path: Path) -> None:
    path, link = tmp_path / "made.conf", tmp_path / "a.conf"
    link.symlink_to(path)
    fix = (f"cp -p -T --backup=numbered {link} {tmp_path}/kept", f"printf 'port = 1\\n' >> {link}")
    subprocess.run(["bash", "-c", run_as(fix)], check=True)
    assert path.read_text() == "port = 1\n"


def test_files_that_are_kept_together_are_changed_together() -> None:
    fix = (keeping("/etc/a"), "cp /b /etc/a", keeping("/etc/c"), "sed -i s/1/2/ /etc/c", RESTART)
    assert together(fix) == [fix[:4], (RESTART,)]
    assert together(("kill 7", RESTART)) == [("kill 7",), (RESTART,)]


def test_a_link_stays_one_when_it_is_edited(tmp_path: Path) -> None:
    real, link = tmp_path / "real.conf", tmp_path / "a.conf"
    real.write_text("port = 1\n")
    link.symlink_to(real)
    subprocess.run(["bash", "-c", run_as((f"sed -i -E 's/1/2/' {link}",))], check=True)
    assert link.is_symlink()
    assert real.read_text() == "port = 2\n"


STATUS = "".join(f"{name} RUNNING pid {at}, uptime 0:10:00\n" for at, name in enumerate(
    ("edge", "stock", "other", "front", "edge-mailer"), 7))  # fmt: skip
LISTENERS = 'LISTEN 0 64 127.0.0.1:8080 0.0.0.0:* users:(("nginx",pid=10,fd=4))\n'


@pytest.mark.parametrize(
    ("component", "category", "acted"),
    [
        ("edge", "bad-config", True), ("stock", "bad-config", True),
        ("other", "bad-config", False), ("other", "service-crash", False),
        ("front", "bad-config", True), ("edge-mailer", "service-crash", True),
        ("other", "disk-full", True), ("/srv", "permission-change", True),
    ],
)  # fmt: skip
def test_what_has_nothing_to_do_with_the_alert_is_left_alone(
    component: str, category: str, acted: bool
) -> None:
    told = Brief(
        "inc-1", "edge", BriefCheck(command="curl -fs http://127.0.0.1:8080/ready"),
        tuple(BriefService(one, ("stock",) if one == "edge" else ())
              for one in ("edge", "stock", "other", "front", "edge-mailer")),
    )  # fmt: skip
    rows = "PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n10 1 root S 0 0.1 9 70 nginx\n"
    case = Case(told, [Seen(probes.STATUS, STATUS), Seen(probes.LISTENERS, LISTENERS),
                       Seen(probes.PROCESSES, rows)])  # fmt: skip
    idea = Idea(category, component, "x", 0.9, evidence=("y",), fix=("sed -i s/a/b/ /etc/x",))
    assert (_ready(case, [idea], Tried()) is idea) is acted


@pytest.mark.parametrize(
    ("works", "tied"),
    [
        ("/srv/app/run.py /home/cfg/other.json", False),
        ("/srv/app/run.py /home/cfg/other.json --spool=/var/spool/edge/in", True),
        ("/srv/app/run.py /home/cfg/edge.json", True),
    ],
)
def test_who_works_with_the_same_files_has_to_do_with_it(works: str, tied: bool) -> None:
    runs = "/srv/app/run.py /home/cfg/edge.json --spool=/var/spool/edge"
    entries = "".join(
        f"==> /etc/supervisor/conf.d/{name}.conf <==\n[program:{name}]\ncommand=python3 {words}\n\n"
        for name, words in (("edge", runs), ("other", works))
    )
    every = (BriefService("edge", ("stock",)), BriefService("stock"), BriefService("other"))
    told = Brief("inc-1", "edge", services=every)
    case = Case(told, [Seen(probes.STATUS, STATUS), Seen(probes.PROGRAMS, entries)])
    assert is_concerned(case, "other") is tied


class Slow(Machine):
    """A machine on which each look at who runs takes five minutes."""

    def _ran(self, call: ToolCall, command: str) -> ToolMessage:
        if command == probes.PROCESSES:
            age = 80 + 300 * self.commands.count(command)
            self.commands.append(command)
            return ToolMessage(call.id, call.name, PROCESSES.replace("25544      80", f"9 {age}"))
        return super()._ran(call, command)


async def test_who_finds_no_remedy_for_long_hands_over_in_time() -> None:
    def restarts(machine: Machine) -> int:
        return sum("restart" in command for command in machine.commands)

    slow, quick = Slow(WELL), Machine(WELL)
    for machine in (slow, quick):
        await converse(machine, brief())
        assert machine.acts[-1]["action"] == "escalate"
    assert 0 < restarts(slow) < restarts(quick)


async def test_what_comes_to_no_end_is_handed_over_once() -> None:
    messages: list[Message] = [UserMessage(brief())]
    messages += [AssistantMessage("hm")] * 1201
    first = await reply(ResponderModel(), request(*messages))
    assert [call.input()["action"] for call in first.calls] == ["escalate"]
    messages += [first.message, ToolMessage(first.calls[0].id, "incident", "done")]
    assert not (await reply(ResponderModel(), request(*messages))).calls
