"""Short names for nodes. A node keeps its name as long as its document lives."""

from hermes_agent.core.errors import ToolError
from hermes_agent.tools.browser.page.outline import Key

MAX_COUNT = 20_000
"""Names that are kept; the oldest go first."""


class Refs:
    def __init__(self) -> None:
        self._names: dict[Key, str] = {}
        self._keys: dict[str, Key] = {}
        self._last = 0

    def name(self, key: Key) -> str:
        known = self._names.get(key)
        if known is not None:
            return known
        self._last += 1
        name = self._names[key] = f"e{self._last}"
        self._keys[name] = key
        if len(self._keys) > MAX_COUNT:
            oldest = next(iter(self._keys))
            del self._names[self._keys.pop(oldest)]
        return name

    def key(self, name: str) -> Key:
        bare = name.strip().removeprefix("ref=").strip("[]")
        if bare not in self._keys:
            raise stale(name)
        return self._keys[bare]


def stale(name: str) -> ToolError:
    return ToolError(
        f"there is no {name!r} on the page, or no longer",
        "look again with browser action=snapshot and use a ref from there",
        "changed",
    )
