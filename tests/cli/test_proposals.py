"""`hermes proposals`: what a review would change, shown whole and decided once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.cli.decide.proposals import proposal_text
from hermes_agent.store.store import Store
from tests.support.cli import Hermes

ESCAPES = "\x1b[2J\u202e"

BODY = {"id": 0, "view": "memory", "text": "the staging host is called lemur", "confidence": 0.9}


SKILL = """\
---
name: feed-cats
description: Feed the cats. Use it when a cat is hungry.
---

# Feed cats

One.
Two.
Three.
Four.
Give fish.
"""


async def _propose(home: Path, titles: tuple[str, ...]) -> None:
    store = await Store.open(home)
    try:
        for title in titles:
            await store.knowledge.propose("note", title, BODY, "session ab, event 7", "x/y")
        record = await store.knowledge.skill("feed-cats")
        for title, base in (("improve it", record.digest), ("too late", "0" * 64)):
            body = {
                "action": "improve", "name": "feed-cats", "base": base, "why": "they like it",
                "files": {"SKILL.md": SKILL.replace("fish", "beef"), "references/more.md": "more",
                          "references/same.md": "as before\n"},
                "session": "ab", "turn": 7,
            }  # fmt: skip
            await store.knowledge.propose("skill", title, body, "session ab, event 7", "x/y")
    finally:
        await store.close()


@pytest.fixture(scope="module")
def proposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hermes]:
    """A Hermes home with open proposals, for tests that each decide one of their own."""
    made = Hermes(tmp_path_factory.mktemp("proposed") / "hermes")
    folder = made.home / "skills" / "feed-cats"
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "references" / "same.md").write_text("as before\n")
    made.good("skills")
    made.good("down")
    asyncio.run(_propose(made.home, ("accept me", "reject me", "leave me")))
    yield made
    made.close()


def id_of(hermes: Hermes, title: str) -> str:
    (found,) = (row for row in hermes.json("proposals") if row["title"] == title)
    return str(found["id"])


def test_open_proposals_are_listed_and_shown_with_their_evidence(proposed: Hermes) -> None:
    assert "leave me" in proposed.good("proposals")
    shown = proposed.good("proposals", "show", id_of(proposed, "leave me"))
    for words in ("session ab, event 7", "text: the staging host is called lemur", "x/y"):
        assert words in shown
    assert proposed.json("proposals", "show", id_of(proposed, "leave me"))["body"] == BODY


def test_an_improvement_of_a_skill_is_shown_as_what_differs(proposed: Hermes) -> None:
    shown = proposed.good("proposals", "show", id_of(proposed, "improve it")).splitlines()
    for line in (
        "    why: they like it",
        "    --- version 1/SKILL.md",
        "    +++ proposed/SKILL.md",
        "    -Give fish.",
        "    +Give beef.",
        "    +++ proposed/references/more.md",
        "    +more",
        "    references/same.md: unchanged",
    ):
        assert line in shown
    assert not any("# Feed cats" in line or "as before" in line for line in shown)
    assert not any("earlier version" in line for line in shown)
    whole = proposed.json("proposals", "show", id_of(proposed, "improve it"))
    assert "# Feed cats" in whole["body"]["files"]["SKILL.md"]


def test_an_improvement_of_an_earlier_version_is_told_to_be_one(proposed: Hermes) -> None:
    id = id_of(proposed, "too late")
    assert "made for an earlier version" in proposed.good("proposals", "show", id)
    assert proposed.run("proposals", "accept", id).returncode != 0


def test_what_is_accepted_is_applied_once(proposed: Hermes) -> None:
    id = id_of(proposed, "accept me")
    assert "accepted" in proposed.good("proposals", "accept", id)
    assert "called lemur" in proposed.good("memory")
    again = proposed.run("proposals", "accept", id)
    assert again.returncode in (1, 2)
    assert "hint: " in again.stderr
    assert "accepted" in proposed.good("proposals", "show", id)
    assert [
        str(row["id"]) for row in proposed.json("proposals", "list", "--state", "accepted")
    ] == [id]


def test_what_is_rejected_is_gone_from_the_list(proposed: Hermes) -> None:
    id = id_of(proposed, "reject me")
    assert proposed.json("proposals", "reject", id)["state"] == "rejected"
    assert "reject me" not in proposed.good("proposals")


def test_an_unknown_proposal_is_said_with_a_way_out(proposed: Hermes) -> None:
    for action in ("show", "accept", "reject"):
        done = proposed.run("proposals", action, "99999")
        assert done.returncode == 1
        assert "hint: " in done.stderr


ROW: dict[str, Any] = {
    "id": 4, "kind": "skill", "title": f"disks{ESCAPES}", "evidence": f"one\n{ESCAPES}two",
    "time": 0.0, "model": "x/y", "state": "open", "by": "",
    "body": {"name": "disk", "files": {"SKILL.md": f"# Disk\n{ESCAPES}rm -rf\n"}, "lines": [1, 2]},
}  # fmt: skip


def test_a_proposal_is_shown_whole_and_hidden_characters_are_seen() -> None:
    text = proposal_text(ROW)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"\x1b[2J\u202erm -rf" in text
    assert text.splitlines().index("        SKILL.md:") < text.splitlines().index(
        "            # Disk"
    )


def test_hidden_characters_of_an_improvement_are_seen() -> None:
    skill = {"record": {"name": "disk", "version": 2, "digest": "d"}, "text": "# Disk\n",
             "files": ["SKILL.md"], "folder": ""}  # fmt: skip
    body = {
        "name": "disk",
        "base": "d",
        "files": {"SKILL.md": f"# Disk\n{ESCAPES}rm -rf\u2028-x\n"},
    }
    text = proposal_text({**ROW, "body": body}, skill)
    assert r"    +\x1b[2J\u202erm -rf\u2028-x" in text.splitlines()
