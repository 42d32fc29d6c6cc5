"""Which models of a service the set-up proposes: one for the conversation, a cheap one for routine
work."""

import re
from collections.abc import Sequence

from hermes_agent.models.catalogue.catalogue import Catalogue, matching

_GLM = (("glm 5.3", "glm"), ("glm 5.3 flash", "glm flash"))
_GPT = (("gpt sol", "gpt"), ("gpt luna", "gpt nano", "gpt mini"))
_GPT_OSS = (("gpt oss 120b", "llama 70b"), ("gpt oss 20b", "llama 8b"))

PROPOSALS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "anthropic": (("claude sonnet", "claude"), ("claude haiku",)),
    "openai": _GPT,
    "openai-chat": _GPT,
    "codex": _GPT,
    "gemini": (("gemini flash", "gemini"), ("gemini flash lite",)),
    "mistral": (("mistral large", "mistral medium"), ("mistral small", "ministral 8b")),
    "xai": (("grok 4.7", "grok"), ()),
    "deepseek": (("deepseek pro", "deepseek"), ("deepseek flash",)),
    "moonshot": (("kimi k3", "kimi"), ("kimi k2.6",)),
    "zai": _GLM,
    "minimax": (("minimax m3", "minimax"), ()),
    "qwen": (("qwen3 max", "qwen"), ("qwen3 flash", "qwen flash")),
    "cohere": (("command a",), ("command r7b",)),
    "perplexity": (("sonar pro", "sonar"), ()),
    "nous": (("hermes 4 405b", "hermes"), ("hermes 4 70b",)),
    "openrouter": (("anthropic claude sonnet",), ("anthropic claude haiku",)),
    "bedrock": (("global anthropic claude sonnet",), ("global anthropic claude haiku",)),
    "github": (("openai gpt",), ("openai gpt mini",)),
    "huggingface": _GLM,
    "groq": _GPT_OSS,
    "cerebras": _GPT_OSS,
    "sambanova": _GPT_OSS,
    "together": _GLM,
    "fireworks": (("models glm 5p3", "glm"), ("models glm 5p3 flash",)),
    "nvidia": (("nemotron 3 ultra", "nemotron"), ("nemotron 3 super",)),
}
"""By service, in words that a model's name contains; the newest that fits is proposed, and the next
words are tried if none does."""

_NO_CHAT = re.compile(
    r"embed|rerank|whisper|tts|speech|voice|audio|transcri|image|dall-e|sora|veo|imagen|moderation|"
    r"guard|realtime|-live|ocr|nomic|bge-|e5-|minilm|clip",
    re.IGNORECASE,
)
"""Names of models that do not hold conversations."""


def talking(names: Sequence[str]) -> list[str]:
    """The models that hold conversations, as far as their names tell."""
    return [name for name in names if not _NO_CHAT.search(name)]


def propose(service: str, listed: Sequence[str], catalogue: Catalogue) -> tuple[str, str]:
    """A model and a cheap one, as `service/name`; empty where nothing fits. `listed` is what the
    service lists; empty if it has no list."""
    names = talking(listed or catalogue.names(service))
    # A list has names that only the service understands, such as previews.
    known = [name for name in names if _calls_tools(catalogue, name)] or names
    if service not in PROPOSALS or not known:
        return next(iter(known), ""), ""
    main, cheap = (_first(known, words) for words in PROPOSALS[service])
    main = main or known[0]
    return main, "" if cheap == main else cheap


def _calls_tools(catalogue: Catalogue, name: str) -> bool:
    facts = catalogue.facts(name)
    return facts is not None and facts.tools


def _first(names: Sequence[str], alternatives: Sequence[str]) -> str:
    found = (matching(names, words) for words in alternatives)
    return next((names[0] for names in found if names), "")
