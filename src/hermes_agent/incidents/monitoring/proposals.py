"""Proposes checks: from what runs on a machine, or from plain words. Each is tried through the gate
before a person is asked; nothing is written here."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.incidents import INCIDENTS, WatchedCheck
from hermes_agent.core.skills import Check, Expectation
from hermes_agent.core.text.format import slug
from hermes_agent.incidents.monitoring.discovery import PROBES, discovered
from hermes_agent.incidents.monitoring.runner import CheckRunner
from hermes_agent.incidents.monitoring.scheduler import CheckOutcome
from hermes_agent.incidents.monitoring.wording import (
    CommandChoice,
    ProposalState,
    ProposedCheck,
    reading,
)

AT_ONCE = 4
"""Commands that are tried at once."""
ANSWER_TOKENS = 2_000
READING, ASKING = "observe", "careful"
"""The profile that allows reading only, and the one whose questions name what else there is."""
KEPT_BACK = "hermes: "
"""What a terminal prints in place of a program that it did not run begins with this."""
BY_HAND = "give the command: `hermes watch add NAME --run COMMAND`"


Ask = Callable[[str], Awaitable[ProposedCheck]]
"""Asks the configured model for a command; `UsageError` where there is none."""


class CheckProposals:
    def __init__(self, checks: CheckRunner, ask: Ask) -> None:
        self._checks = checks
        self._ask = ask

    # from what runs

    async def discover(
        self, known: Sequence[WatchedCheck], terminal: str
    ) -> tuple[list[ProposedCheck], list[str]]:
        """Checks for what runs, without those that are there, and what could not be read."""
        outcomes = await self._all([
            self._output(command, terminal) for command in PROBES.values()
        ])  # fmt: skip
        seen = dict(zip(PROBES, outcomes, strict=True))
        skipped = [f"{name}: {why}" for name, one in seen.items() if (why := _not_run(one))]
        found = await discovered(
            {name: one.output for name, one in seen.items()},
            lambda command: self._output(command, terminal),
        )
        there = {(one.check.run, one.terminal) for one in known}
        names = {one.name for one in known}
        new = [
            replace(one, terminal=terminal)
            for one in found
            if one.name not in names and (one.run, terminal) not in there
        ]
        return await self._all([self._tried(one) for one in new]), skipped

    async def _output(self, command: str, terminal: str) -> CheckOutcome:
        expect = Expectation(exit=None)
        check = WatchedCheck("discovery", Check(command, expect), terminal=terminal)
        return await self._checks.run(check)

    async def _all(self, work: Sequence[Awaitable[Any]]) -> list[Any]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(job: Awaitable[Any]) -> Any:
            async with slots:
                return await job

        return list(await asyncio.gather(*map(one, work)))

    async def _tried(self, proposed: ProposedCheck) -> ProposedCheck:
        outcome = await self._checks.run(proposed.watched)
        state: ProposalState = "refused" if outcome.refused else "passes" if outcome.ok else "fails"
        return replace(proposed, state=state, detail=outcome.detail)

    # from words

    async def read(self, words: str, terminal: str, name: str = "") -> ProposedCheck:
        """The check that words describe. A command that would do more than read is refused."""
        found = reading(words)
        if found is None:
            proposed = await self._ask(words)
        else:
            run = await self._fitting(found.choices, terminal)
            proposed = replace(found.proposed, run=run) if run else found.proposed
        proposed = replace(proposed, terminal=terminal, name=name or proposed.name)
        verdict = await self._checks.judge(proposed.watched, READING)
        if verdict.action != "allow":
            asked = await self._checks.judge(proposed.watched, ASKING)
            rule = reach_rule(asked.proposal, proposed.name) if asked.action == "ask" else ""
            if not rule and asked.action != "allow":
                what = f"`{proposed.run}` would do more than read: {asked.reason}"
                raise UsageError(what, BY_HAND)
            if rule and (await self._checks.judge(proposed.watched, "")).action != "allow":
                return replace(proposed, rule=rule)
        return await self._tried(proposed)

    async def _fitting(self, choices: Sequence[CommandChoice], terminal: str) -> str:
        for choice in choices:
            if (await self._output(choice.needs, terminal)).code == 0:
                return choice.run
        return ""


def _not_run(outcome: CheckOutcome) -> str:
    """Why a command was kept from running, as a whole or where it only may read."""
    if outcome.refused:
        return outcome.detail
    said = [line for line in outcome.output.splitlines() if line.startswith(KEPT_BACK)]
    return said[0].removeprefix(KEPT_BACK).partition(";")[0] if said else ""


def reach_rule(proposal: str, name: str) -> str:
    """The proposed rules, limited to a check and to incidents that it raises; empty if they allow
    more than reaching a host."""
    rules: list[Mapping[str, Any]] = yaml.safe_load(proposal) if proposal else []
    if not rules or any(one["match"].get("kind") != "host" for one in rules):
        return ""
    actor = [f"job/{name}", f"job/{INCIDENTS}"]
    limited = [
        {
            "id": f"check-{name}" + (f"-{number}" if number else ""),
            "match": {**one["match"], "actor": actor},
            "then": "allow",
            "reason": f"the check {name} reaches it",
        }
        for number, one in enumerate(rules)
    ]
    return str(yaml.safe_dump(limited, sort_keys=False, allow_unicode=True))


class _Answer(Struct):
    """The JSON that a model answers with."""

    run: str
    name: str = ""
    output: str = ""
    no_output: str = ""
    every: int = 0


PROMPT = """\
You write health checks. A check is one line for bash on a Linux machine that only reads, takes \
less than ten seconds, and exits with 0 exactly while the statement of the user holds; it prints \
what a person needs to see when it does not. It changes nothing, installs nothing, asks nothing. \
Answer with one JSON object and nothing else: {"name": "a-short-name", "run": "the command", \
"output": "", "no_output": "", "every": 0}. `output` and `no_output` are regular expressions that \
the output must or must not match; leave them empty where the exit code says it. `every`: the \
seconds between two checks, where the statement says it."""


def answered(words: str, text: str, model: str) -> ProposedCheck:
    """The check in a model's answer."""
    from hermes_agent.learning.structured_output import shaped

    try:
        given = shaped(text, _Answer)
    except ValueError as error:
        raise UsageError(f"{model} proposed no command: {error}", BY_HAND) from None
    run = given.run.strip()
    if not run or "\n" in run:
        raise UsageError(f"{model} proposed no command of one line", BY_HAND)
    name = slug(given.name) or slug(words) or "check"
    return ProposedCheck(
        name, run, words, service=name, every=max(given.every, 0),
        output=given.output, no_output=given.no_output, by=model,
    )  # fmt: skip


def no_model(words: str, error: HermesError) -> UsageError:
    return UsageError(
        f"no pattern fits {words!r}, and no model can propose a command: {error.message}",
        f"{BY_HAND}; or {error.hint}" if error.hint else BY_HAND,
    )
