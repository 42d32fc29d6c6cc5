"""Splits an effect into operations, with their paths resolved."""

import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from hermes_agent.core.effects import Access, Effect, Operation, PathAccess, Resolve
from hermes_agent.policy import shell
from hermes_agent.policy.patterns.globs import Roots, sensible
from hermes_agent.policy.patterns.globs import roots as roots_of
from hermes_agent.policy.word_lists import word_list

Seen = tuple[tuple[str, tuple[str, ...]], ...]

HERE = frozenset({"local", "sandbox"})
"""Kinds of terminals on the user's machine, where the home folders are known."""

ELSEWHERE = word_list("elsewhere")
"""Wrappers behind which paths are those of another machine or another root."""

_VERBS: Mapping[Access, str] = {"read": "reading", "write": "writing", "delete": "deleting"}


class KnownFolders(Struct, frozen=True):
    """Folders of this machine that rules speak of."""

    user: str
    hermes: str


class ParsedEffect(Struct, frozen=True):
    """The operations of an effect, where their paths lead, and the values of placeholders."""

    acts: tuple[Operation, ...]
    roots: Roots
    seen: Seen


async def read(effect: Effect, homes: KnownFolders, resolve: Resolve) -> ParsedEffect:
    """The operations of an effect. All paths are resolved at once."""
    here = effect.terminal_kind in HERE
    user = homes.user if here else ""
    acts = _acts(effect, user)
    hermes = homes.hermes if here else ""
    walked: dict[str, None] = dict.fromkeys(filter(None, (effect.workspace, user, hermes)))
    for act in acts:
        for place in () if is_elsewhere(act) else act.places:
            walked |= dict.fromkeys(_walks(effect, user, place))
    names = [name for name in walked if sensible(name)]
    led = await resolve(names)
    found = dict(zip(names, (tuple(paths) for paths in led), strict=True))
    roots = roots_of(
        _both(effect.workspace, found), _both(user, found), _both(hermes, found), effect.session
    )
    looked = tuple(_looked_up(effect, user, act, found) for act in acts)
    return ParsedEffect(looked, roots, tuple(found.items()))


def recorded(seen: Seen) -> Resolve:
    """Resolves paths as they were when an effect was judged; unknown ones resolve to themselves."""
    known = dict(seen)

    async def resolve(paths: Sequence[str]) -> Sequence[tuple[str, ...]]:
        return [known.get(path, (path,)) for path in paths]

    return resolve


def describe(act: Operation) -> str:
    """An operation in a few words, for reasons."""
    match act.kind:
        case "path":
            place = act.places[0] if act.places else PathAccess("read", act.text)
            leads = [path for path in place.real if path not in (place.given, place.named)]
            where = f" (resolves to {leads[0]})" if leads else ""
            return f"{_VERBS[place.access]} {place.given or act.text!r}{where}"
        case "host":
            return f"reaching {act.text or 'an unknown host'}"
        case "call":
            return f"the tool {act.text.partition(' ')[0]}"
        case _:
            return f"`{shortened(act.text)}`"


def is_elsewhere(act: Operation) -> bool:
    return bool(act.via) and not ELSEWHERE.isdisjoint(act.via)


def as_json(value: Any) -> str:
    """Whatever a tool was given, as one text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def shortened(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _both(folder: str, found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((folder, *found.get(folder, ())))) if folder else ()


def _acts(effect: Effect, user: str) -> tuple[Operation, ...]:
    places = tuple(_place(effect, user, access, given) for access, given in effect.paths)
    given = as_json(effect.input) if effect.input else ""
    call = Operation("call", f"{effect.tool} {given}".strip(), places=places, hosts=effect.hosts)
    acts = [call]
    acts += [Operation("path", place.given, places=(place,)) for place in places]
    acts += [Operation("host", host, hosts=(host,)) for host in effect.hosts]
    if effect.command is not None:
        folder = effect.folder or effect.workspace
        acts += shell.read(effect.command, folder=folder, home=user or "~")
    return tuple(acts)


def _place(effect: Effect, user: str, access: Access, given: str) -> PathAccess:
    path = given
    if path == "~" or path.startswith("~/"):
        if not user:
            return PathAccess(access, given)
        path = user + path[1:]
    elif path.startswith("~"):
        return PathAccess(access, given)
    named = posixpath.normpath(posixpath.join(effect.workspace, path))
    return PathAccess(access, given, named if sensible(named) else "")


def _walks(effect: Effect, user: str, place: PathAccess) -> tuple[str, ...]:
    """The paths to follow for a place. `a/../b` is not `b` where a is a link, so such a path is
    followed as it is written, too; one that cannot be is a place that nobody can tell."""
    names = place.given.split("/")
    if not place.named or ".." not in names:
        return (place.named,) if place.named else ()
    given = user + place.given[1:] if place.given.startswith("~/") and user else place.given
    for folder in (effect.folder or effect.workspace, effect.workspace):
        written = posixpath.join(folder, given)
        if posixpath.normpath(written) == place.named and sensible(written):
            return (place.named, written)
    climbs = names.count("..")
    return (place.named,) if names[:climbs] == [".."] * climbs else ()


def _looked_up(
    effect: Effect, user: str, act: Operation, found: Mapping[str, tuple[str, ...]]
) -> Operation:
    if not act.places:
        return act
    places = []
    for place in act.places:
        if is_elsewhere(act):
            # which files a pattern fits there, nobody has looked
            known = sensible(place.named) and not (place.glob and place.access == "read")
            found = {place.named: (place.named,)} if known else {}
        led = [path for walk in _walks(effect, user, place) for path in found.get(walk, ())]
        places.append(msgspec.structs.replace(place, real=tuple(dict.fromkeys(led))))
    return msgspec.structs.replace(act, places=tuple(places))
