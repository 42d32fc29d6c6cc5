"""Makes the gate of a session lazily: many turns have no effect, and loading the rules takes longer
than the rest of the start."""

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.core.effects import Effect, Gate, Resolve, Unconfined, Verdict
from hermes_agent.core.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.policy.files.loader import Policies


class GateFactory:
    """The policies of a home; `user` is the home folder of the user."""

    def __init__(
        self,
        home: Path,
        user: Path,
        unconfined: Unconfined = lambda: None,
    ) -> None:
        self._home = home
        self._user = user
        self._unconfined = unconfined

    @cached_property
    def policies(self) -> "Policies":
        from hermes_agent.policy.files.loader import Policies

        return Policies.of_home(self._home, self._user, unconfined=self._unconfined)

    def expect(self, profile: str) -> None:
        """Raise `UsageError` for an unknown profile, without loading the rules of a known one."""
        bundled = Path(__file__).parent.parent / "policies" / f"{profile}.yaml"
        named = re.compile(rf"^profile: {re.escape(profile)}$", re.MULTILINE)
        if not bundled.is_file() or named.search(bundled.read_text(encoding="utf-8")) is None:
            self.policies.gate(profile)

    def trouble(self) -> HermesError | None:
        """Why every effect is denied: invalid policy files. Loads no rules where no file is."""
        if not any((self._home / "policies").glob("*.y*ml")):
            return None
        if not (problems := self.policies.load().problems):
            return None
        from hermes_agent.policy.files.loader import PolicyFilesInvalid

        found = PolicyFilesInvalid(problems)
        return HermesError(f"every effect is denied: {found.message}", found.hint)

    def gate(self, profile: str, granted: frozenset[str] | None = None) -> Gate:
        return _LazyGate(lambda: self.policies.gate(profile, granted))

    def adopt(self, rules: str) -> None:
        """Save rules that somebody approved permanently."""
        from hermes_agent.policy.files.approved_rules import adopt

        adopt(self.policies.folder, rules)


class _LazyGate:
    def __init__(self, make: Callable[[], Gate]) -> None:
        self._make = make

    @cached_property
    def _gate(self) -> Gate:
        return self._make()

    def outside(self) -> frozenset[str]:
        return self._gate.outside()

    async def judge(
        self, effect: Effect, resolve: Resolve, granted: frozenset[str] = frozenset()
    ) -> Verdict:
        return await self._gate.judge(effect, resolve, granted)
