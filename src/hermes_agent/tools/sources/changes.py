"""What changed around a time, asked of all sources at once."""

import asyncio
import logging
from typing import Annotated

from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.sources.connection import Source, configured
from hermes_agent.tools.sources.registry import TYPES
from hermes_agent.tools.sources.results import Change, answer, timeline
from hermes_agent.tools.sources.times import Window, moment

log = logging.getLogger("hermes.tools")

SECONDS = 30.0
"""How long one source may take."""


@tool(capabilities=("network",), repeatable=True, sources=tuple(TYPES))
async def what_changed(
    context: ToolContext,
    around: str = "now",
    minutes: Annotated[int, Meta(ge=1, le=1440)] = 30,
    sources: tuple[str, ...] = (),
) -> ToolResult:
    """What changed around a time, in all sources or the named ones: deploys, commits, events,
    alerts, restarts, new kinds of errors, in order of time."""
    at, now = moment(around, context.clock()), context.clock()
    span = Window(at - minutes * 60, min(at + minutes * 60, max(now, at)))
    known = configured(context, tuple(TYPES))
    unknown = set(sources) - {one.name for one in known}
    if unknown or not known:
        names = ", ".join(one.name for one in known) or "none; `hermes sources add` adds one"
        what = (
            f"no source called {', '.join(sorted(unknown))}" if unknown else "no source is set up"
        )
        raise ToolError(what, f"sources: {names}", "changed")
    asked = [one for one in known if not sources or one.name in sources]
    answers = await asyncio.gather(*(_asked(one, span) for one in asked))
    found = [
        Change(change.time, f"{source.name}: {change.what}", change.who, change.link)
        for source, (changes, _) in zip(asked, answers, strict=True)
        for change in changes
    ]
    notes = [
        f"{one.name} was not searched: {why}"
        for one, (_, why) in zip(asked, answers, strict=True)
        if why
    ]
    text = timeline(found) if found else "nothing changed that these sources know of"
    quiet = [
        one.name
        for one, (changes, why) in zip(asked, answers, strict=True)
        if not changes and not why
    ]
    notes += [f"nothing in: {', '.join(quiet)}"] if quiet else []
    return answer("what_changed", text, {"changes": len(found)}, notes)


async def _asked(source: Source, span: Window) -> tuple[list[Change], str]:
    """What a source found, or why it could not."""
    try:
        async with asyncio.timeout(SECONDS):
            return list(await TYPES[source.settings.kind].load().changes(source, span)), ""
    except ToolError as error:
        return [], error.message
    except TimeoutError:
        return [], f"it took longer than {SECONDS:.0f} s"
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        log.info("%s answers oddly", source.name, exc_info=True)
        return [], "its answer does not have the expected form"
