"""Variables that change what runs."""

import re

from hermes_agent.policy.word_lists import word_list

_NAMES = re.compile("|".join(word_list("dangerous_variables")))
_HARMLESS = re.compile("|".join(word_list("harmless_variables")))
_PATH = re.compile(r":?/|.*\.\./|~")
_COUNTERS = frozenset({"RANDOM", "SRANDOM", "HISTCMD", "OPTIND"})
"""Their values are arithmetic, in which bash may run code."""
_HARMLESS_PAGERS = frozenset({"", "cat", "less", "more"})


def is_harmless(name: str) -> bool:
    """Whether programs may get it with any value, which some send to their hosts."""
    return bool(_HARMLESS.fullmatch(name))


def changes_what_runs(name: str, value: object, *, exported: bool = False) -> bool:
    """Whether a program may run something else because of this variable. One that is exported is
    seen by programs of which nobody knows all that they look at."""
    if is_harmless(name):
        return exported and bool(_PATH.match(str(value)))
    if not _NAMES.fullmatch(name):
        return exported and not (name.islower() and name.isidentifier())
    if name in _COUNTERS:
        return not (isinstance(value, str) and value.isdigit())
    return not (name.endswith("PAGER") and value in _HARMLESS_PAGERS)
