"""Which skills fit, and in which order they come."""

from collections.abc import Mapping

from hermes_agent.core.command_results import CommandOutcome
from hermes_agent.core.incidents import Incident, MonitoredService
from hermes_agent.core.skills import Check, Expectation, Runbook, RunStep
from hermes_agent.incidents.backend import SkillOption
from hermes_agent.incidents.response.candidates import (
    apart,
    dependency_chain,
    is_about,
    together,
    try_skills,
)
from hermes_agent.incidents.response.facts import ServiceFacts
from tests.support.local_commands import local_runner

STEP = (RunStep("mend"),)
CHAIN = {"shop": 0, "store": 1}


def known(name: str, state: str = "given", record: int = 0) -> SkillOption:
    return SkillOption(name, state, "", incident=name, shipped=state == "given", record=record)  # type: ignore[arg-type]


def book(*when: str, verify: str = "") -> Runbook:
    checks = tuple(Check(run) for run in when)
    return Runbook(STEP, checks, (Check(verify),) if verify else ())


class Machine:
    """Commands that hold; all others end with 1."""

    def __init__(self, *holding: str) -> None:
        self.holding = holding
        self.ran: list[str] = []

    async def run(self, command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        if command.startswith("{ cat <&10"):
            return CommandOutcome(None, "refused")  # each is run by itself then
        self.ran.append(command)
        return CommandOutcome(0 if command in self.holding else 1, "")


async def tried(machine: Machine, books: Mapping[str, Runbook], *skills: SkillOption) -> list[str]:
    """As `skill/service`, with `+` where it fits and `~` where a part of its signs is there."""

    async def open(name: str, service: str, _: Mapping[str, str]) -> Runbook | None:
        return books.get(f"{name}/{service}", books.get(name))

    found = await try_skills(skills, CHAIN, {}, open, machine.run)
    mark = {(True, False): "+", (False, True): "~", (False, False): "-"}
    return [f"{mark[one.fits, one.near]}{one.skill.name}/{one.service}" for one in found]


async def test_what_fits_comes_first_and_deeper_services_before_those_above() -> None:
    books = {"a/shop": book("x"), "a/store": book("y"), "b/shop": book("x", "z"), "b/store": book()}
    found = await tried(Machine("x", "y"), books, known("a"), known("b"))
    assert found == ["+a/store", "+a/shop", "~b/shop"]


async def test_what_asks_for_more_is_more_specific() -> None:
    books = {"a": book("x"), "b": book("x", "y")}
    found = await tried(Machine("x", "y"), books, known("a"), known("b"))
    assert found == ["+b/shop", "+a/shop"]


async def test_what_was_proven_here_comes_before_what_ships_and_then_the_record_counts() -> None:
    books = {"a": book("x"), "b": book("x"), "c": book("x", "x")}
    skills = known("a", record=1), known("b", record=3), known("c", "proven")
    assert await tried(Machine("x"), books, *skills) == ["+c/shop", "+b/shop", "+a/shop"]


async def test_a_skill_that_is_the_same_for_all_services_is_tried_once() -> None:
    machine = Machine("df")
    assert await tried(machine, {"a": book("df")}, known("a")) == ["+a/shop"]
    assert machine.ran == ["df"]


async def test_a_command_is_run_once_for_all_skills() -> None:
    machine = Machine("df")
    await tried(machine, {"a": book("df", "x"), "b": book("df", "y")}, known("a"), known("b"))
    assert sorted(machine.ran) == ["df", "x", "y"]


async def test_what_is_done_already_does_not_fit() -> None:
    books = {"a": book("x", verify="up"), "b": book("x", verify="down")}
    found = await tried(Machine("x", "up"), books, known("a"), known("b"))
    assert found == ["+b/shop", "~a/shop"]


async def test_a_check_that_cannot_be_run_does_not_hold() -> None:
    async def run(command: str, timeout: float | None) -> CommandOutcome:  # noqa: ASYNC109
        return CommandOutcome(None, "refused by policy")

    async def open(name: str, service: str, values: Mapping[str, str]) -> Runbook | None:
        return Runbook(STEP, (Check("x", Expectation(None)),))

    (one,) = await try_skills([known("a")], {"shop": 0}, {}, open, run)
    assert not one.fits
    assert "refused by policy" in one.failed


def test_the_chain_is_what_topology_and_configuration_say() -> None:
    facts = {"store": ServiceFacts("store", needs=("database",))}
    topology = [MonitoredService("shop", ("store",)), MonitoredService("other", ("shop",))]
    assert dependency_chain(["shop"], topology, facts) == {"shop": 0, "store": 1, "database": 2}


async def test_commands_run_side_by_side_in_one_shell_each_with_its_own_end() -> None:
    asked = [("echo one; exit 3", 9.0), ("printf 'two\\n\\n'", 9.0), ("sleep 9", 0.2), ("cat", 9.0)]
    seen = await local_runner()(together(asked), None)
    assert apart(seen.output) == {
        0: CommandOutcome(3, "one\n"),
        1: CommandOutcome(0, "two\n\n"),
        2: CommandOutcome(None, ""),
        3: CommandOutcome(0, ""),
    }  # fmt: skip


def test_what_is_busy_is_ended_only_where_the_alert_is_about_that() -> None:
    down = Incident("inc-1", "web does not answer", "P1", "declared", "check", "web")
    busy = Incident("inc-2", "host-3: CPU at 100 %", "P1", "declared", "check", "web")
    assert not is_about(down, "runaway-process")
    assert is_about(busy, "runaway-process")
    assert is_about(down, "disk-full")
