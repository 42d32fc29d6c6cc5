"""Which models serve which role: the session's own with its fallbacks, and others for side work."""

from hermes_agent.core.errors import HermesError
from hermes_agent.core.protocols import Model
from hermes_agent.core.records import ModelRole
from hermes_agent.core.settings.root import ModelSettings
from hermes_agent.host.unavailable import UnavailableModel
from hermes_agent.models.registry import ModelRegistry


def names_for(use: ModelRole, chosen: str, settings: ModelSettings) -> tuple[str, ...]:
    """The models for a role, in order of preference; empty when none is configured."""
    uses, main = settings.uses, (chosen, *settings.fallbacks)
    cheap = uses.cheap or main
    return {
        "main": main,
        "test": (chosen,),
        "cheap": cheap,
        "compaction": uses.compaction or main,
        "review": uses.review or cheap,
        "titles": uses.titles,
        "vision": uses.vision,
        "judge": uses.judge or main,
    }[use]


class ModelRoles:
    """Opens each combination once. An unavailable model raises its error when it is called."""

    def __init__(self, models: ModelRegistry) -> None:
        self._models = models
        self._settings = models.settings
        self._open: dict[tuple[str, ...], Model] = {}

    def route(self, use: ModelRole, chosen: str) -> Model | None:
        if self._models.settings is not self._settings:
            self._settings, self._open = self._models.settings, {}
        names = names_for(use, chosen, self._settings)
        if not names:
            return None
        if names not in self._open:
            try:
                self._open[names] = self._models.open(names)
            except HermesError as error:  # not cached: it may work next time
                return UnavailableModel(names[0], error)
        return self._open[names]
