"""Everything a user can meet by name has a heading in docs/reference, and no page is stale."""

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from hermes_agent.cli.commands import COMMANDS
from hermes_agent.core import events
from hermes_agent.core.settings import root
from hermes_agent.policy.files.loader import Policies
from hermes_agent.runtime.tools.builtin import load_tools
from tests.support.source import PACKAGE, ROOT, tracked_files

DOCS = ROOT / "docs"
ODD_PHRASES = (
    "there to be asked", "be asked that way", "say what to mend", "way to mend", "is no time",
    "is no minute", "is no number", "is no regular expression", "the default is None",
    "goes before the setting", "the first line is it", "sees, reads", "never proven",
    "what was done is kept", "keeps what was done", "was done stays", "would cover:",
    "}: holds", "no tree of the system", "not compared yet", "kept and given back",
    "stand beside it", "Open the door", "search for what?",
)  # fmt: skip
"""Words that a native speaker finds odd, and that were once shown to people."""


def headings(page: str) -> set[str]:
    lines = (DOCS / "reference" / page).read_text().splitlines()
    return {line.lstrip("#").replace("`", "").strip() for line in lines if line.startswith("#")}


def setting_names(kind: Any, prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        name = prefix + field.name
        yield name
        for inner in [field.type, *get_args(field.type)]:
            if isinstance(inner, type) and issubclass(inner, Struct):
                middle = "." if inner is field.type else ".NAME."
                yield from setting_names(inner, name + middle)


def test_every_setting_has_a_heading() -> None:
    assert set(setting_names(root.Settings)) - headings("settings.md") == set()


def test_every_event_has_a_heading() -> None:
    kinds = get_args(events.Event) + get_args(events.TransientEvent)
    assert {kind.__struct_config__.tag for kind in kinds} - headings("events.md") == set()


def test_every_command_has_a_heading() -> None:
    assert {f"hermes {command.name}" for command in COMMANDS} - headings("commands.md") == set()


def test_every_built_in_tool_has_a_heading() -> None:
    assert {tool.name for tool in load_tools()} - headings("tools.md") == set()


def test_every_policy_profile_has_a_heading() -> None:
    profiles = Policies.of_home(Path("/nowhere"), Path("/nowhere")).load().profiles
    assert set(profiles) - headings("profiles.md") == set()


def test_every_environment_variable_has_a_heading() -> None:
    named = {
        name
        for path in tracked_files()
        if path.is_relative_to(PACKAGE)
        for name in re.findall(r"\b(?:HERMES|OPENAI)_[A-Z_]*[A-Z]\b", path.read_text())
    }
    assert named - headings("environment.md") == set()


def test_the_generated_pages_are_not_stale() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "gen_docs.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_link_between_pages_leads_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_index_of_the_documentation_names_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"README.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


def test_nobody_is_addressed_in_odd_phrases() -> None:
    shown = [PACKAGE.rglob(f"*.{kind}") for kind in ("py", "yaml", "md")]
    texts = {
        page: page.read_text() for page in chain(*shown, DOCS.rglob("*.md"), [ROOT / "README.md"])
    }
    assert [
        f"{page.relative_to(ROOT)}: {phrase}"
        for page, text in texts.items()
        for phrase in ODD_PHRASES
        if phrase in text
    ] == []
