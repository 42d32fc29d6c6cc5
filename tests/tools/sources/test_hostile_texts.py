"""Log lines and arguments that should hurt. What takes longer than its text is long never ends."""

from typing import Any

import pytest

from hermes_agent.core.errors import ToolError
from hermes_agent.core.settings.sources import SourceSettings
from hermes_agent.core.tools import Tool
from hermes_agent.tools.sources.cluster.objects import matcher
from hermes_agent.tools.sources.containers import containers
from hermes_agent.tools.sources.git_hosts.tool import git_host
from hermes_agent.tools.sources.kubernetes import kubernetes
from tests.support.recorded_wire import answering
from tests.support.sources import Observer


def test_a_pattern_of_the_model_takes_no_longer_than_the_text_is_long() -> None:
    assert not matcher("(a+)+$")("a" * 10_000 + "!")
    assert matcher("PANIC")("a panic")
    with pytest.raises(ToolError, match=r"`pattern`: not a valid regular expression"):
        matcher("(")


SECRETS = {"kind": "SecretList", "metadata": {}, "items": [
    {"metadata": {"name": "db"}, "data": {"settings.ini": "aHVudGVyMg=="}},
]}  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (kubernetes, {"name": "x", "namespace": "shop/secrets?x="}),
        (kubernetes, {"name": "x", "namespace": "shop%2Fsecrets"}),
        (kubernetes, {"name": "pods/web:80/proxy/stop", "namespace": "shop"}),
        (kubernetes, {"name": "..", "namespace": "shop"}),
        (kubernetes, {"kind": "secrets", "name": "db", "namespace": "shop"}),
        (containers, {"action": "inspect", "name": "web/archive?path=/etc"}),
        (git_host, {"action": "commits", "repository": "../user"}),
        (git_host, {"action": "diff", "repository": "shop/web", "ref": "../../keys"}),
        (git_host, {"action": "failure", "repository": "shop/web", "ref": "1/../../x"}),
    ],
)
async def test_a_name_is_no_path(observer: Observer, tool: Tool, given: dict[str, Any]) -> None:
    """A server would decode `%2F` and take apart what results; and what it answers then is not
    shown as what was asked for."""
    asked: list[str] = []

    def respond(_method: str, target: str, *_: Any) -> tuple[int, Any]:
        asked.append(target)
        return 200, SECRETS

    with answering(respond) as url:
        engine = url.replace("http", "tcp")
        observer.sources["prod"] = SourceSettings(kind="kubernetes", url=url, user="me")
        observer.sources["engine"] = SourceSettings(kind="containers", url=engine)
        observer.sources["git"] = SourceSettings(kind="github", url=url)
        with pytest.raises(ToolError, match=r"not a valid name|answers with a SecretList"):
            await observer.call(tool, **{"action": "get", **given})
    assert [one for one in asked if "secrets/db" not in one] == []


async def test_a_stored_log_that_is_too_large_is_not_read(observer: Observer) -> None:
    job = {"id": 5, "name": "test", "conclusion": "failure"}
    own: list[str] = []

    def respond(_method: str, target: str, *_: Any) -> tuple[int, Any]:
        if target.endswith("/logs"):
            return 302, {"location": f"{own[0]}/stored"}
        if target.endswith("/stored"):
            return 200, " " * 21_000_000
        return 200, {"jobs": [job]}

    with answering(respond) as url:
        own.append(url)
        observer.sources["git"] = SourceSettings(kind="github", url=url, repositories=("shop/web",))
        text = (await observer.call(git_host, action="failure", ref="9")).text
    assert "answers with more than 20 MB" in text
