"""Quotes are looked up in what tools returned; what the model wrote itself does not count."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes_agent.core.errors import ToolError
from hermes_agent.core.incidents import Evidence
from hermes_agent.incidents.response.evidence import EvidenceCall, IncidentTranscript
from hermes_agent.incidents.response.side_effects import did

LINE = "open /var/lib/web/items: No space left on device"


def call(
    number: int, command: str, text: str, tool: str = "terminal", session: str = "s1"
) -> EvidenceCall:
    return EvidenceCall(
        session, f"{session}-{number}", number, float(number), tool, {"command": command}, text,
        True, began=number - 0.5, did=did(tool, {"command": command}),
    )  # fmt: skip


def seen(*calls: EvidenceCall, results: Path = Path("nowhere")) -> IncidentTranscript:
    return IncidentTranscript("s1", calls, results)


async def test_a_quote_leads_to_the_call_that_showed_it() -> None:
    found = await seen(call(1, "df", "nothing"), call(2, "tail log", f"a\n{LINE}\nb")).find(LINE)
    assert found == Evidence("s1-2", LINE)


async def test_lines_may_be_broken_anew_in_a_quote() -> None:
    log = call(1, "tail log", f"  {LINE}  ")
    assert (await seen(log).find(LINE.replace(" left", "\n   left"))).effect == "s1-1"


async def test_what_a_child_has_seen_counts_and_says_which_child() -> None:
    child = call(7, "tail log", LINE, session="s2")
    assert await seen(child).find(LINE) == Evidence("s2-7", LINE, "s2")


async def test_a_result_that_was_cut_is_searched_whole(tmp_path: Path) -> None:
    (tmp_path / "s1").mkdir()
    (tmp_path / "s1" / "s1-1.txt").write_text(f"much\n{LINE}\nmore")
    cut = call(1, "cat log", "much\n[… 50 characters left out …]\nmore")
    assert (await seen(cut, results=tmp_path).find(LINE)).effect == "s1-1"


@pytest.mark.parametrize(
    "transcript",
    [
        seen(),
        seen(call(1, "df", "all is well here")),
        seen(call(1, "", LINE, tool="incident")),
        seen(call(1, "", LINE, tool="delegate")),
        seen(call(1, "", LINE, tool="skill")),
    ],
)
async def test_what_no_tool_has_shown_is_no_evidence(transcript: IncidentTranscript) -> None:
    with pytest.raises(ToolError, match="in no result"):
        await transcript.find(LINE)


@pytest.mark.parametrize(
    "transcript",
    [
        seen(call(1, f"echo '{LINE}'", LINE)),
        seen(call(1, f"echo '{LINE}' > /tmp/log", ""), call(2, "cat /tmp/log", LINE)),
        seen(call(1, f"grep '{LINE}' log", LINE)),
    ],
)
async def test_what_the_model_wrote_itself_is_no_evidence(transcript: IncidentTranscript) -> None:
    with pytest.raises(ToolError, match="wrote yourself"):
        await transcript.find(LINE)


async def test_what_was_seen_first_may_be_looked_for_afterwards() -> None:
    again = call(2, f"grep '{LINE}' log", LINE)
    assert (await seen(call(1, "tail log", LINE), again).find(LINE)).effect == "s1-1"


@pytest.mark.parametrize("quote", ["short", "", "x" * 301])
async def test_a_quote_has_a_length_that_says_something(quote: str) -> None:
    with pytest.raises(ToolError, match="12 to 300"):
        await seen(call(1, "tail", "x" * 400)).find(quote)


def test_only_what_has_changed_something_is_a_change() -> None:
    done = call(1, "rm -rf /srv", "")
    assert [one.effect for one in seen(done).changes] == ["s1-1"]
    assert not seen(replace(done, did="looked")).changes
    assert seen(replace(done, did="looked")).only_looked
