"""`hermes sessions`: list, show, search, rename, export, delete."""

import json
import time
from pathlib import Path

import pytest

from hermes_agent.cli.output.formatting import moment
from hermes_agent.core.errors import UsageError
from tests.support.cli import Hermes


def test_alone_it_lists_the_sessions_newest_first(lived_in: Hermes) -> None:
    rows = lived_in.json("sessions")
    assert [row["name"] or row["title"] for row in rows][:2] == ["good morning, zebra", "papers"]
    assert lived_in.json("sessions", "list", "--limit", "1") == rows[:1]
    shown = lived_in.good("sessions")
    assert "papers" in shown
    assert rows[0]["id"] in shown


def test_a_home_without_sessions_says_how_to_open_one(hermes: Hermes) -> None:
    assert "hermes chat" in hermes.good("sessions")
    assert hermes.json("sessions", "list") == []


def test_a_session_is_shown_as_a_conversation(lived_in: Hermes) -> None:
    shown = lived_in.good("sessions", "show", "papers")
    order = [
        shown.index(words)
        for words in ("please write a file", "I will write it", "✓ $ echo", "The file is")
    ]
    assert order == sorted(order)
    document = lived_in.json("sessions", "show", "papers")
    assert document["name"] == "papers"
    assert [message["role"] for message in document["messages"]] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_what_was_said_is_found_with_its_neighbours(lived_in: Hermes) -> None:
    (found,) = lived_in.json("sessions", "search", "zebra")
    assert "«zebra»" in found["snippet"]
    (near,) = lived_in.json("sessions", "search", "zebra", "--around", "1")
    assert near["around"][0]["text"] == "Good day to you."
    assert "«zebra»" in lived_in.good("sessions", "search", "zebra", "--since", "1h")


def test_a_search_is_narrowed_by_session_role_and_tool(lived_in: Hermes) -> None:
    assert lived_in.json("sessions", "search", "zebra", "--session", "papers") == []
    assert lived_in.json("sessions", "search", "zebra", "--role", "assistant") == []
    (found,) = lived_in.json("sessions", "search", "shown", "--tool", "terminal")
    assert found["tool"] == "terminal"
    assert "nothing found" in lived_in.good("sessions", "search", "giraffe")


def test_since_takes_spans_and_dates() -> None:
    assert moment("2d", 1_000_000.0) == 1_000_000.0 - 2 * 86_400
    assert moment("1970-01-02T00:00:00+00:00", 0.0) == 86_400.0
    with pytest.raises(UsageError):
        moment("lately", time.time())


def test_the_trajectory_of_a_session_is_written_in_both_forms(
    lived_in: Hermes, tmp_path: Path
) -> None:
    (line,) = lived_in.good("sessions", "export", "papers", "--format", "openai").splitlines()
    turn = json.loads(line)
    assert [message["role"] for message in turn["messages"]] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    out = tmp_path / "turns.jsonl"
    lived_in.good("sessions", "export", "papers", "--format", "sharegpt", "--out", str(out))
    shared = json.loads(out.read_text())
    assert [said["from"] for said in shared["conversations"]] == [
        "system", "human", "gpt", "tool", "gpt",
    ]  # fmt: skip


def test_a_session_is_exported_for_people_and_as_its_journal(lived_in: Hermes) -> None:
    page = lived_in.good("sessions", "export", "papers")
    assert page.startswith("# papers\n")
    assert "The file is **written**." in page
    journal = lived_in.good("sessions", "export", "papers", "--format", "journal").splitlines()
    assert [json.loads(one)["number"] for one in journal] == list(range(1, len(journal) + 1))


def test_a_page_of_a_session_has_no_markup_of_its_own(hermes: Hermes, tmp_path: Path) -> None:
    hermes.ask('<script>alert("1")</script><img src=x onerror=y>', "--name", "<b>odd")
    out = tmp_path / "page.html"
    hermes.good("sessions", "export", "<b>odd", "--html", "-o", str(out))
    page = out.read_text()
    assert "default-src 'none'" in page
    assert "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;" in page
    for markup in ("<script", "<img", "<b>odd"):
        assert markup not in page


def test_a_session_is_rewound_branched_and_compared(hermes: Hermes) -> None:
    hermes.ask("please write a file", "--name", "talk")
    hermes.ask("hello", "--session", "talk")
    first, second = [
        one["number"] for one in hermes.json("sessions", "show", "talk")["messages"]
        if one["role"] == "user"
    ]  # fmt: skip
    branch = hermes.json("sessions", "branch", "talk", f"#{second}", "--name", "other")
    hermes.ask("good morning", "--session", "other")
    assert f"branch of  {branch['branch_of']}" in hermes.good("sessions", "show", "other")
    assert branch["branch_of"] in hermes.good("sessions")
    assert "other (branch)" in hermes.good("sessions")
    shown = hermes.good("sessions", "compare", "talk", "other")
    assert "3 messages, the last: The file is" in shown
    assert hermes.json("sessions", "compare", "talk", "other")["shared"] == 3
    rewound = hermes.good("sessions", "rewind", "talk", str(first))
    assert "not undone: 1 effect: ran echo" in rewound
    late = hermes.run("sessions", "rewind", "talk", str(first))
    assert late.returncode == 2
    assert "is not a user's message in this conversation" in late.stderr
    assert "## You (rewound)" in hermes.good("sessions", "export", "talk")
    (found,) = hermes.json("sessions", "search", "please")
    assert found["rewound"]


def test_every_session_is_exported_at_once(lived_in: Hermes) -> None:
    lines = lived_in.good("sessions", "export", "--all", "--json").splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == len(lived_in.json("sessions"))


def test_an_export_names_one_session_or_all(lived_in: Hermes) -> None:
    for words in (["export"], ["export", "papers", "--all"]):
        done = lived_in.run("sessions", *words)
        assert done.returncode == 2
        assert "hint:" in done.stderr


def test_an_export_that_cannot_be_written_is_one_line(lived_in: Hermes) -> None:
    done = lived_in.run("sessions", "export", "papers", "--out", "/no/such/folder/file")
    assert done.returncode == 1
    assert done.stderr.startswith("cannot write /no/such/folder/file")


def test_a_session_is_renamed_and_found_by_its_name(hermes: Hermes) -> None:
    id = hermes.ask("hello")
    assert hermes.json("sessions", "rename", id[:5], "trip")["name"] == "trip"
    assert hermes.json("sessions", "show", "trip")["id"] == id


def test_a_session_is_deleted_only_when_somebody_says_so(hermes: Hermes) -> None:
    id = hermes.ask("hello")
    unasked = hermes.run("sessions", "delete", id)
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    assert hermes.json("sessions", "delete", id, "--yes") == {"deleted": id, "left": []}
    gone = hermes.run("sessions", "show", id)
    assert gone.returncode == 1
    assert hermes.json("sessions", "search", "hello") == []


@pytest.mark.parametrize("action", ["show", "resume", "export", "delete"])
def test_an_unknown_session_is_one_line_and_a_hint(lived_in: Hermes, action: str) -> None:
    done = lived_in.run("sessions", action, "nowhere")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "no session 'nowhere'"
    assert done.stderr.splitlines()[1].startswith("hint: ")
