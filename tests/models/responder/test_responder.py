import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.errors import UsageError
from hermes_agent.core.incidents import CATEGORIES
from hermes_agent.core.messages import ToolCall, ToolMessage
from hermes_agent.core.settings import ModelSettings
from hermes_agent.learning.skill_file import problems
from hermes_agent.models.responder.model import NAME, WHAT_IT_IS, ResponderModel, open_named
from hermes_agent.models.responder.playbooks import playbook
from tests.models.helpers import reply, request
from tests.models.responder.machine import (
    PROCESSES,
    STATUS,
    WELL,
    Machine,
    brief,
    converse,
    replies,
)

GONE = WELL | {
    "supervisorctl status": STATUS.replace(
        "stock                            RUNNING   pid 8, uptime 0:01:10",
        "stock                            EXITED    Nov 15 08:03 PM",
    ),
    "tail -n 40 /var/log/supervisor/supervisord.log": (
        "2026-11-15 20:03:01,100 INFO spawned: 'stock' with pid 8\n"
        "2026-11-15 20:03:02,100 WARN exited: stock (terminated by SIGKILL; not expected)\n"
    ),
}
BACK = {"supervisorctl status": STATUS}
SAID = "2026-11-15 20:03:11 ERROR edge: stock: connection refused\n"
DISK = WELL | {
    "df -P": (
        "Filesystem     1024-blocks   Used Available Capacity Mounted on\n"
        "tmpfs                11264  11264         0     100% /var/lib/stock\n"
    ),
    "find /var/lib/stock -xdev -type f": (
        "4613734 1794772560.47 root /var/lib/stock/orders.db\n"
        "3613734 1792772560.47 root /var/lib/stock/log/stock.log.2.gz\n"
        "3113734 1792772560.47 root /var/lib/stock/log/stock.log.1\n"
    ),
    "find /proc": "",
}


def acted(machine: Machine, action: str) -> dict[str, object]:
    found = [act for act in machine.acts if act["action"] == action]
    assert len(found) == 1
    return found[0]


def acted_last(machine: Machine, action: str) -> dict[str, object]:
    return [act for act in machine.acts if act["action"] == action][-1]


async def test_it_says_what_it_is() -> None:
    answer = await reply(ResponderModel(), request("what is the capital of France?"))
    assert answer.text == WHAT_IT_IS
    assert not answer.calls
    assert answer.cost == 0.0
    assert "not a language model" in WHAT_IT_IS
    talk = await converse(Machine(well=True), brief())
    assert "a set of rules, not a language model" in talk[1].text


def test_it_is_opened_by_its_name_only() -> None:
    assert open_named(NAME, ModelSettings()).name == NAME
    with pytest.raises(UsageError, match="builtin/other"):
        open_named("builtin/other", ModelSettings())


async def test_nothing_is_touched_where_all_is_well() -> None:
    machine = Machine(well=True)
    await converse(machine, brief())
    assert acted(machine, "false_alarm")["summary"]
    assert not [one for one in machine.commands if re.match(r"rm|kill|truncate|cp|mv|sed", one)]
    assert not [one for one in machine.commands if "restart" in one]


async def test_a_dependency_that_ended_is_started_and_named() -> None:
    machine = Machine(GONE, lambda command: command == "supervisorctl restart stock", then=BACK)
    talk = await converse(machine, brief())
    said = acted(machine, "resolve")
    assert (said["component"], said["category"]) == ("stock", "service-crash")
    assert "pid 8" in str(said["locus"])
    assert any("EXITED" in quote for quote in said["evidence"])  # type: ignore[attr-defined]
    assert any(call.name == "delegate" for one in replies(talk) for call in one.calls)
    assert any(act["action"] == "hypothesis" for act in machine.acts)


async def test_a_full_disk_is_freed_of_what_is_disposable() -> None:
    machine = Machine(DISK, lambda command: command.startswith("rm -f"))
    await converse(machine, brief())
    (removed,) = [command for command in machine.commands if command.startswith("rm")]
    assert "stock.log.1" in removed
    assert "orders.db" not in removed
    said = acted(machine, "resolve")
    assert (said["component"], said["category"]) == ("stock", "disk-full")


async def test_what_no_rule_mends_is_handed_over() -> None:
    machine = Machine()
    talk = await converse(machine, brief())
    said = acted(machine, "escalate")
    assert said["needed"]
    assert "handed over" in talk[-1].text


async def test_the_second_time_takes_half_as_many_replies() -> None:
    machine = Machine(GONE, lambda command: command == "supervisorctl restart stock", then=BACK)
    over = (
        "The incident is over.\n```json\n"
        '{"aftermath": true, "category": "service-crash", "component": "stock", '
        '"skill_wanted": "service-crash-prevention", "known": false}\n```\n'
    )
    first = await converse(machine, brief())
    await converse(machine, brief(), over)
    assert set(machine.skills) == {"service-crash-prevention"}
    skill = {"name": "service-crash-prevention", "state": "candidate", "fits": True}
    again = Machine(GONE, machine.mends, then=BACK)
    again.skills = machine.skills
    second = await converse(again, brief(skills=[skill]))
    assert acted(again, "resolve")["category"] == "service-crash"
    assert 2 * len(replies(second)) <= len(replies(first))
    assert not any(call.name == "delegate" for one in replies(second) for call in one.calls)
    assert any(call.name == "skill" for one in replies(second) for call in one.calls)


