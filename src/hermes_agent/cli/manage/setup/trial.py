"""Tests services in parallel: asks each for its models and one of them a small question."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from hermes_agent.cli.manage.setup.find import FoundService
from hermes_agent.core.errors import HermesError, ModelError
from hermes_agent.core.settings.root import ModelSettings, Settings
from hermes_agent.core.settings.services import ServiceSettings
from hermes_agent.core.timeouts import awake
from hermes_agent.models.catalogue.listing import ListedModel
from hermes_agent.models.catalogue.proposals import propose, talking
from hermes_agent.models.probe import QUESTION, probe
from hermes_agent.models.registry import ModelRegistry

LIST_SECONDS = 10.0
ANSWER_SECONDS = 30.0
OWN_ANSWER_SECONDS = 120.0
"""A server of one's own may load the model first."""
FRAME_SECONDS = 0.1
_NO_MODEL = {
    "ollama": "`ollama pull qwen3` downloads one",
    "lmstudio": "download and load one in LM Studio",
    "azure": "its models are your deployments: `hermes model azure/DEPLOYMENT`",
}


class ServiceTrial(NamedTuple):
    """How the test of a service went."""

    service: FoundService
    seconds: float = 0.0
    model: str = ""
    """The model that answered, as `service/name`."""
    cheap: str = ""
    windows: dict[str, int] = {}
    """The models that it lists for conversations, as `service/name`, each with the context window
    that it names, or 0."""
    error: str = ""
    hint: str = ""
    kind: str = ""

    @property
    def ok(self) -> bool:
        return not self.error

    @property
    def is_absent(self) -> bool:
        """Whether this is a server that nobody named and that is not there."""
        return self.service.is_guess and self.kind in ("unreachable", "timeout", "broken_stream")


@dataclass(frozen=True)
class ServiceTester:
    """`done` hears of each test as it ends, `progress` of what is still open."""

    settings: Settings
    home: Path
    done: Callable[[ServiceTrial], None]
    progress: Callable[[str], None]
    list_seconds: float = LIST_SECONDS

    def test(self, found: Sequence[FoundService], model: str = "") -> list[ServiceTrial]:
        """Test all at once, with `model` where it is one of theirs, else with a proposal."""
        return asyncio.run(self._test_all(found, model or self.settings.model))

    async def _test_all(self, found: Sequence[FoundService], model: str) -> list[ServiceTrial]:
        started = time.monotonic()
        tasks = {asyncio.create_task(self._test(one, model)): one.name for one in found}
        waiting = set(tasks)
        try:
            while waiting:
                ended, waiting = await asyncio.wait(
                    waiting, timeout=FRAME_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                self.progress("")
                for task in ended:
                    self.done(task.result())
                if names := ", ".join(name for task, name in tasks.items() if task in waiting):
                    self.progress(f"testing {names} … {time.monotonic() - started:.0f} s")
        finally:
            self.progress("")
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return [task.result() for task in tasks]

    async def _test(self, service: FoundService, model: str) -> ServiceTrial:
        started = time.monotonic()
        patience = OWN_ANSWER_SECONDS if service.own_server else ANSWER_SECONDS
        settings = _once(self.settings.models, service, patience)
        registry = ModelRegistry(settings, service.environ, self.home)
        trial = ServiceTrial(service)
        try:
            trial = await self._asked(trial, registry, model, patience)
        except HermesError as error:
            kind = error.kind if isinstance(error, ModelError) else ""
            trial = trial._replace(error=error.message, hint=error.hint, kind=kind)
        finally:
            await registry.close()
        return trial._replace(seconds=round(time.monotonic() - started, 3))

    async def _asked(
        self, trial: ServiceTrial, registry: ModelRegistry, model: str, patience: float
    ) -> ServiceTrial:
        service = trial.service.name
        try:
            async with awake(self.list_seconds):
                listed = await registry.list_models(service)
        except TimeoutError:
            waited = f"sent no list of models within {self.list_seconds:g} seconds"
            url = trial.service.url
            raise ModelError(
                "timeout", waited, f"check what listens at {url}" * bool(url)
            ) from None
        windows = _windows(service, listed or ())
        name, cheap = propose(service, list(windows), registry.catalogue)
        if model.startswith(f"{service}/") and (not windows or model in windows):
            name = model
        trial = trial._replace(model=name, cheap=cheap, windows=windows)
        if not name:
            hint = _NO_MODEL.get(service, f"`hermes model {service}/NAME` chooses one by name")
            return trial._replace(error="lists no model", hint=hint, kind="no_model")
        try:
            async with awake(patience):
                tested = await probe(name, registry.open([name]).stream(QUESTION))
        except TimeoutError:
            raise ModelError(
                "timeout", f"{name} did not answer within {patience:g} seconds"
            ) from None
        return trial._replace(error=tested.error, hint=tested.hint, kind=tested.trouble)


def _windows(service: str, listed: Sequence[ListedModel]) -> dict[str, int]:
    named = {f"{service}/{one.name}": one.context for one in listed}
    return {name: named[name] for name in talking(list(named))}


def _once(models: ModelSettings, service: FoundService, seconds: float) -> ModelSettings:
    """The settings with this service, without retries and with less patience."""
    services = dict(models.services)
    if service.settings:
        services[service.name] = ServiceSettings(**service.settings)
    return replace(
        models, services=services, fallbacks=(), retries=0, silence_seconds=seconds,
        first_seconds={service.name: seconds}, patience_seconds=seconds,
    )  # fmt: skip
