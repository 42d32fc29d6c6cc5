"""Lists of names that the policy knows: programs, their verbs, variables. They are data, in
`word_lists.table`."""

from functools import cache
from pathlib import Path


@cache
def _lists() -> dict[str, frozenset[str]]:
    text = Path(__file__).with_name("word_lists.table").read_text("utf-8")
    lines = (line for line in text.replace("\n    ", " ").splitlines() if line and line[0] != "#")
    return {name: frozenset(words.split()) for name, _, words in (x.partition(":") for x in lines)}


def word_list(name: str) -> frozenset[str]:
    return _lists()[name]