async def test_a_skill_that_does_not_help_is_left_for_the_whole_investigation() -> None:
    machine = Machine(DISK, lambda command: command.startswith("rm -f"))
    skill = {"name": "service-crash-prevention", "state": "candidate", "fits": False}
    await converse(machine, brief(skills=[skill]))
    assert acted(machine, "resolve")["category"] == "disk-full"


async def test_what_only_looks_like_a_skill_is_told_apart_before_anything_is_done() -> None:
    machine = Machine({**GONE, **DISK}, lambda command: command.startswith("rm -f"))
    skill = {"name": "port-conflict-prevention", "state": "proven", "fits": True}
    talk = await converse(machine, brief(skills=[skill]))
    assert acted(machine, "resolve")["category"] == "disk-full"
    assert "The signs of port-conflict-prevention are there" in talk[1].text
    assert not [one for one in machine.commands if re.search(r"\bkill\b", one)]


async def test_a_second_encounter_takes_a_few_calls_and_no_whole_triage() -> None:
    mends = "supervisorctl restart stock".__eq__
    skill = {"name": "service-crash-prevention", "state": "candidate", "fits": True}
    first, second = Machine(GONE, mends, then=BACK), Machine(GONE, mends, then=BACK)
    await converse(first, brief())
    await converse(second, brief(skills=[skill]))
    assert acted(second, "resolve")["category"] == "service-crash"
    assert 2 * len(second.commands) <= len(first.commands)


async def test_at_a_second_encounter_too_nothing_is_resolved_while_somebody_is_down() -> None:
    said = {
        "tail -v -n 12 /var/log/*.log": f"==> /var/log/edge.log <==\n{SAID}",
        "supervisorctl restart": "stock: started\n",
    }
    fell = STATUS.replace("RUNNING   pid 7, uptime 0:01:10", "FATAL     Exited too quickly")
    skill = {"name": "service-crash-prevention", "state": "candidate", "fits": True}
    mends = "supervisorctl restart stock".__eq__
    machine = Machine({**GONE, **said}, mends, then={"supervisorctl status": fell})
    await converse(machine, brief(skills=[skill]))
    assert "supervisorctl restart edge" in machine.commands
    assert "edge does not come up" in str(acted(machine, "escalate")["summary"])


async def test_a_remedy_that_did_not_help_is_followed_by_the_whole_investigation() -> None:
    machine = Machine({**GONE, **DISK}, lambda command: command.startswith("rm -f"))
    skill = {"name": "service-crash-prevention", "state": "candidate", "fits": True}
    talk = await converse(machine, brief(skills=[skill]))
    assert acted_last(machine, "resolve")["category"] == "disk-full"
    assert any(call.name == "delegate" for one in replies(talk) for call in one.calls)


async def test_what_the_gate_refused_was_not_tried() -> None:
    machine = Refusing(GONE)
    await converse(machine, brief())
    assert "Tried: nothing was changed" in str(acted(machine, "escalate")["summary"])


class Refusing(Machine):
    """A machine whose gate lets nobody restart anything."""

    def answer(self, call: ToolCall, child: Callable[[str], str]) -> ToolMessage:
        if call.name == "terminal" and "restart" in call.input()["command"]:
            return ToolMessage(call.id, call.name, "refused by policy: no restarts", ok=False)
        return super().answer(call, child)


@pytest.mark.parametrize(
    "category", [one for one in CATEGORIES if one not in ("no-fault", "unknown")]
)
def test_there_is_a_sound_playbook_for_every_cause(category: str) -> None:
    book = playbook(category)
    assert book is not None
    name = f"{category}-prevention"
    files = {path: text.encode() for path, text in book.files(name).items()}
    assert problems(files, name) == []


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text() | st.sampled_from(list(DISK.values()) + list(GONE.values()))), st.booleans()
)
async def test_it_ends_whatever_commands_print(printed: list[str], well: bool) -> None:
    odd = [*printed, ""]
    starts = [*DISK, *GONE, "cat", "ls", "tail", "find", "psql", "openssl", "ip", "namei", "top"]
    outputs = {start: odd[at % len(odd)] for at, start in enumerate(dict.fromkeys(starts))}
    machine = Machine(outputs, well=well)
    await converse(machine, brief())
    assert machine.acts[-1]["action"] in ("resolve", "false_alarm", "escalate")


BUSY_LINE = "  {pid}       {parent} root     R     {nice}  97.0 23252     70 {command}\n"


@pytest.mark.parametrize(
    ("busy", "changed"),
    [
        (BUSY_LINE.format(pid=14, parent=1, nice=10, command="python3 nightly-backup.py"), {}),
        (BUSY_LINE.format(pid=14, parent=1, nice=0, command="tmux new"), {}),
        (
            BUSY_LINE.format(pid=14, parent=1, nice=0, command="python3 nightly-backup.py"),
            {"supervisorctl status": "", "tail -v -n +1 /etc/supervisor/conf.d/*.conf": ""},
        ),
        (
            BUSY_LINE.format(pid=14, parent=1, nice=0, command="python3 nightly-backup.py"),
            {"supervisorctl status": STATUS.replace("RUNNING   pid 7, uptime 0:01:10", "STOPPED")},
        ),
    ],
    ids=["niced", "of-a-person", "no-supervisor", "service-is-down"],
)
async def test_who_is_busy_for_another_reason_is_not_killed(
    busy: str, changed: dict[str, str]
) -> None:
    machine = Machine({**WELL, "ps -eo": PROCESSES + busy, "top": "", **changed})
    await converse(machine, brief())
    assert not [one for one in machine.commands if re.search(r"\bkill\b", one)]
