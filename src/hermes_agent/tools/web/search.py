"""Search the web."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from hermes_agent.core.errors import ToolError
from hermes_agent.core.text.untrusted import wrap_untrusted
from hermes_agent.core.tool_results import ToolResult
from hermes_agent.core.tools import ToolContext, tool
from hermes_agent.tools.web.engines import ENGINES, KEYS, SearchHit, read_hits

if TYPE_CHECKING:
    from hermes_agent.tools.web.client import WebResponse

ANSWER_BYTES = 5_000_000
SNIPPET_CHARS = 400


@tool(capabilities=("network",), repeatable=True, keys=KEYS)
async def web_search(
    context: ToolContext, query: str, limit: Annotated[int, Meta(ge=1, le=20)] = 8
) -> ToolResult:
    """Search the web for pages: title, address, snippet. `web_fetch` reads one."""
    if not query.strip():
        raise ToolError("the query is empty", retry="changed")
    failed: dict[str, str] = {}
    for name in _order(context):
        try:
            hits = await _asked(context, name, query.strip(), limit)
        except ToolError as error:
            failed[name] = error.message
        else:
            return _result(query, name, hits[:limit], failed)
    raise ToolError(
        f"no search service answered: {_reasons(failed)}",
        "a service with a key is more reliable; see the setting `web.search`",
        "same",
    )


def _order(context: ToolContext) -> Iterable[str]:
    """The services to try: those of the settings, or all that are configured."""
    chosen = context.settings.web.search
    for name in chosen:
        if name not in ENGINES:
            hint = f"the setting `web.search` takes: {', '.join(ENGINES)}"
            raise ToolError(f"no search service called {name!r}", hint, "never")
    return chosen or [name for name in ENGINES if not _lacking(context, name)]


def _lacking(context: ToolContext, name: str) -> str:
    """What the service needs and is not set."""
    if name == "searxng":
        return "" if context.settings.web.searxng else "the setting `web.searxng`"
    return ", ".join(key for key in ENGINES[name].keys if not context.secrets.get(key))


async def _asked(context: ToolContext, name: str, text: str, limit: int) -> list[SearchHit]:
    """The service's results. Raises `ToolError` when it fails."""
    if lacking := _lacking(context, name):
        raise ToolError(f"{lacking} is not set")
    from hermes_agent.tools.web.client import ask

    engine = ENGINES[name]
    keys = {key: context.secrets[key] for key in engine.keys}
    trouble: list[str] = []
    for url, options in engine.requests(text, limit, keys, context.settings.web.searxng):
        try:
            answer = await ask(
                context,
                engine.method,
                url,
                most=ANSWER_BYTES,
                follow_redirects=not keys,  # a key goes to nobody else
                **options,
            )
            _refuse_failure(answer, keyed=bool(engine.keys))
            return [hit for hit in read_hits(name, answer.data) if _usable(hit)]
        except ToolError as error:
            trouble.append(error.message)
    raise ToolError("; then ".join(dict.fromkeys(trouble)))


def _refuse_failure(answer: "WebResponse", *, keyed: bool) -> None:
    match answer.status:
        case 200:
            return
        case 202:
            raise ToolError("asks for a captcha")
        case 401 | 403 if keyed:
            raise ToolError(f"rejects the key ({answer.status})")
        case 402 | 429 | 432 | 433:
            raise ToolError(f"limits requests ({answer.status})")
        case status:
            raise ToolError(f"answers {status}")


def _usable(hit: SearchHit) -> bool:
    return bool(hit.title) and hit.url.startswith(("https://", "http://"))


def _reasons(failed: dict[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in failed.items())


def _result(query: str, name: str, hits: list[SearchHit], failed: dict[str, str]) -> ToolResult:
    data = {
        "query": query,
        "service": name,
        "results": [msgspec.structs.asdict(hit) for hit in hits],
        "failed": failed,
    }
    notes = f"answered by {name}" + (f"; not by {_reasons(failed)}" if failed else "")
    if not hits:
        return ToolResult(f"nothing found for {query!r} [{notes}]", data)
    rows = [
        f"{number}. {hit.title}\n   {hit.url}\n   {hit.snippet[:SNIPPET_CHARS]}".rstrip()
        for number, hit in enumerate(hits, 1)
    ]
    return ToolResult(
        f"{wrap_untrusted('search-results', name, chr(10).join(rows))}\n[{notes}]", data
    )
