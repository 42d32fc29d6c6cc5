"""The outside yardstick: cases that others published, with faults of our own that are like theirs,
and the calls of somebody who does not know the answer, decided before they were tried."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tools import Tool
from tests.support.sources import Observer

AT_MOST = 3
Call = tuple[Tool, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    name: str
    """Its public name."""
    fault: str
    calls: tuple[Call, ...]
    facts: tuple[str, ...]
    """Expressions; all are in what the calls say."""
    needs: int
    """So many of the calls; 0: they do not reach it."""
    why_not: str = ""
    account: str = ""
    """Who asks, if not an account that may read everything."""

    def at(self, **ports: int) -> "Case":
        """With the ports of servers that were started for it."""
        calls = tuple(
            (tool, {key: value.format(**ports) for key, value in given.items()})
            for tool, given in self.calls
        )
        return replace(self, calls=calls)

    @property
    def row(self) -> str:
        calls = str(self.needs) if self.needs else f"not reached: {self.why_not}"
        return f"| `{self.name}` | {self.fault} | {calls} |"


async def calls_needed(case: Case, observer: Observer) -> tuple[int, list[str], str]:
    """How many of the calls say all facts (0: all of them do not); what is missing; what was said.
    A refusal is an answer too."""
    assert len(case.calls) <= AT_MOST, case.name
    said, missing = "", list(case.facts)
    for number, (tool, given) in enumerate(case.calls, 1):
        try:
            said += (await observer.call(tool, **given)).text + "\n"
        except ToolError as error:
            said += f"{error}\n{error.hint}\n"
        missing = [fact for fact in case.facts if not re.search(fact, said)]
        if not missing:
            return number, [], said
    return 0, missing, said


def table(cases: Sequence[Case]) -> str:
    head = "| Case | Our fault | Calls |\n|---|---|---|"
    return "\n".join([head, *(case.row for case in cases)])
