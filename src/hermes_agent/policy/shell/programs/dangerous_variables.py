"""Variables that change what runs."""

import re

from hermes_agent.policy.word_lists import word_list

_NAMES = re.compile("|".join(word_list("dangerous_variables")))
_HARMLESS = re.compile("|".join(word_list("harmless_variables")))
_COUNTERS = frozenset({"RANDOM", "SRANDOM", "HISTCMD", "OPTIND"})
"""Their values are arithmetic, in which bash may run code."""
_HARMLESS_PAGERS = frozenset({"", "cat", "less", "more"})


def changes_what_runs(name: str, value: object) -> bool:
    """Whether a program may run something else because of this variable."""
    if not _NAMES.fullmatch(name) or _HARMLESS.fullmatch(name):
        return False
    if name in _COUNTERS:
        return not (isinstance(value, str) and value.isdigit())
    return not (name.endswith("PAGER") and value in _HARMLESS_PAGERS)
