"""bash itself as the judge: every program that it runs was announced, or something was unknown."""

from pathlib import Path

import pytest

from hermes_agent.core.effects import Operation
from hermes_agent.policy.shell import read
from tests.support.shell_lines import Lines, Recorder

_OPEN = set("$`*?[<…~")
"""Signs in an argument that was given as it stands, because nobody can tell its value."""


def announced(record: list[str], acts: tuple[Operation, ...]) -> bool:
    program, *arguments = record
    return any(
        list(act.arguments) == arguments or any(_OPEN & set(word) for word in act.arguments)
        for act in acts
        if act.kind == "program" and act.program == program
    )


def missed(recorder: Recorder, text: str) -> list[list[str]]:
    """What ran under bash and was not announced."""
    folder = str(recorder.place)
    acts = read(text, folder=folder, home=folder)
    if any(act.kind == "unknown" for act in acts):
        return []
    return [record for record in recorder.run(text) if not announced(record, acts)]


@pytest.mark.parametrize("start", range(0, 240, 60))
def test_bash_runs_nothing_that_was_not_announced(start: int, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    lines = [Lines(seed).whole() for seed in range(start, start + 60)]
    assert {text: gone for text in lines if (gone := missed(recorder, text))} == {}


@pytest.mark.parametrize("start", range(0, 240, 80))
def test_bash_reads_damaged_lines_as_we_do(start: int, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    lines = [Lines(seed).damaged() for seed in range(start, start + 80)]
    assert {text: gone for text in lines if (gone := missed(recorder, text))} == {}


def test_most_whole_lines_are_understood(tmp_path: Path) -> None:
    lines = [Lines(seed).whole() for seed in range(300)]
    acts = [read(text, folder=str(tmp_path)) for text in lines]
    unknown = [one for one in acts if any(act.kind == "unknown" for act in one)]
    assert len(unknown) < 60
