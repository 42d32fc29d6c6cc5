from typing import Any

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.root import Settings, WebSettings
from hermes_agent.tools.web.engines import ENGINES, KEYS
from hermes_agent.tools.web.search import web_search
from tests.support.model_server import Raw
from tests.support.web_server import Surfer, answer, as_json, page, sent

A, B = "https://a.example/1", "https://b.example/2"
HTML = f"""<div class="results">
<div class="result results_links result--ad"><h2 class="result__title">
<a rel="nofollow" class="result__a" href="https://duckduckgo.com/y.js?ad_domain=x">Buy</a></h2>
<a class="result__snippet" href="https://duckduckgo.com/y.js?ad_domain=x">buy now</a></div>
<div class="result results_links web-result"><h2 class="result__title"><a rel="nofollow"
class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F1&amp;rut=c">First
<b>hit</b> &amp; more</a></h2><a class="result__url" href="x">a.example</a>
<a class="result__snippet" href="//duckduckgo.com/l/?x">One <b>thing</b></a></div>
<div class="result"><a class="result__a" href="{B}">Second</a></div></div>"""
LITE = f"""<table><tr><td>1.&nbsp;</td><td><a rel="nofollow" href="{A}" class='result-link'>First
hit &amp; more</a></td></tr><tr><td></td><td class='result-snippet'>One <b>thing</b></td></tr>
<tr><td>2.</td><td><a href="{B}" class='result-link'>Second</a></td></tr></table>"""
CHALLENGE = '<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div>'


def rows(title: str = "title", url: str = "url", snippet: str = "snippet") -> list[dict[str, Any]]:
    return [{title: "First hit & more", url: A, snippet: "One thing"}, {title: "Second", url: B}]


WIRES: dict[str, tuple[str, Raw, dict[str, Any], dict[str, str]]] = {
    "brave": (
        "api.search.brave.com/res/v1/web/search",
        as_json(
            {
                "type": "search",
                "web": {
                    "type": "search",
                    "results": [
                        {
                            "title": "First hit &amp; more",
                            "url": A,
                            "description": "One <strong>thing</strong>",
                        },
                        {"title": "Second", "url": B},
                    ],
                },
            }
        ),
        {"q": "sea", "count": "8"},
        {"x-subscription-token": "secret-1"},
    ),
    "tavily": (
        "api.tavily.com/search",
        as_json({"query": "sea", "results": rows(snippet="content"), "response_time": 1.1}),
        {"query": "sea", "max_results": 8},
        {"authorization": "Bearer secret-1"},
    ),
    "exa": (
        "api.exa.ai/search",
        as_json(
            {
                "requestId": "r",
                "results": [
                    {"id": A, "title": "First hit & more", "url": A, "highlights": ["One thing"]},
                    {"id": B, "title": "Second", "url": B, "publishedDate": None},
                ],
            }
        ),
        {"query": "sea", "numResults": 8, "contents": {"highlights": True}},
        {"x-api-key": "secret-1"},
    ),
    "serper": (
        "google.serper.dev/search",
        as_json({"searchParameters": {"q": "sea"}, "organic": rows(url="link")}),
        {"q": "sea", "num": 8},
        {"x-api-key": "secret-1"},
    ),
    "kagi": (
        "kagi.com/api/v1/search",
        as_json({"meta": {"ms": 12}, "data": {"search": rows(), "related_search": []}}),
        {"query": "sea", "workflow": "search", "limit": 8},
        {"authorization": "Bearer secret-1"},
    ),
    "google": (
        "www.googleapis.com/customsearch/v1",
        as_json({"kind": "customsearch#search", "items": rows(url="link")}),
        {"key": "secret-1", "cx": "secret-2", "q": "sea", "num": "8"},
        {},
    ),
    "searxng": (
        "find.example/base/search",
        as_json({"query": "sea", "results": rows(snippet="content"), "unresponsive_engines": []}),
        {"q": "sea", "format": "json"},
        {},
    ),
    "duckduckgo": ("html.duckduckgo.com/html/", page(HTML), {"q": "sea"}, {}),
}


def secrets(*names: str) -> dict[str, str]:
    return {key: f"secret-{n}" for name in names for n, key in enumerate(ENGINES[name].keys, 1)}


def settings(*names: str) -> Settings:
    return Settings(web=WebSettings(search=names, searxng="https://find.example/base/"))


@pytest.mark.parametrize("name", WIRES)
async def test_each_service_is_asked_and_understood_in_its_own_way(
    surfer: Surfer, name: str
) -> None:
    place, reply, wanted, headers = WIRES[name]
    surfer.site.pages[place] = reply
    surfer.settings, surfer.secrets = settings(name), secrets(name)
    result = await surfer.call(web_search, query=" sea ")
    assert result.data["results"] == [
        {"title": "First hit & more", "url": A, "snippet": "One thing"},
        {"title": "Second", "url": B, "snippet": ""},
    ]
    assert result.data["service"] == name
    (request,) = surfer.site.requests
    assert sent(request) == wanted
    assert headers.items() <= request.headers.items()


async def test_wikipedia_is_asked_by_its_api_and_gives_addresses_of_articles(
    surfer: Surfer,
) -> None:
    found = {
        "ns": 0,
        "title": "Tide & co",
        "pageid": 7,
        "snippet": 'the <span class="searchmatch">tide</span> &quot;rises&quot;',
    }
    surfer.site.pages["en.wikipedia.org/w/api.php"] = as_json({"query": {"search": [found]}})
    surfer.settings = settings("wikipedia")
    result = await surfer.call(web_search, query="tide", limit=3)
    assert result.data["results"] == [
        {
            "title": "Tide & co",
            "url": "https://en.wikipedia.org/wiki/Tide_%26_co",
            "snippet": 'the tide "rises"',
        }
    ]
    asked = sent(surfer.site.requests[0])
    assert (asked["srsearch"], asked["srlimit"], asked["format"]) == ("tide", "3", "json")


