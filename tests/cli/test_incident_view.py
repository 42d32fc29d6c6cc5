"""An incident as people see it go on."""

import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.cli.watch.incidents.feed import IncidentNarrator, entry_line
from hermes_agent.cli.watch.incidents.view import TONES, IncidentLine, IncidentView, cells, cut
from tests.support.patience import PATIENCE
from tests.support.source import ROOT

QUOTE = "tmpfs 8.0M 8.0M 0 100% /var/log"
BOARD = [
    {
        "id": "h1", "claim": "/var/log is full", "component": "ledger", "category": "disk-full",
        "confidence": 0.8, "state": "open", "supports": [{"effect": "e", "quote": QUOTE}],
        "contradicts": [{"effect": "e", "quote": "the disk was emptied an hour ago"}],
    }
]  # fmt: skip


def entry(kind: str, text: str = "", **data: object) -> dict[str, object]:
    return {"incident": "inc-1", "number": 1, "time": 7.0, "kind": kind, "text": text, "data": data}


def reply(number: int, *calls: tuple[str, dict[str, object]], text: str = "") -> dict[str, object]:
    made = [
        {"id": f"c{place}", "name": name, "arguments": json.dumps(given)}
        for place, (name, given) in enumerate(calls)
    ]
    event = {"kind": "replied", "step": 1, "text": text, "calls": made}
    return {"session": "s1", "number": number, "time": 1.0, "event": event}


def judged(effect: str, tool: str, action: str = "allow") -> dict[str, object]:
    event = {
        "kind": "call_judged", "effect": effect, "tool": tool, "action": action,
        "reason": "in a box", "rule": "drill/restart", "text": "", "input": None,
    }  # fmt: skip
    return {"session": "s1", "number": 9, "time": 2.0, "event": event}


def drawn(said: IncidentLine, **how: object) -> str:
    out = io.StringIO()
    IncidentView(out, 0.0, **how).say(said)  # type: ignore[arg-type]
    return out.getvalue()


def test_a_belief_is_shown_with_what_speaks_for_it_and_against_it() -> None:
    said = entry_line(entry("hypothesis", "h1 …", hypothesis="h1"), BOARD)
    assert said is not None
    assert drawn(said) == (
        "  0:07 ? believes   h1 ledger: /var/log is full (disk-full, 80%)\n"
        f"                    │ because “{QUOTE}”\n"
        "                    │ although “the disk was emptied an hour ago”\n"
    )


@pytest.mark.parametrize(
    ("line", "word", "tone"),
    [
        (entry("verified", "all checks pass", ok=True), "verified", "good"),
        (entry("verified", "still down", ok=False), "not yet", "bad"),
        (entry("verified", "it is not resolved", ok=False, refused=True), "refused", "bad"),
        (entry("declared", "inc-1"), "declared", "bold"),
        (entry("something-new", "x"), "something-new", "faint"),
    ],
)
def test_an_entry_says_what_it_is(line: dict[str, object], word: str, tone: str) -> None:
    said = entry_line(line, [])
    assert said is not None
    assert (said.word, said.tone) == (word, tone)


def test_what_is_needed_of_people_stands_below_an_escalation() -> None:
    said = entry_line(entry("escalated", "nobody knows", needed="a bigger disk"), [])
    assert said is not None
    assert said.details == ("needed: a bigger disk",)
    assert entry_line(entry("state", "investigating"), []) is None


def test_commands_that_only_look_are_one_line_and_one_that_acts_has_its_rule() -> None:
    rows = [
        reply(5, ("terminal", {"command": "df -h"}), ("terminal", {"command": "ps aux"})),
        judged("s1-5-0", "terminal"),
        judged("s1-5-1", "terminal"),
        reply(8, ("terminal", {"command": "supervisorctl restart web"})),
        judged("s1-8-0", "terminal"),
    ]
    looked, acted = IncidentNarrator().events(rows)
    assert (looked.word, looked.text) == ("looks", "$ df -h · $ ps aux")
    assert (acted.word, acted.text) == ("acts", "$ supervisorctl restart web")
    assert acted.details == ("allowed by drill/restart: in a box",)


