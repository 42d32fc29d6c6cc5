"""All models of a runtime: from names to model objects, with their facts, keys and health."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError, UsageError
from hermes_agent.core.messages import ModelFacts
from hermes_agent.core.protocols import Clock, Model
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.core.settings.services import ModelService
from hermes_agent.models.catalogue.catalogue import Catalogue, home_file
from hermes_agent.models.catalogue.services import known_services, service_of
from hermes_agent.models.keys.inline_secrets import inline_secrets
from hermes_agent.models.keys.sources import KeyOrigin, SourceRow, described, sources
from hermes_agent.models.lazy_client import LazyWireClient, Scripted
from hermes_agent.models.routing.credential_pool import CoolingKey, CredentialPool
from hermes_agent.models.shared import known_facts
from hermes_agent.models.wires.base import Credential, Endpoint, WireClient

if TYPE_CHECKING:
    # Imported late: this loads asyncio, and many commands only look up a name.
    from hermes_agent.models.catalogue.listing import ListedModel
    from hermes_agent.models.media.service import MediaModel
    from hermes_agent.models.routing.circuit_breaker import CircuitBreaker
    from hermes_agent.models.routing.failover import Candidate


FIRST = {"ordinary": 0.5, "reasoning": 1.0, "own": 2.5}
"""How long an answer may take to begin, relative to `silence_seconds`: a model that reasons thinks
first, and a server of one's own may load its model."""
INSIDE = ("scripted", "builtin")
"""Wires of models inside this process, without keys or connections."""


class ModelHealth(Struct, frozen=True):
    """The health of a model, for people to see."""

    model: str
    circuit: Literal["closed", "open", "half-open"]
    until: float
    """When it will be asked again, or 0."""
    reason: str
    resting: tuple[CoolingKey, ...]
    """The keys of its service that cool down."""


class ServiceRow(Struct, frozen=True):
    """A service, for people to see."""

    name: str
    wire: str
    """Its wire format; empty if the service is misconfigured."""
    models: int
    """How many the catalogue knows."""
    needs_key: bool
    keys: tuple[SourceRow, ...]
    """Where its keys come from."""
    hint: str
    """How to set it up, if something is missing."""
    lacks: str
    """The variable to set or the command to run."""


