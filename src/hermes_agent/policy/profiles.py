"""The built-in rule sets by name. Rule files will make gates of the same kind.

No profile turns the gate off, and no rule here looks inside a command."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hermes_agent.core.errors import UsageError
from hermes_agent.core.protocols import Gate
from hermes_agent.policy import rules
from hermes_agent.policy.rules import Rule, strictest

_ALWAYS: tuple[Rule, ...] = (
    rules.secret_files,
    rules.startup_files,
    rules.outside,
    rules.own_tools,
    rules.harmless,
)

PROFILES: Mapping[str, tuple[Rule, ...]] = MappingProxyType(
    {
        "careful": (rules.reading_inside, rules.changes_ask, rules.commands_ask),
        "sandbox": (rules.files_inside, rules.commands_allowed),
    }
)
"""What each profile adds to the rules that always hold.

`careful`: reading inside the workspace is allowed; changes and commands ask.
`sandbox`: files inside the workspace may be changed and commands run without a question. A command
can reach whatever the user can, so the workspace should be one that may be lost."""


def open_gate(profile: str, *, home: Path, granted: frozenset[str] | None = None) -> Gate:
    """The gate of a profile, for an agent whose home is `home` and which was granted these
    capabilities (None: no limit was named)."""
    if profile not in PROFILES:
        raise UsageError(f"no policy called {profile!r}", f"there are: {', '.join(PROFILES)}")
    judged = strictest(rules.hermes_home(home), *_ALWAYS, *PROFILES[profile])
    return strictest(
        rules.within_grant(granted), rules.first(rules.own_results(home), judged.judge)
    )
