"""Delegates tasks to subagents: child sessions that work in parallel for a turn."""

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hermes_agent.agent.tools.replay import run_again
from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.messages import Usage, read_json
from hermes_agent.core.tool_results import ToolResult, failure
from hermes_agent.core.tools import (
    DELEGATE,
    BudgetShare,
    SubagentResult,
    SubagentRunner,
    SubagentTask,
    ToolContext,
    tool,
)

NEVER = frozenset({"make_tool", "ask_user", "memory", "write_skill", "incident"})
"""Subagents cannot change what outlasts their task, nor reach people."""
NAME_CHARS = 40
SCHEMA_BYTES = 20_000
ANSWER_BYTES = 200_000
"""The longest answer that is checked."""
TROUBLE_CHARS = 500
"""How much of a validation error is shown."""
CHECK_STEPS = 2_000_000
"""Calls and returns that one check may make: some schemas never terminate."""
BAD_SCHEMA = (
    ValueError, TypeError, AttributeError, LookupError, RecursionError, SyntaxError, re.error,
    ArithmeticError, MemoryError, OSError,
)  # fmt: skip
"""What fastjsonschema raises for a bad schema, when compiling and when validating."""
REMOTE_SCHEMES = ("http", "https", "ftp", "file", "data")
"""Addresses that fastjsonschema would fetch itself, bypassing the gate."""


class Task(Struct):
    task: Annotated[str, Meta(min_length=1)]
    """What to do, with all that the child must know."""
    tools: tuple[str, ...] = ()
    """Tools it has; empty: yours."""
    schema: dict[str, Any] | None = None
    """JSON Schema of its result."""
    cheap: bool = False
    """Routine work."""


@tool(recover=run_again)
async def delegate(
    context: ToolContext, tasks: Annotated[tuple[Task, ...], Meta(min_length=1)]
) -> ToolResult:
    """Hand tasks to children that work in parallel, each with its own context and shell, and get
    their answers. They know nothing but their task. `schema`: the answer as JSON that fits it."""
    children = context.services.subagents
    limits = context.settings.delegation
    if children is None or context.services.depth >= limits.depth:
        raise ToolError(f"subagents cannot be nested deeper than {limits.depth}", "do it yourself")
    if len(tasks) > limits.tasks:
        raise ToolError(
            f"{len(tasks)} tasks are too many; at most {limits.tasks} at once",
            "delegate them in several calls",
            "changed",
        )
    offered = [_tools(context, task) for task in tasks]
    checks = [_check(task.schema) for task in tasks]
    async with _split(context, len(tasks)) as share:
        work = [
            _Child(context, children, at, task, tools, share, check).work()
            for at, (task, tools, check) in enumerate(zip(tasks, offered, checks, strict=True), 1)
        ]
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one) for one in work]
    return _together([task.result() for task in running])


def _split(context: ToolContext, count: int) -> Any:
    if context.services.split is None:
        raise ToolError("no budget is left to delegate from")
    return context.services.split(count)


def _tools(context: ToolContext, task: Task) -> tuple[str, ...]:
    """The parent's tools that a child may have, or those that the task names."""
    mine = [name for name in context.services.tools if name not in NEVER]
    if context.services.depth + 1 >= context.settings.delegation.depth:
        mine = [name for name in mine if name != DELEGATE]
    unknown = [name for name in task.tools if name not in mine]
    if unknown:
        raise ToolError(
            f"a subagent cannot have the tool {unknown[0]!r}", f"it can have: {', '.join(mine)}"
        )
    return tuple(name for name in mine if not task.tools or name in task.tools)


def _refuse_remote(address: str) -> Any:
    raise ValueError(f"it refers to {address}, which is outside it")


def _refuse_dangerous(schema: Mapping[str, Any], size: int) -> None:
    if size > SCHEMA_BYTES:
        raise ToolError(
            f"the schema has {size} bytes; {SCHEMA_BYTES} at most",
            "ask for less, or describe it in words",
            "changed",
        )
    for key, value in _entries(schema):
        # For a property with such a name, the value is no string.
        if (key == "pattern" and isinstance(value, str)) or key == "patternProperties":
            raise ToolError(
                f"the schema has a {key!r}; regular expressions are not supported",
                "say it in words, in a `description`",
                "changed",
            )
        if key == "$ref" and isinstance(value, str) and not value.startswith("#"):
            raise ToolError(
                f"the schema refers to {value!r}, which is outside it",
                "put it under `$defs` and refer to `#/$defs/…`",
                "changed",
            )