async def test_results_are_numbered_and_framed_and_say_who_answered(surfer: Surfer) -> None:
    surfer.site.pages["html.duckduckgo.com/html/"] = page(HTML)
    result = await surfer.call(web_search, query="sea")
    assert (
        '<search-results from="duckduckgo">\n'
        f"1. First hit & more\n   {A}\n   One thing\n2. Second\n   {B}\n</search-results>\n"
        "[answered by duckduckgo]"
    ) in result.text


async def test_the_lite_page_is_the_second_try(surfer: Surfer) -> None:
    surfer.site.pages["html.duckduckgo.com/html/"] = page(CHALLENGE)
    surfer.site.pages["lite.duckduckgo.com/lite/"] = page(LITE)
    result = await surfer.call(web_search, query="sea", limit=1)
    assert result.data["results"] == [
        {"title": "First hit & more", "url": A, "snippet": "One thing"}
    ]
    assert result.data["failed"] == {}


async def test_those_with_a_key_are_asked_first_and_the_keyless_ones_last(surfer: Surfer) -> None:
    surfer.secrets = secrets("tavily", "brave")
    surfer.settings = settings()
    with pytest.raises(ToolError, match="no search service answered") as caught:
        await surfer.call(web_search, query="sea")
    assert [place.partition("/")[0] for place in surfer.site.asked()] == [
        "api.search.brave.com",
        "api.tavily.com",
        "find.example",
        "html.duckduckgo.com",
        "lite.duckduckgo.com",
        "en.wikipedia.org",
    ]
    assert caught.value.retry == "same"
    assert "secret" not in str(caught.value)


async def test_when_one_fails_the_next_is_asked_and_the_result_says_why(surfer: Surfer) -> None:
    surfer.secrets = secrets("brave", "tavily", "exa")
    surfer.settings = settings("brave", "tavily", "exa", "kagi", "duckduckgo")
    surfer.site.pages |= {
        WIRES["brave"][0]: answer(429),
        WIRES["tavily"][0]: answer(401),
        WIRES["exa"][0]: page("[1, 2", "application/json"),
        "html.duckduckgo.com/html/": page(HTML),
    }
    result = await surfer.call(web_search, query="sea")
    failed = result.data["failed"]
    assert failed["brave"] == "limits requests (429)"
    assert failed["tavily"] == "rejects the key (401)"
    assert failed["exa"].startswith("sent an answer in an unexpected format")
    assert failed["kagi"] == "KAGI_API_KEY is not set"
    assert "answered by duckduckgo; not by brave: limits requests" in result.text


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (page(CHALLENGE), "captcha"),
        (answer(202, "<form>"), "captcha"),
        (answer(403), "answers 403"),
        (page("<html>something new</html>"), "without results"),
    ],
)
async def test_a_page_that_is_no_answer_is_not_taken_for_one(
    surfer: Surfer, raw: Raw, why: str
) -> None:
    surfer.settings = settings("duckduckgo")
    for place in ("html.duckduckgo.com/html/", "lite.duckduckgo.com/lite/"):
        surfer.site.pages[place] = raw
    with pytest.raises(ToolError, match=why):
        await surfer.call(web_search, query="sea")


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("duckduckgo", page('<div class="no-results">No results.</div>')),
        ("brave", as_json({"type": "search"})),
        ("google", as_json({"kind": "customsearch#search"})),
    ],
)
async def test_nothing_found_is_an_answer(surfer: Surfer, name: str, raw: Raw) -> None:
    surfer.site.pages[WIRES[name][0]] = raw
    surfer.settings, surfer.secrets = settings(name), secrets(name)
    result = await surfer.call(web_search, query="qqq")
    assert result.text == f"nothing found for 'qqq' [answered by {name}]"


async def test_a_key_is_not_taken_along_to_where_a_service_redirects(surfer: Surfer) -> None:
    surfer.site.pages[WIRES["brave"][0]] = answer(307, location="https://thief.example/")
    surfer.settings, surfer.secrets = settings("brave"), secrets("brave")
    with pytest.raises(ToolError, match="brave: answers 307"):
        await surfer.call(web_search, query="sea")
    assert len(surfer.site.requests) == 1


async def test_what_is_no_web_address_is_left_out_of_the_results(surfer: Surfer) -> None:
    bad = [{"title": "x", "url": "javascript:alert(1)"}, {"title": "", "url": A}, *rows()]
    surfer.site.pages[WIRES["kagi"][0]] = as_json({"data": {"search": bad}})
    surfer.settings, surfer.secrets = settings("kagi"), secrets("kagi")
    result = await surfer.call(web_search, query="sea")
    assert [row["url"] for row in result.data["results"]] == [A, B]


async def test_a_service_that_nobody_knows_is_named(surfer: Surfer) -> None:
    surfer.settings = settings("altavista")
    with pytest.raises(ToolError, match="'altavista'") as caught:
        await surfer.call(web_search, query="sea")
    assert "duckduckgo" in caught.value.hint


async def test_a_service_on_a_private_address_needs_a_rule(surfer: Surfer) -> None:
    surfer.private = False
    surfer.settings = Settings(web=WebSettings(search=("searxng",), searxng=surfer.site.root))
    with pytest.raises(ToolError, match="loopback addresses are refused"):
        await surfer.call(web_search, query="sea")


def test_the_tool_declares_every_key_it_uses() -> None:
    assert set(web_search.keys) == set(KEYS) == {k for e in ENGINES.values() for k in e.keys}
