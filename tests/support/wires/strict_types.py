"""An SDK's own request types, taken at their word. Pydantic looks into what is declared as iterable
only when somebody iterates, takes a string for one, and passes over fields it does not know: here
lists are lists and unknown fields are errors."""

import types
import typing
from collections.abc import Iterable
from typing import Any, NotRequired, Required, Union

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict, is_typeddict


def adapter(declared: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_strict(declared, {}))


def _strict(declared: Any, known: dict[Any, Any]) -> Any:
    if is_typeddict(declared):
        return _dictionary(declared, known)
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is typing.Literal or not arguments:
        return declared
    inner = tuple(_strict(argument, known) for argument in arguments)
    if origin is Iterable:
        return list[inner[0]]  # type: ignore[valid-type]  # a type that is made here
    if origin in (Union, types.UnionType):
        return Union[inner]  # noqa: UP007 - as many as there are
    if origin is typing.Annotated or origin in (Required, NotRequired):
        return inner[0]
    return origin[inner]


def _dictionary(declared: Any, known: dict[Any, Any]) -> Any:
    if declared in known:
        return known[declared]
    known[declared] = Any  # inside itself, any value will do
    fields = {}
    # As declared: the class itself knows nothing of what its annotations, being text, demand.
    for name, kind in typing.get_type_hints(declared, include_extras=True).items():
        demanded = typing.get_origin(kind) is Required or name in declared.__required_keys__
        fields[name] = (Required if demanded else NotRequired)[_strict(kind, known)]
    made = TypedDict(declared.__name__, fields)  # type: ignore[misc]  # from a value
    made.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    known[declared] = made
    return made
