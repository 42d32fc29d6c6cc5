"""Asks a model for JSON of a given shape."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import HermesError, ModelError
from hermes_agent.core.messages import Usage
from hermes_agent.core.records import ModelRole


class StructuredAnswer(Struct, frozen=True):
    text: str
    model: str = ""
    usage: Usage = Usage()
    cost: float | None = None


class NoBudget(HermesError):
    """Learning's budget for today is used up."""


Ask = Callable[[ModelRole, str, str, int], Awaitable[StructuredAnswer]]
"""Takes role, system prompt, question and token limit. Raises `NoBudget` or `ModelError`."""

T = TypeVar("T")

AGAIN = (
    "\n\nYour last answer could not be used: {trouble}. Answer again with the JSON object alone, "
    "as described above."
)


async def ask_for(
    ask: Ask, use: ModelRole, system: str, prompt: str, most: int, shape: type[T]
) -> tuple[T, StructuredAnswer]:
    """An answer of this shape. It is asked for twice at most; then it is a `ModelError`."""
    answer = await ask(use, system, prompt, most)
    try:
        return shaped(answer.text, shape), answer
    except ValueError as error:
        again = await ask(use, system, prompt + AGAIN.format(trouble=error), most)
    try:
        return shaped(again.text, shape), again
    except ValueError as error:
        raise ModelError("garbage", f"the model gave an invalid answer twice: {error}") from None


def shaped(text: str, shape: type[T]) -> T:
    """The first JSON object in the text that has the shape, or a `ValueError`."""
    trouble = "there is no JSON object in it"
    for found in _objects(text):
        try:
            return msgspec.convert(found, shape)
        except msgspec.ValidationError as error:
            trouble = str(error)
    raise ValueError(trouble)


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects in a text, in order."""
    decoder, found, position = json.JSONDecoder(strict=False), [], 0
    while (start := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            position = start + 1
            continue
        found.append(value)
    return found
