"""Tools that the agent writes itself: `tools/NAME.py` in the home. They are tested and run in a
sandbox, never in this process; their calls pass the gate like any other."""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.agent.authored_tools.signature import (
    ToolSignature,
    check_name,
    encoded,
    parse_signature,
)
from hermes_agent.agent.authored_tools.store import HAND, AuthoredToolStore, ToolSnapshot, digest_of
from hermes_agent.agent.authored_tools.validation import run_tests, tail, trouble_of
from hermes_agent.agent.tools.replay import run_again
from hermes_agent.agent.tools.resolver import NOT_FOR_PROGRAMS
from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.settings.root import Settings
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import (
    Call,
    CodeSandbox,
    RecoveryResult,
    SandboxLimits,
    SandboxResult,
    Tool,
    ToolContext,
    ToolListing,
    tool,
)

log = logging.getLogger("hermes.authored_tools")

DEEPEST = 4
"""How deep authored tools may call one another."""
NAMED = 40
"""How many the prompt names."""

_runs = count(1)
"""Numbers the runs of this process."""
_call_stack: ContextVar[tuple[str, ...]] = ContextVar("written tools at work", default=())


_TOOL_FAILED = re.compile(r"^(?:\w+\.)*ToolFailed\b", re.MULTILINE)
"""The exception of a failed call in a traceback."""


