"""What changed around a time, on the terminal's machine and in all sources at once."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from hermes_agent.core.errors import HermesError, ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import ODD, Source, configured
from hermes_agent.tools.sources.machine_changes import machine_changes
from hermes_agent.tools.sources.registry import TYPES
from hermes_agent.tools.sources.results import Change, answer, timeline
from hermes_agent.tools.sources.times import Window, moment

log = logging.getLogger("hermes.tools")

SECONDS = 30.0
"""How long one source may take."""
Told = Change | str
"""A change, or what was not looked at."""
MACHINE = "machine"
"""What stands for the terminal's machine among the names of sources."""


@tool(capabilities=("network", "process"), repeatable=True, located=True, sources=tuple(TYPES))
async def what_changed(
    context: ToolContext,
    around: str = "now",
    minutes: Annotated[int, Meta(ge=1, le=1440)] = 30,
    sources: tuple[str, ...] = (),
) -> ToolResult:
    """What changed around a time, in order: on the terminal's machine (units, reboots, packages,
    files in /etc, logins, kernel) and in all sources (deploys, commits, events, alerts, new kinds
    of errors), or only in the named ones; `machine` is the machine. Needs no source."""
    at, now = moment(around, context.clock()), context.clock()
    span = Window(at - minutes * 60, min(at + minutes * 60, max(now, at)))
    enabled = any(one.enabled for one in context.settings.sources.values())
    known = {one.name: one for one in configured(context, tuple(TYPES))} if enabled else {}
    if unknown := set(sources) - {*known, MACHINE}:
        hint = f"sources: {', '.join([MACHINE, *known])}"
        raise ToolError(f"no source called {', '.join(sorted(unknown))}", hint, "changed")
    names = [name for name in (MACHINE, *known) if not sources or name in sources]
    answers = await asyncio.gather(
        *(_asked(_changes(context, known.get(name), span)) for name in names)
    )
    both = list(zip(names, answers, strict=True))
    found = [
        replace(one, what=f"{name}: {one.what}") for name, (changes, _) in both for one in changes
        if isinstance(one, Change)
    ]  # fmt: skip
    notes = [f"{name}: {one}" for name, (some, _) in both for one in some if isinstance(one, str)]
    notes += [f"{name} was not searched: {why}" for name, (_, why) in both if why]
    quiet = [name for name, (some, why) in both if not some and not why]
    notes += [f"nothing in: {', '.join(quiet)}"] if quiet else []
    text = timeline(found) if found else "nothing changed that these sources know of"
    return answer("what_changed", text, {"changes": len(found)}, notes)


async def _changes(context: ToolContext, source: Source | None, span: Window) -> list[Told]:
    if source is None:
        return [*await machine_changes(context, span)]
    found = await TYPES[source.settings.kind].load().changes(source, span)
    return [one for one in found if isinstance(one, str) or one.time in span]


async def _asked(changes: Awaitable[list[Told]]) -> tuple[list[Told], str]:
    """What a source found, or why it could not."""
    try:
        async with asyncio.timeout(SECONDS):
            return await changes, ""
    except HermesError as error:
        return [], error.message
    except TimeoutError:
        return [], f"it took longer than {SECONDS:.0f} s"
    except ODD:
        log.info("a source answers oddly", exc_info=True)
        return [], "its answer does not have the expected form"