def _entries(schema: object) -> Iterator[tuple[str, object]]:
    """All keys and values at any depth."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from part.items()
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


class _StepLimit:
    """Stops a check that takes too many steps; for `sys.setprofile`."""

    def __init__(self) -> None:
        self._left = CHECK_STEPS

    def __call__(self, _frame: FrameType, _event: str, _argument: object) -> None:
        self._left -= 1
        if self._left < 0:
            raise ValueError("checking it takes too long")


class _Check:
    """Validates answers against a schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        import fastjsonschema

        try:
            text = msgspec.json.encode(schema)
            _refuse_dangerous(schema, len(text))
            self._text = text.decode()
            self._validate = fastjsonschema.compile(
                dict(schema),
                handlers=dict.fromkeys(REMOTE_SCHEMES, _refuse_remote),
                use_formats=False,  # they are regular expressions: some take hours
            )
        except BAD_SCHEMA as error:
            raise ToolError(f"not a valid JSON Schema: {error}", retry="changed") from None
        self._trouble = fastjsonschema.JsonSchemaValueException

    @property
    def instruction(self) -> str:
        return f"\n\nAnswer only with JSON that matches this schema:\n{self._text}"

    async def value(self, text: str) -> Any:
        """The JSON of an answer; raises `ValueError` when it does not match."""
        size = len(text.encode("utf-8", "replace"))
        if size > ANSWER_BYTES:
            raise ValueError(f"it has {size} bytes; {ANSWER_BYTES} at most")
        return await asyncio.to_thread(self._checked, text)

    def _checked(self, text: str) -> Any:
        """Runs in a thread, so that it does not block the loop."""
        sys.setprofile(_StepLimit())
        try:
            value = read_json(_bare(text))
            self._validate(value)
        except self._trouble as error:
            raise ValueError(error.message[:TROUBLE_CHARS]) from None
        except RecursionError:
            raise ValueError("it is nested too deeply, or the schema never ends") from None
        except BAD_SCHEMA as error:
            raise ValueError(str(error)) from None
        finally:
            sys.setprofile(None)
        return value


def _check(schema: Mapping[str, Any] | None) -> _Check | None:
    return None if schema is None else _Check(schema)


def _bare(text: str) -> str:
    """Strip a Markdown fence around the JSON."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    return text.strip()


class _Outcome(Struct, frozen=True):
    name: str
    end: SubagentResult
    value: Any = None
    trouble: str = ""


class _Child:
    """Runs one task to a validated result."""

    def __init__(
        self,
        context: ToolContext,
        children: SubagentRunner,
        at: int,
        task: Task,
        tools: Sequence[str],
        share: BudgetShare,
        check: _Check | None,
    ) -> None:
        self._context = context
        self._children = children
        self._key = f"{context.effect}/{at}"
        self._name = f"child {at}"
        self._task = task
        self._tools = tuple(tools)
        self._share = share
        self._check = check
        self._session = ""

    async def work(self) -> _Outcome:
        try:
            return await self._work()
        except HermesError as error:
            return _Outcome(self._name, SubagentResult(self._session, "failed", "", error.message))

    async def _work(self) -> _Outcome:
        services = self._context.services
        text = self._task.task + (self._check.instruction if self._check else "")
        self._session = session = await self._children.begin(
            self._context.session,
            SubagentTask(
                key=self._key,
                task=text,
                tools=self._tools,
                cheap=self._task.cheap,
                tokens=self._share.tokens,
                dollars=self._share.dollars,
                steps=self._context.settings.delegation.steps,
                interactive=services.interactive,
                bounds=services.bounds,
            ),
        )
        self._tell(f"{session}: {self._task.task.strip().splitlines()[0][:NAME_CHARS]}")
        end = await self._children.end(session, self._key, self._tell)
        if self._check is None or end.reason != "done":
            return _Outcome(self._name, end)
        try:
            return _Outcome(self._name, end, await self._check.value(end.text))
        except ValueError as error:
            trouble = str(error)
        return await self._corrected(session, trouble)

    async def _corrected(self, session: str, trouble: str) -> _Outcome:
        """Ask once more for an answer that matches."""
        assert self._check is not None
        key = f"{self._key}/again"
        text = f"Your answer does not match the schema: {trouble}{self._check.instruction}"
        await self._children.more(session, key, text, self._context.services.interactive)
        end = await self._children.end(session, key, self._tell)
        if end.reason != "done":
            return _Outcome(self._name, end)
        try:
            return _Outcome(self._name, end, await self._check.value(end.text))
        except ValueError as error:
            return _Outcome(self._name, end, trouble=f"its answer does not match: {error}")

    def _tell(self, text: str) -> None:
        self._context.output(f"[{self._name}] {text}\n")


def _together(outcomes: Sequence[_Outcome]) -> ToolResult:
    parts, rows = [], []
    usage, cost = Usage(), 0.0
    priced = True
    for one in outcomes:
        ok = one.end.reason == "done" and not one.trouble
        wrong = one.trouble or one.end.error or f"it ended early: {one.end.reason}"
        head = f"{one.name} ({one.end.session})" + ("" if ok else f": FAILED: {wrong}")
        parts.append(f"## {head}\n{one.end.text}".strip())
        rows.append(
            {
                "session": one.end.session,
                "ok": ok,
                "reason": one.end.reason,
                "value": one.value,
                "trouble": "" if ok else wrong,
            }
        )
        usage += one.end.usage
        priced = priced and one.end.cost is not None
        cost += one.end.cost or 0.0
    text = "\n\n".join(parts)
    done = sum(bool(row["ok"]) for row in rows)
    result = ToolResult(text, {"children": rows}, usage=usage, cost=cost if priced else None)
    if done:
        return result
    bad = failure(f"none of the subagents succeeded\n\n{text}")
    return msgspec.structs.replace(
        bad, data={**bad.data, **result.data}, usage=usage, cost=result.cost
    )
