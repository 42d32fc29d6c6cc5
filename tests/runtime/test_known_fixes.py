"""What the runtime itself knows after an incident, and what it makes of it the next time."""

from pathlib import Path

import pytest

from hermes_agent.core.incidents import Signal
from tests.support.incident_fixture import KNOWN, SAW, Response, act, resolve, response
from tests.support.runtime_fixture import until
from tests.support.subagents import say, shell

pytestmark = pytest.mark.sample_file(2)

LOOK, MEND = shell("cat {work}/web.log"), shell("touch {work}/web.up")
WRONG = shell("touch {work}/wrong")
DONE = say("done")
FIRST = [LOOK, WRONG, act("verify"), MEND, resolve(), DONE]
AGAIN = [LOOK, MEND, resolve(), DONE]


async def brief_of(h: Response, id: str) -> str:
    return (await h.shown(await h.session(id)))[0]


def memory(h: Response) -> str:
    return (h.runtime.context.home.path / "memories" / "MEMORY.md").read_text()


async def test_what_helped_comes_first_when_the_same_signs_are_there_again(tmp_path: Path) -> None:
    async with response(tmp_path, known=AGAIN, begin=FIRST, over=[DONE]) as h:
        await h.fail()
        await h.over()
        await h.fail()
        assert (await h.over("inc-2")).state == "resolved"
        text = await brief_of(h, "inc-2")
        assert KNOWN in text
        assert f"fixed by: `touch {h.work}/web.up`" in text
        assert f"did not help: `touch {h.work}/wrong`" in text
        assert "its signs are there again now" in text
        entries = await h.timeline("inc-2")
        assert sum("known" in entry.data for entry in entries) == 1


async def test_a_fix_whose_signs_are_not_there_is_only_mentioned(tmp_path: Path) -> None:
    other = "web: cannot bind to port 8080: it is in use"
    begin = [*AGAIN[:2], resolve(evidence=[SAW]), DONE]
    again = [*AGAIN[:2], resolve(evidence=[other]), DONE]
    async with response(tmp_path, known=[DONE], begin=begin, not_over=again, over=[DONE]) as h:
        await h.fail()
        await h.over()
        await h.fail()
        (h.work / "web.log").write_text(f"{other}\n")
        await h.over("inc-2")
        text = await brief_of(h, "inc-2")
        assert KNOWN not in text
        assert "its signs were not found now" in text


async def test_what_failed_since_is_no_fix_any_more(tmp_path: Path) -> None:
    end = act("escalate", component="web", summary="it did not help", needed="a person")
    async with response(tmp_path, known=[LOOK, MEND, end, DONE], begin=AGAIN, over=[DONE]) as h:
        await h.fail()
        await h.over()
        await h.fail()
        assert (await h.over("inc-2")).state == "escalated"
        assert "This was fixed before" in await brief_of(h, "inc-2")
        assert "Fixed by" not in memory(h)
        assert f"Did not help: `touch {h.work}/web.up`" in memory(h)
        assert "Waiting for a person: 1." in memory(h)
        await h.fail(fingerprint="check:web again")
        await h.over("inc-3")
        assert "This was fixed before" not in await brief_of(h, "inc-3")


async def test_an_incident_whose_session_was_deleted_gets_its_report(tmp_path: Path) -> None:
    end = act("escalate", component="web", summary="it is broken", needed="a person")
    async with response(tmp_path, begin=[LOOK, end, DONE]) as h:
        await h.fail()
        await h.over()
        await h.runtime.sessions.delete_session(await h.session())
        await h.fail(firing=False)

        async def reported_again() -> bool:
            return (await h.kinds())[-2:] == ["resolved", "report"]

        await until(reported_again)


async def test_a_check_that_passes_all_along_proves_nothing_about_an_alert(tmp_path: Path) -> None:
    begin = [
        LOOK, act("false_alarm", summary="the check passes"), MEND, resolve(),
        act("escalate", summary="it is slow", needed="somebody who knows the load"), DONE,
    ]  # fmt: skip
    async with response(tmp_path, begin=begin) as h:
        await h.watch("web")
        (h.work / "web.log").write_text(f"{SAW}\n")
        alert = Signal("alertmanager", "am:1", "web is slow", labels={"app": "web"})
        await h.runtime.incidents.intake.raise_signal(alert)
        found = await h.over()
        assert ([one.name for one in found.checks], found.state) == (["web"], "escalated")
        first, second = [one.text for one in await h.told("incident") if not one.ok]
        assert "not a false alarm: it is still reported" in first
        assert "passed from the start" in second