class _InvocationCalls:
    """Makes the calls of one run, and remembers whether one failed."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._failed = False
        self.made = 0

    async def __call__(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        self.made += 1
        try:
            result = await self._call(name, arguments)
        except ToolError:
            self._failed = True
            raise
        self._failed = self._failed or not result.ok
        return result

    def stopped(self, result: SandboxResult) -> bool:
        """Whether the run ended because one of its calls failed."""
        said = _TOOL_FAILED.search(result.trouble)
        return self._failed and not result.limit and said is not None


class AuthoredTools:
    """The tools of one home."""

    def __init__(
        self,
        folder: Path,
        workers: Callable[[], CodeSandbox],
        settings: Callable[[], Settings],
        taken: Callable[[], Collection[str]],
        clock: Callable[[], float],
        redact: Callable[[str], str],
    ) -> None:
        self.tool_store = AuthoredToolStore(folder, clock)
        self._workers = workers
        self._settings = settings
        self._taken = taken
        self._redact = redact
        self._shapes: dict[str, tuple[str, ToolSignature]] = {}
        """By name: the source's digest and signature."""
        self._refused: dict[str, tuple[str, ToolError]] = {}
        """By name: the source's digest and its error."""
        self._checking: dict[str, asyncio.Lock] = {}

    # finding

    def about(self) -> str:
        try:
            records = self.tool_store.records()
        except HermesError as error:  # sessions work without them; a call reports the error
            log.warning("cannot list the authored tools: %s", error)
            return ""
        names = [
            name
            for name in self.tool_store.names()
            if name not in self._taken() and (name not in records or not records[name].disabled)
        ]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return f"Tools you wrote: {', '.join(names[:NAMED])}{more}" if names else ""

    async def search(self, query: str) -> Sequence[ToolListing]:
        words = query.lower().split()
        found = []
        for name in self.tool_store.names():
            try:
                tool = await self.find(name)
            except ToolError:
                continue  # disabled or invalid: a call reports the error
            text = f"{name} {tool.description}".lower() if tool is not None else ""
            if tool is not None and all(word in text for word in words):
                found.append(ToolListing(name, tool.description.split("\n", 1)[0]))
        return found

    async def find(self, name: str) -> Tool | None:
        """Raises `ToolError` when it exists but cannot be used."""
        try:
            check_name(name, self._taken())
        except ToolError:
            return None
        seen = await asyncio.to_thread(self.tool_store.look, name)
        if seen is None:
            return None
        signature = self._usable(name, seen)
        return Tool(
            name=name,
            function=partial(self._use, name),
            description=signature.description,
            schema=signature.schema,
            origin="written",
            recover=run_again,
        )

    async def holds(self, name: str, digest: str) -> bool:
        seen = await asyncio.to_thread(self.tool_store.look, name)
        return seen is not None and seen.version > 0 and seen.digest == digest

    def _usable(self, name: str, seen: ToolSnapshot) -> ToolSignature:
        disabled = seen.record.disabled
        if disabled == "person":
            raise _disabled(name, "by a person")
        if disabled and seen.version:
            failed = seen.record.version.failed if seen.record.version else ""
            raise _disabled(name, f"because it failed: {tail(failed)}")
        digest, refused = self._refused.get(name, ("", None))
        if refused is not None and digest == seen.digest:
            raise refused
        digest, signature = self._shapes.get(name, ("", None))
        if signature is None or digest != seen.digest:
            signature = _as_by_hand(name, lambda: parse_signature(name, _text(seen.code)))
            self._shapes[name] = (seen.digest, signature)
        return signature

    # making

    async def make(self, name: str, code: str, call: Call | None, by: str = "") -> ToolResult:
        check_name(name, self._taken())
        data = encoded(code)
        digest = digest_of(data)
        seen = await asyncio.to_thread(self.tool_store.look, name)
        record = seen.record if seen is not None else self.tool_store.record(name)
        if record.disabled == "person":
            raise _disabled(name, "by a person")
        same = record.of(digest)
        if same is not None and same.failed:
            raise ToolError(
                f"this is version {same.number} of {name}, which was rolled back: {same.failed}",
                "make a better one",
                "changed",
            )
        if seen is not None and seen.version and seen.digest == digest:
            return ToolResult(
                f"{name} already has this code (version {seen.version})",
                {"name": name, "version": seen.version},
            )
        signature, seconds = await self.examine(name, code, call)
        why = f"after version {record.current}" if record.current else "new"
        version = await asyncio.to_thread(self.tool_store.keep, name, data, by or "agent", why)
        return ToolResult(
            f"{name} is ready, version {version.number}: {_tests(signature)} passed twice. "
            "Call it with use_tool.",
            {"name": name, "version": version.number, "seconds": seconds},
        )

    async def examine(
        self, name: str, code: str, call: Call | None = None
    ) -> tuple[ToolSignature, float]:
        """Check and test code without saving it; returns the seconds its tests took. Raises
        `ToolError`."""
        check_name(name, self._taken())
        encoded(code)
        self._refuse_secrets(code)
        signature = parse_signature(name, code)
        seconds = await run_tests(
            self._workers(), _key(name), signature, code,
            tools=_callable_names(self._taken(), call), call=call, limits=self._limits(),
        )  # fmt: skip
        return signature, seconds

    async def check(self, name: str, call: Call | None = None) -> ToolSnapshot:
        """The tool as it is on disk; one that was edited by hand is tested and becomes a version.
        Raises `ToolError`."""
        async with self._checking.setdefault(name, asyncio.Lock()):
            seen = await asyncio.to_thread(self.tool_store.look, name)
            if seen is None:
                raise ToolError(f"no authored tool called {name!r}", retry="changed")
            self._usable(name, seen)
            if seen.version:
                return seen
            try:
                await self.examine(name, _text(seen.code), call)
            except ToolError as error:
                error = _by_hand(name, error)
                self._refused[name] = (seen.digest, error)
                raise error from None
            await asyncio.to_thread(self.tool_store.keep, name, seen.code, HAND, "changed by hand")
            kept = await asyncio.to_thread(self.tool_store.look, name)
            assert kept is not None
            return kept

    def _refuse_secrets(self, code: str) -> None:
        if self._redact(code) == code:
            return
        lines = [
            str(number)
            for number, line in enumerate(code.split("\n"), 1)
            if self._redact(line) != line
        ]
        raise ToolError(
            f"line {', '.join(lines[:5]) or '?'}: it contains a secret, or what looks like one",
            "take it as an argument, or call a tool that may use it",
            "changed",
        )

    # using

    async def _use(self, name: str, context: ToolContext, given: dict[str, Any]) -> ToolResult:
        around = _call_stack.get()
        if name in around or len(around) >= DEEPEST:
            raise ToolError(
                f"{' calls '.join((*around, name))}: a cycle, or nested too deeply",
                retry="changed",
            )
        seen = await self.check(name, context.call)
        signature = self._usable(name, seen)
        arguments = _checked_arguments(signature, given)
        calls = _InvocationCalls(context.call) if context.call is not None else None
        mark = _call_stack.set((*around, name))
        try:
            result = await self._workers().run(
                _key(name),
                _text(seen.code),
                function=name,
                arguments=arguments,
                tools=_callable_names(context.services.tools, context.call),
                call=calls,
                limits=self._limits(),
                output=context.output,
            )
        finally:
            _call_stack.reset(mark)
        return await self._result(name, seen, signature, result, calls)

    async def _result(
        self,
        name: str,
        seen: ToolSnapshot,
        signature: ToolSignature,
        result: SandboxResult,
        calls: _InvocationCalls | None,
    ) -> ToolResult:
        trouble = trouble_of(result, signature.returned)
        # A call that was refused or failed is not the tool's fault.
        blamed = None if calls is not None and calls.stopped(result) else trouble
        most = self._settings().tools.crashes
        after = await asyncio.to_thread(self.tool_store.count, name, seen.digest, blamed, most)
        facts = {
            "name": name, "version": seen.version, "seconds": result.seconds,
            "calls": calls.made if calls else 0, "limit": result.limit,
        }  # fmt: skip
        if not trouble:
            return ToolResult(_shown(result), facts)
        printed = f"\n[printed]\n{tail(result.output)}" if result.output.strip() else ""
        said = f"{name} (version {seen.version}) failed: {trouble}{printed}"
        hint = "find_tools shows its arguments; make_tool replaces it"
        raise ToolError(f"{said}\n{after}" if after else said, hint, "changed")

    def _limits(self) -> SandboxLimits:
        code = self._settings().code
        return SandboxLimits(code.seconds, code.memory_mb, code.processes, calls=code.calls)