def test_a_refusal_children_skills_and_a_new_runtime_are_told() -> None:
    tasks = [{"task": "look at the service web"}, {"task": "look at the service db"}]
    rows = [
        reply(5, ("terminal", {"command": "rm -rf /srv"}), ("delegate", {"tasks": tasks})),
        judged("s1-5-0", "terminal", "deny"),
        judged("s1-5-1", "delegate"),
        {"session": "s1", "number": 6, "time": 3.0, "event": {"kind": "turn_resumed"}},
        reply(7, ("skill", {"name": "disk-full-web"})),
        judged("s1-7-0", "skill"),
    ]
    said = list(IncidentNarrator().events(rows))
    assert [one.word for one in said] == ["refused", "delegates", "resumes", "follows"]
    assert said[1].details == ("look at the service web", "look at the service db")


def test_of_a_child_only_what_it_found_is_told() -> None:
    end = {"kind": "turn_finished", "text": "web:\n- it is full\n- and slow\n```json\n{}\n```"}
    rows = [
        reply(5, ("terminal", {"command": "df"}), text="I look"),
        judged("s1-5-0", "terminal"),
        {"session": "s1", "number": 9, "time": 3.0, "event": end},
    ]
    assert [(one.word, one.text) for one in IncidentNarrator("web").events(rows)] == [
        ("found", "[web] it is full · and slow")
    ]


def test_what_is_said_stands_with_what_is_done() -> None:
    rows = [
        reply(5, ("terminal", {"command": "df"}), text="I look"),
        judged("s1-5-0", "terminal"),
        reply(8, ("terminal", {"command": "kill 7"}), text="It eats all"),
        judged("s1-8-0", "terminal"),
    ]
    looked, acted = IncidentNarrator().events(rows)
    assert (looked.text, looked.details) == ("I look", ("$ df",))
    assert acted.details == ("It eats all", "allowed by drill/restart: in a box")


def test_a_check_that_is_run_by_hand_is_a_look() -> None:
    check = "curl -X PUT -d x http://127.0.0.1:8080/items/x"
    rows = [reply(5, ("terminal", {"command": f"sleep 1; {check}"})), judged("s1-5-0", "terminal")]
    assert [one.word for one in IncidentNarrator("", [check]).events(rows)] == ["looks"]
    assert [one.word for one in IncidentNarrator().events(rows)] == ["acts"]


def test_nothing_is_wider_than_the_terminal_and_colour_is_only_an_addition() -> None:
    long = IncidentLine(61.0, "acts", "word " * 40 + "日本語" * 20, "act", ("because " * 30,))
    for width in (24, 40, 59, 80, 200):
        assert all(cells(line) <= width for line in drawn(long, width=width).splitlines())
    plain, coloured = drawn(long, width=80, colour=False), drawn(long, width=80, colour=True)
    assert "\x1b" not in plain
    for code in TONES.values():
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured.replace("\x1b[0m", "") == plain


def test_a_pipe_gets_no_colour_and_no_line_that_changes() -> None:
    out = io.StringIO()
    view = IncidentView(out, 0.0)
    view.status("working", 3.0)
    view.say(IncidentLine(3.0, "acts", "restarts it", "act"))
    view.close()
    assert out.getvalue() == "  0:03 ▸ acts       restarts it\n"


@given(text=st.text(max_size=80), most=st.integers(2, 60))
@settings(max_examples=100, deadline=None)
def test_a_text_is_cut_to_its_columns_and_drives_no_terminal(text: str, most: int) -> None:
    assert cells(cut(text, most)) <= most
    assert "\x1b" not in drawn(IncidentLine(0.0, "says", text), width=40, colour=False)


def test_a_recording_is_a_cast_and_a_picture(tmp_path: Path) -> None:
    play = tmp_path / "play.py"
    play.write_text(
        "import sys\n"
        "from hermes_agent.cli.watch.incidents.view import IncidentLine, IncidentView\n"
        "view = IncidentView(sys.stdout, 0.0)\n"
        "for number in range(40):\n"
        "    view.status('working', 1.0)\n"
        "    view.say(IncidentLine(1.0, 'looks', f'<line {number}> & more', 'look'))\n"
        "view.close()\n"
    )
    made, picture = tmp_path / "x.cast", tmp_path / "x.svg"
    command = [ROOT / "scripts" / "record_demo.py", "--cast", made, "--svg", picture]
    done = subprocess.run(
        [sys.executable, *command, "--height", "10", sys.executable, play],
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    head, *events = map(json.loads, made.read_text().splitlines())
    assert (head["version"], head["width"], head["height"]) == (2, 100, 10)
    assert "".join(event[2] for event in events).count("<line") == 40
    texts = ["".join(node.itertext()) for node in ET.parse(picture).iter() if "text" in node.tag]
    assert [text for text in texts if "line" in text][-1].endswith("<line 39> & more")
    assert not any("working" in text for text in texts)
