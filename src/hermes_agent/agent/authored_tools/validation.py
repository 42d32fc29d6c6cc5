"""The trial of a written tool: in a sandbox its modules are looked for, its types are worked out,
and its own tests run, twice."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from hermes_agent.agent.authored_tools.signature import ToolSignature
from hermes_agent.core.errors import ToolError
from hermes_agent.core.tools import Call, CodeSandbox, SandboxLimits, SandboxResult

PROGRAM = Path(__file__).with_name("harness.py")
"""What runs inside, after the tool's own lines, which so keep their numbers."""
SECONDS = 60.0
"""The longest that one run of the tests may take."""
TAIL_CHARS = 2_000
"""The most of a traceback or of what was printed that is told."""


class ValidationProblem(Struct, frozen=True):
    """Something that is wrong, as the program tells it."""

    what: str
    text: str
    line: int = 0


async def try_out(
    workers: CodeSandbox,
    key: str,
    shape: ToolSignature,
    code: str,
    *,
    tools: Sequence[str],
    call: Call | None,
    limits: SandboxLimits,
) -> float:
    """The seconds that the tests took. Raises `ToolError` with what is wrong."""
    source = code + "\n\n" + PROGRAM.read_text(encoding="utf-8")
    limits = replace(limits, seconds=min(limits.seconds, SECONDS))
    given = {"name": shape.name, "tests": list(shape.tests), "imports": list(shape.imports)}
    runs: list[SandboxResult] = []
    for number in (1, 2):
        worked = await workers.run(
            f"{key}-{number}", source, function="_hermes_trial", arguments=given,
            tools=tools, call=call, limits=limits,
        )  # fmt: skip
        runs.append(worked)
        if said := _said(worked, code):
            printed = tail(worked.output)
            said += f"\n[printed]\n{printed}" if printed else ""
            if number == 2:
                said = f"the tests passed at first and failed when they ran again: {said}"
            raise ToolError(said, "fix the code and make the tool again", "changed")
    return max(worked.seconds for worked in runs)


def _said(worked: SandboxResult, code: str) -> str:
    """What is wrong; nothing when all is well."""
    if trouble := trouble_of(worked):
        return f"it failed in the sandbox: {trouble}"
    try:
        troubles = convert(worked.value, list[ValidationProblem])
    except ValidationError:
        return "its trial produced no report"
    return "\n".join(_line(trouble, code.split("\n")) for trouble in troubles)


def _line(trouble: ValidationProblem, lines: Sequence[str]) -> str:
    if not 0 < trouble.line <= len(lines):
        return f"{trouble.what}: {trouble.text}"
    said = f"line {trouble.line}: {trouble.what}: {trouble.text}"
    shown = lines[trouble.line - 1].strip()
    return f"{said}\n    {shown[:200]}" if shown else said


def tail(text: str) -> str:
    text = text.strip()
    return text if len(text) <= TAIL_CHARS else "…" + text[-TAIL_CHARS:]


def trouble_of(worked: SandboxResult, returned: Any = Any) -> str:
    """Why a run did not go well, or gave something else than the type it promised; nothing when
    all is well. What printed without end has not gone well, even if it came to one."""
    if not worked.ok or worked.limit:
        return tail(worked.trouble) or f"it ran into a limit: {worked.limit}"
    try:
        convert(worked.value, returned)
    except ValidationError as error:
        return f"it returned something else than it declares: {error}"
    return ""