class ModelRegistry:
    """Circuits, keys and connections are shared by all models opened here. `learn` is called with
    every secret as soon as it is known."""

    def __init__(
        self,
        settings: ModelSettings,
        environ: Mapping[str, str],
        home: Path,
        *,
        clock: Clock = time.time,
        sleep: Callable[[float], Awaitable[None]] | None = None,
        random: Callable[[], float] | None = None,
        learn: Callable[[str, str], None] = lambda _label, _secret: None,
    ) -> None:
        self._environ = environ
        self._home = home
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._learn = learn
        self._clients: dict[str, LazyWireClient] = {}
        self._leaving: list[LazyWireClient] = []
        self._scripts: dict[str, Scripted] = {}
        self._pools: dict[str, CredentialPool] = {}
        self._old_pools: dict[str, CredentialPool] = {}
        self._circuits: dict[str, CircuitBreaker] = {}
        self._warned: set[str] = set()
        self._settings = settings
        self._refreshed = self._last_refresh()
        self.catalogue = Catalogue(home, known_services(settings))
        self._learn_inline()

    @property
    def settings(self) -> ModelSettings:
        return self._settings

    def renew(self, settings: ModelSettings, environ: Mapping[str, str]) -> None:
        """Apply new settings. Running calls, circuits and unchanged connections are kept."""
        refreshed = self._last_refresh()
        if (settings, environ, refreshed) == (self._settings, self._environ, self._refreshed):
            return
        self._settings, self._environ, self._refreshed = settings, environ, refreshed
        self.catalogue = Catalogue(self._home, known_services(settings))
        self._learn_inline()
        self._scripts = {}
        self._old_pools |= self._pools
        self._pools = {}
        for circuit in self._circuits.values():
            circuit.failures = settings.circuit_failures
            circuit.seconds = settings.circuit_seconds

    def resolve(self, written: str) -> str:
        """The full name, `service/name`, of a model as somebody wrote it."""
        return self.catalogue.resolve(written)

    def open(self, names: Sequence[str]) -> Model:
        """The first model, with the others as its fallbacks, in order. Connects to nothing yet.
        Raises if the first name is invalid or no model has a key; an invalid fallback is left out
        with a warning."""
        import asyncio
        import random

        from hermes_agent.models.routing.fallback_model import FallbackModel

        first, *others = names or ("",)
        lacking = {(name := self.catalogue.resolve(first)): self._lack(name)}
        for other in others:
            try:
                name = self.catalogue.resolve(other)
                self.facts(name)  # raises for a missing script or file
                lacking[name] = self._lack(name)
            except UsageError as error:
                self._leave_out(other, error)
        lacks = [lack for lack in lacking.values() if lack is not None]
        if len(lacks) == len(lacking):
            raise lacks[0]
        return FallbackModel(
            [self._candidate(name) for name in lacking],
            self._settings,
            clock=self._clock,
            sleep=self._sleep or asyncio.sleep,
            random=self._random or random.random,
        )

    def facts(self, name: str) -> ModelFacts:
        """What the catalogue knows about a model, overridden by the settings; also of a service
        that is not set up."""
        name = self.catalogue.resolve(name)
        known = self.catalogue.facts(name)
        try:
            _, service, url = self._service(name)
        except UsageError:
            if known is None:
                raise
            return known_facts(name, self._settings, known)
        if service.wire in INSIDE:
            return self._script(name).model.facts
        if service.wire == "local":
            from hermes_agent.models.local.files import find_model, gguf_facts

            known = gguf_facts(find_model(name.partition("/")[2], url))
        return known_facts(name, self._settings, known)

    def missing(self, name: str) -> str:
        """What the settings of a model's service lack, such as its address; empty if nothing."""
        try:
            self._service(name)
        except UsageError as error:
            return f"{error.message}: {error.hint}"
        return ""

    def check(self, name: str) -> None:
        """Raise if a model cannot work: unknown name, no key, a missing package."""
        name = self.catalogue.resolve(name)
        if (lack := self._lack(name)) is not None:
            raise lack
        _, service, _ = self._service(name)
        if service.wire in INSIDE:
            self._script(name)
        elif service.wire == "local":  # the others need no optional package
            self._client(name).client()

    def media(self, name: str) -> "MediaModel":
        """The model for speech or pictures `service/name`, of a service with an OpenAI format."""
        from hermes_agent.models.media.service import WIRES, MediaModel

        own, service, url = self._service(name)
        model, silence = name.partition("/")[2], self._settings.silence_seconds
        if service.wire not in WIRES or not model:
            raise UsageError(
                f"{name!r} can neither speak, transcribe nor draw",
                "name a service with OpenAI's format and its model",
            )
        endpoint = Endpoint(name, model, service, url, ModelFacts(), silence)
        return MediaModel(endpoint, self._pool(own, service), self._sleep)

    async def list_models(self, service: str) -> "tuple[ListedModel, ...] | None":
        """The models that a service itself lists; None where it has no list."""
        from hermes_agent.models.catalogue.listing import list_models

        own, row, url = self._service(service)
        silence = self._settings.silence_seconds
        endpoint = Endpoint(own, "", row, url, ModelFacts(), silence)
        found = self._sources(own, row)
        return await list_models(endpoint, await found[0].credential() if found else Credential())

    def services(self) -> list[dict[str, Any]]:
        """Every service: wire format, number of known models, sources of keys, what is missing."""
        names = sorted(known_services(self._settings))
        return [msgspec.to_builtins(self._row(name)) for name in names if name not in INSIDE]

    def health(self) -> tuple[ModelHealth, ...]:
        """The health of every model that was opened here."""
        now = self._clock()
        rows = []
        for name, circuit in self._circuits.items():
            state = circuit.state(now)
            until = max(circuit.until if state == "open" else 0.0, circuit.held_until)
            trouble = circuit.trouble if state != "closed" or until > now else None
            pool = self._pools.get(name.partition("/")[0])
            resting = pool.resting(now) if pool is not None else ()
            rows.append(
                ModelHealth(
                    name,
                    state,
                    until if until > now else 0.0,
                    trouble.message if trouble is not None else "",
                    tuple(rest for rest in resting if rest.model in ("", name)),
                )
            )
        return tuple(rows)

    async def tidy(self) -> None:
        """Close idle connections, and clients that the settings no longer name."""
        leaving, self._leaving = self._leaving, []
        for client in leaving:
            if client.is_idle:
                await client.close()
        for client in tuple(self._clients.values()):
            await client.rest()

    async def close(self) -> None:
        leaving = [*self._leaving, *self._clients.values()]
        self._leaving, self._clients = [], {}
        for client in leaving:
            client.is_retired = True
            await client.close()

    # parts

    def _leave_out(self, written: str, error: UsageError) -> None:
        if written in self._warned:
            return
        import logging  # late: many commands only look up a name

        self._warned.add(written)
        setting = "models.fallbacks" if written in self._settings.fallbacks else "models.uses"
        log = logging.getLogger("hermes.models")
        log.warning("skipping %r in %s: %s", written, setting, error.message)

    def _learn_inline(self) -> None:
        for place, secret in inline_secrets(self._settings, self._environ):
            self._learn(place, secret)

    def _last_refresh(self) -> float:
        """When another process last wrote the catalogue in the home."""
        try:
            return home_file(self._home).stat().st_mtime
        except OSError:
            return 0.0

    def _row(self, own: str) -> ServiceRow:
        models = len(self.catalogue.names(own))
        try:
            _, service, _ = self._service(own)
            keys, lack = described(self._sources(own, service)), self._lack(own)
        except UsageError as error:
            hint = f"{error.message}: {error.hint}"
            return ServiceRow(own, "", models, True, (), hint, error.hint)
        hint = lack.hint if lack is not None else ""
        lacks = _lacking(own, service, keys) if lack is not None else ""
        return ServiceRow(own, service.wire, models, service.needs_key, keys, hint, lacks)

    def _service(self, name: str) -> tuple[str, ModelService, str]:
        own, service, url = service_of(name, self._settings, self._environ)
        if service.wire == "local" and not url:
            url = (self._home.absolute() / "models").as_uri()
        return own, service, url

    def _candidate(self, name: str) -> "Candidate":
        from hermes_agent.models.routing.circuit_breaker import CircuitBreaker
        from hermes_agent.models.routing.failover import Candidate

        if name not in self._circuits:
            settings = self._settings
            self._circuits[name] = CircuitBreaker(
                settings.circuit_failures, settings.circuit_seconds
            )
        own, service, _ = self._service(name)
        client: WireClient
        client = self._script(name) if service.wire in INSIDE else self._client(name)
        return Candidate(
            name, self.facts(name), client, self._pool(own, service), self._circuits[name]
        )

    def _script(self, name: str) -> Scripted:
        if name not in self._scripts:
            self._scripts[name] = Scripted(self._opened(name))
        return self._scripts[name]

    def _opened(self, name: str) -> Model:
        _, service, _ = self._service(name)
        if service.wire == "builtin":
            from hermes_agent.models.responder import model

            return model.open_named(name, self._settings)
        from hermes_agent.models.scripted import open_named

        return open_named(name, self._settings, self._environ)

    def first_seconds(self, name: str) -> float:
        """How long a model may take to begin its answer."""
        own, service, _ = self._service(name)
        facts, given = self.facts(name), self._settings.first_seconds
        kind = "reasoning" if facts.efforts or facts.thinking else "ordinary"
        kind = kind if service.needs_key else "own"
        otherwise = FIRST[kind] * self._settings.silence_seconds
        return next((given[key] for key in (name, own, kind) if key in given), otherwise)

    def _client(self, name: str) -> LazyWireClient:
        _, service, url = self._service(name)
        endpoint = Endpoint(
            name=name,
            model=name.partition("/")[2],
            service=service,
            url=url,
            facts=self.facts(name),
            silence=self._settings.silence_seconds,
            first=self.first_seconds(name),
            patience=self._settings.patience_seconds,
        )
        client = self._clients.get(name)
        if client is None or client.endpoint != endpoint:
            if client is not None:
                client.is_retired = True
                self._leaving.append(client)
            client = self._clients[name] = LazyWireClient(endpoint, self._clock)
        return client

    # keys

    def _sources(self, own: str, service: ModelService) -> tuple[KeyOrigin, ...]:
        written = self._settings.keys.get(own, ())
        return sources(own, service, written, self._environ, self._home, self._learn, self._clock)

    def _pool(self, own: str, service: ModelService) -> CredentialPool:
        if own not in self._pools:
            found = self._sources(own, service)
            if not found and service.needs_key:
                # Not cached: a key may be there next time.
                return CredentialPool([_Lacking(_no_key(own, service))], self._clock)
            self._pools[own] = CredentialPool(found, self._clock)
            if own in self._old_pools:
                self._pools[own].keep_cooldowns(self._old_pools.pop(own))
        return self._pools[own]

    def _lack(self, name: str) -> ModelError | None:
        """The error if a model has no key."""
        own, service, _ = self._service(name)
        if not service.needs_key:
            return None
        found = self._sources(own, service)
        # None: unknown until the source is asked.
        if any(source.present() is not False for source in found):
            return None
        return _no_key(own, service, [source.label for source in found])


