"""Tests an authored tool in a sandbox: its imports, its types, and its own tests, twice."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from hermes_agent.agent.authored_tools.signature import ToolSignature
from hermes_agent.core.errors import ToolError
from hermes_agent.core.tools import Call, CodeSandbox, SandboxLimits, SandboxResult

PROGRAM = Path(__file__).with_name("harness.py")
"""Appended to the tool's source, which so keeps its line numbers."""
SECONDS = 60.0
"""The time limit for one run of the tests."""
TAIL_CHARS = 2_000
"""How much of a traceback or of the output is shown."""


class ValidationProblem(Struct, frozen=True):
    what: str
    text: str
    line: int = 0


async def run_tests(
    workers: CodeSandbox,
    key: str,
    signature: ToolSignature,
    code: str,
    *,
    tools: Sequence[str],
    call: Call | None,
    limits: SandboxLimits,
) -> float:
    """Run the tests; returns the seconds they took. Raises `ToolError`."""
    source = code + "\n\n" + PROGRAM.read_text(encoding="utf-8")
    limits = replace(limits, seconds=min(limits.seconds, SECONDS))
    given = {
        "name": signature.name,
        "tests": list(signature.tests),
        "imports": list(signature.imports),
    }
    runs: list[SandboxResult] = []
    for number in (1, 2):
        result = await workers.run(
            f"{key}-{number}", source, function="_hermes_trial", arguments=given,
            tools=tools, call=call, limits=limits,
        )  # fmt: skip
        runs.append(result)
        if said := _said(result, code):
            printed = tail(result.output)
            said += f"\n[printed]\n{printed}" if printed else ""
            if number == 2:
                said = f"the tests passed at first and failed when they ran again: {said}"
            raise ToolError(said, "fix the code and make the tool again", "changed")
    return max(result.seconds for result in runs)


def _said(result: SandboxResult, code: str) -> str:
    """The problems as text; empty when there are none."""
    if trouble := trouble_of(result):
        return f"it failed in the sandbox: {trouble}"
    try:
        problems = convert(result.value, list[ValidationProblem])
    except ValidationError:
        return "its trial produced no report"
    return "\n".join(_line(trouble, code.split("\n")) for trouble in problems)


def _line(trouble: ValidationProblem, lines: Sequence[str]) -> str:
    if not 0 < trouble.line <= len(lines):
        return f"{trouble.what}: {trouble.text}"
    said = f"line {trouble.line}: {trouble.what}: {trouble.text}"
    shown = lines[trouble.line - 1].strip()
    return f"{said}\n    {shown[:200]}" if shown else said


def tail(text: str) -> str:
    text = text.strip()
    return text if len(text) <= TAIL_CHARS else "…" + text[-TAIL_CHARS:]


def trouble_of(result: SandboxResult, returned: Any = Any) -> str:
    """Why a run failed, hit a limit or returned the wrong type; empty when it succeeded."""
    if not result.ok or result.limit:
        return tail(result.trouble) or f"it hit a limit: {result.limit}"
    try:
        convert(result.value, returned)
    except ValidationError as error:
        return f"it returned something other than what it declares: {error}"
    return ""
