"""The models for pictures and sound that the settings name."""

from dataclasses import dataclass

from hermes_agent.core.errors import UsageError
from hermes_agent.core.messages import Media
from hermes_agent.host.context import RuntimeContext
from hermes_agent.models.registry import ModelRegistry


@dataclass(frozen=True)
class ConfiguredMedia:
    _models: ModelRegistry
    _context: RuntimeContext

    async def draw(self, prompt: str, size: str) -> Media:
        names = self._context.settings.models.uses.image
        chosen = _chosen("models.uses.image", names[0] if names else "", "openai/gpt-image-1")
        data = await self._models.media(chosen).draw(prompt, size)
        return Media("image/png", data)

    async def speak(self, text: str) -> Media | None:
        from hermes_agent.models.media.speaking import speak

        chosen = _chosen("gateway.speak", self._context.settings.gateway.speak, "local/en-us")
        return await speak(chosen, self._models, text)

    async def transcribe(self, sound: Media) -> str:
        from hermes_agent.models.media.transcription import transcribe

        chosen = _chosen("gateway.voice", self._context.settings.gateway.voice, "local/tiny")
        return await transcribe(chosen, self._models, sound)


def _chosen(setting: str, value: str, example: str) -> str:
    if not value:
        raise UsageError(f"no model is set for this ({setting})", f"such as {example}")
    return value