class _Lacking:
    """A key source that has no key."""

    def __init__(self, error: ModelError) -> None:
        self.label = ""
        self._error = error

    async def credential(self) -> Credential:
        raise self._error

    def refused(self) -> None:
        """Nothing to look up again."""


def _lacking(own: str, service: ModelService, named: Sequence[SourceRow]) -> str:
    if named:
        return ", ".join(source.label for source in named)
    if service.key_variables:
        return service.key_variables[0]
    return f"`hermes model login {own}`" if service.login else f"models.keys.{own}"


def _no_key(own: str, service: ModelService, named: Sequence[str] = ()) -> ModelError:
    """The error for a missing key, with every way to set one."""
    ways = [f"set a key source in models.keys.{own}"]
    if service.login is not None:
        ways.insert(0, f"run `hermes model login {own}`")
    if own in ("openai", "openai-chat"):  # only there does another address mean another kind
        ways.append(f"{service.url_variable} names another server, which may need none")
    variables = " or ".join(service.key_variables)
    if named:
        message = f"{own} has no key: nothing found in {', '.join(named)}"
    elif variables:
        message = f"{own} needs a key: {variables} is not set"
        ways.insert(0, f"`hermes model key {own}` saves one as {service.key_variables[0]}")
    else:
        message = f"{own} needs a key and has none"
    return ModelError("auth", message, "; or ".join(ways))