def _key(name: str) -> str:
    return f"{name}-{os.getpid()}-{next(_runs)}"


def _text(code: bytes) -> str:
    try:
        return code.decode()
    except UnicodeDecodeError as error:
        line = code.count(b"\n", 0, error.start) + 1
        raise ToolError(f"line {line}: it is not UTF-8", retry="never") from None


def _tests(signature: ToolSignature) -> str:
    return "its test" if len(signature.tests) == 1 else f"its {len(signature.tests)} tests"


def _disabled(name: str, why: str) -> ToolError:
    return ToolError(
        f"{name} is disabled {why}",
        f"a person can enable it: `hermes tools enable {name}`",
        "never",
    )


def _by_hand(name: str, error: ToolError) -> ToolError:
    return ToolError(
        f"{name}.py was changed by hand and is not used: {error.message}",
        f"fix it, or `hermes tools rollback {name}`",
        "never",
    )


def _as_by_hand(name: str, check: Callable[[], ToolSignature]) -> ToolSignature:
    try:
        return check()
    except ToolError as error:
        raise _by_hand(name, error) from None


async def _prepare(_context: ToolContext, name: str, code: str) -> dict[str, Any]:
    return {"name": name, "digest": sha256(code.encode("utf-8", "replace")).hexdigest()}


async def _recover(
    context: ToolContext, note: dict[str, Any], name: str, **_code: str
) -> RecoveryResult:
    written = context.services.authoring
    if written is not None and await written.holds(name, note["digest"]):
        return ToolResult(f"{name} was created before the restart", {"name": name})
    return "not-run"


def _undo(_note: dict[str, Any], arguments: Any, result: ToolResult) -> str:
    name = arguments["name"]
    first = result.data.get("version") == 1
    return f"hermes tools {'disable' if first else 'rollback'} {name}"


@tool(capabilities=("process",), prepare=_prepare, recover=_recover, inverse=_undo)
async def make_tool(context: ToolContext, name: str, code: str) -> ToolResult:
    """Write yourself a tool, or a new version: a Python file with a docstring, one public function
    `name` (plain typed arguments and result, docstring), helpers `_…`, and `test_…()` with asserts
    on cases without effects. It runs in a sandbox without network and files; it calls your tools
    as `hermes.TOOL(…)` after `import hermes`. Then call it with use_tool."""
    written = context.services.authoring
    if written is None:
        raise ToolError("tools cannot be written here", retry="never")
    return await written.make(name, code, context.call, context.session)


def _callable_names(names: Collection[str], call: Call | None) -> list[str]:
    return [name for name in names if name not in NOT_FOR_PROGRAMS] if call is not None else []


def _checked_arguments(signature: ToolSignature, given: dict[str, Any]) -> dict[str, Any]:
    try:
        checked = msgspec.convert(given, signature.arguments, strict=False)
    except msgspec.ValidationError as error:
        wanted = msgspec.json.encode(signature.schema["properties"]).decode()
        raise ToolError(
            f"bad arguments for {signature.name}: {error}; it takes {wanted}", retry="changed"
        ) from None
    built: dict[str, Any] = msgspec.to_builtins(checked)
    return built


def _shown(result: SandboxResult) -> str:
    """What it printed, then what it returned."""
    value = result.value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if not result.output.strip():
        return text
    return result.output.rstrip() + ("" if value is None else f"\n[returned]\n{text}")
