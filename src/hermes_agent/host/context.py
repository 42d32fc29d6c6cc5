"""What all services of a runtime share."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.root import Settings
from hermes_agent.host.bus import Bus
from hermes_agent.host.config import load_settings
from hermes_agent.host.home import Home
from hermes_agent.policy.redaction.redactor import Redactor
from hermes_agent.policy.secrets import Secrets
from hermes_agent.store.store import Store

log = logging.getLogger("hermes.runtime")


class RuntimeContext:
    """The home, settings, clocks, bus, secrets and store of one runtime."""

    store: Store
    """Set once the runtime has opened it."""

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        *,
        settings: Settings | None = None,
        clock: Clock = time.time,
        ticks: Clock = time.monotonic,
    ) -> None:
        self.home = Home(home)
        self.environ = environ
        self.settings = settings or load_settings(self.home.config, environ)
        self._reloads = settings is None
        self.clock = clock
        self.ticks = ticks
        """A monotonic clock, which stops while the machine is suspended."""
        self.bus = Bus()
        self.redact = Redactor(environ)
        self._secrets = self._load_secrets()
        self.started = self.last_activity = clock()
        self.settings_changed: list[Callable[[], None]] = []
        """Called after `refresh_settings` has loaded new settings."""
        self._config_state = self._stat_config()

    @property
    def environment(self) -> dict[str, str]:
        """The environment with the secrets of the home's `.env`."""
        return self._secrets.beside(self.environ)

    def secret(self, name: str) -> str:
        return self._secrets.get(name)

    def note_activity(self) -> None:
        self.last_activity = self.clock()

    def refresh_settings(self) -> None:
        """Reload config.yaml; applies to new sessions and to turns that start from now on."""
        if self._reloads:
            self.settings = load_settings(self.home.config, self.environ)
            self._secrets = self._load_secrets()
            for changed in self.settings_changed:
                changed()

    def reload_if_changed(self) -> None:
        """Apply changes of config.yaml or `.env`, without waiting for a session."""
        state = self._stat_config()
        if state != self._config_state:
            self._config_state = state
            try:
                self.refresh_settings()
            except HermesError as error:
                log.warning("keeping the old settings: %s", error.message)

    def _stat_config(self) -> tuple[tuple[int, int], ...]:
        """Changes with the files and their permissions."""
        return tuple(_stat(self.home.path / name) for name in ("config.yaml", ".env"))

    def _load_secrets(self) -> Secrets:
        """Load the secrets, and redact them from now on."""
        secrets = Secrets(self.environ, self.home.path)
        for name in secrets.names():
            self.redact.learn(name, secrets.get(name))
        return secrets


def _stat(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
    except OSError:
        return (0, 0)
    return (facts.st_ctime_ns, facts.st_ino)
