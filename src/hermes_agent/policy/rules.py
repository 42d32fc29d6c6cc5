"""Rules as small functions, and the gate made of them.

A rule looks at one effect and gives a verdict, or None when it has nothing to say. The strictest
verdict counts. Commands are not parsed yet: a rule sees a command as one text."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.core.protocols import Effect, Gate, Verdict
from hermes_agent.core.sensitive import holds_secrets, is_run_by_others
from hermes_agent.policy.places import inside, places

Rule = Callable[[Effect], Verdict | None]

_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
_COMMAND_CHARS = 200

log = logging.getLogger(__name__)


def strictest(*rules: Rule) -> Gate:
    """Deny over ask over allow; the first of equals gives the reason. What no rule covers asks."""
    return _Strictest(rules)


@dataclass(frozen=True)
class _Strictest:
    rules: tuple[Rule, ...]

    def judge(self, effect: Effect) -> Verdict:
        given = [verdict for rule in self.rules if (verdict := _safely(rule, effect))]
        if not given:
            return Verdict("ask", f"no rule covers {effect.tool}", "default")
        return max(given, key=lambda verdict: _STRICTNESS[verdict.action])


def _safely(rule: Rule, effect: Effect) -> Verdict | None:
    """A rule that fails refuses: nobody knows what it would have said."""
    try:
        return rule(effect)
    except Exception as error:
        name = getattr(rule, "__name__", type(rule).__name__)
        log.exception("rule %s failed on %s", name, effect.tool)
        return Verdict("deny", f"the rule {name} failed: {error}", name)


def first(*rules: Rule) -> Rule:
    """The first of these that has something to say; the later ones are not asked then."""

    def first(effect: Effect) -> Verdict | None:
        return next((verdict for rule in rules if (verdict := rule(effect))), None)

    return first


def own_results(home: Path) -> Rule:
    """Allow reading what a session's own calls gave and was too large to show whole."""

    def own_results(effect: Effect) -> Verdict | None:
        folders = [home.resolve() / kind / effect.session for kind in ("results", "terminals")]
        found = list(places(effect))
        if found and all(
            place.access == "read" and any(inside(folder, place) for folder in folders)
            for place in found
        ):
            return Verdict("allow", "it is a result of this session", "own-results")
        return None

    return own_results


def within_grant(granted: frozenset[str] | None) -> Rule:
    """Refuse a tool whose capability the agent was not given. None means no limit was named."""

    def grant(effect: Effect) -> Verdict | None:
        if granted is None:
            return None
        lacking = sorted(set(effect.capabilities) - granted)
        if not lacking:
            return None
        return Verdict("deny", f"the agent lacks the capability {', '.join(lacking)}", "grant")

    return grant


def own_tools(effect: Effect) -> Verdict | None:
    """A program that registers a tool has said that it may be used; paths are judged besides."""
    if effect.builtin:
        return None
    return Verdict("allow", f"{effect.tool} was registered by the program itself", "own-tools")


def outside(effect: Effect) -> Verdict | None:
    """Ask for every path that leaves the workspace."""
    for place in places(effect):
        if not inside(effect.workspace, place):
            leads = "" if str(place.real) == place.given else f" (it leads to {place.real})"
            reason = f"{place.given!r} is outside the workspace{leads}"
            return Verdict("ask", reason, "outside")
    return None


def secret_files(effect: Effect) -> Verdict | None:
    """Ask for files that hold secrets, by their own name and by where they lead."""
    for place in places(effect):
        if holds_secrets(str(place.named)) or holds_secrets(str(place.real)):
            return Verdict("ask", f"{place.given!r} may hold secrets", "secret-files")
    return None


def startup_files(effect: Effect) -> Verdict | None:
    """Ask before writing what other programs run later."""
    for place in places(effect):
        if place.access == "write" and (
            is_run_by_others(str(place.named)) or is_run_by_others(str(place.real))
        ):
            reason = f"{place.given!r} is run by other programs later"
            return Verdict("ask", reason, "startup-files")
    return None


def hermes_home(home: Path) -> Rule:
    """Ask for everything in the home of Hermes, and for reading folders that contain it. A
    workspace that lies in the home is not part of it here."""

    def hermes_home(effect: Effect) -> Verdict | None:
        real_home = home.expanduser().resolve()
        own_workspace = Path(effect.workspace).resolve().is_relative_to(real_home)
        for place in places(effect):
            if own_workspace and inside(effect.workspace, place):
                continue
            if inside(real_home, place) or real_home.is_relative_to(place.real):
                reason = f"{place.given!r} holds Hermes' own files"
                return Verdict("ask", reason, "hermes-home")
        return None

    return hermes_home


def reading_inside(effect: Effect) -> Verdict | None:
    """Allow tools that only read files, all of them in the workspace."""
    return _files_inside(effect, frozenset({"read"}), "reading-inside")


def files_inside(effect: Effect) -> Verdict | None:
    """Allow tools that only read and write files, all of them in the workspace."""
    return _files_inside(effect, frozenset({"read", "write"}), "files-inside")


def _files_inside(effect: Effect, accesses: frozenset[str], rule: str) -> Verdict | None:
    found = list(places(effect))
    if not found or set(effect.capabilities) != {"filesystem"}:
        return None
    if all(place.access in accesses and inside(effect.workspace, place) for place in found):
        return Verdict("allow", "it stays inside the workspace", rule)
    return None


def harmless(effect: Effect) -> Verdict | None:
    """Allow questions to the user and looking at background commands."""
    looking = effect.tool == "process" and effect.input.get("action") in {"list", "follow"}
    if effect.builtin and (effect.tool == "ask_user" or looking):
        return Verdict("allow", "it changes nothing", "harmless")
    return None


def changes_ask(effect: Effect) -> Verdict | None:
    """Ask before files are written, naming them."""
    if not effect.builtin:
        return None
    for place in places(effect):
        if place.access == "write":
            return Verdict("ask", f"it would change {place.given!r}", "changes")
    return None


def commands_ask(effect: Effect) -> Verdict | None:
    """Ask before a command, showing it."""
    if not effect.builtin or effect.tool != "terminal":
        return None
    text = str(effect.input.get("command", ""))
    short = text if len(text) <= _COMMAND_CHARS else text[:_COMMAND_CHARS] + "…"
    return Verdict("ask", f"it would run `{short}`", "commands")


def commands_allowed(effect: Effect) -> Verdict | None:
    """Allow commands and what is done to them. The shell starts in the workspace, but nothing
    here keeps a command in it: commands are not parsed yet."""
    if effect.builtin and effect.tool in {"terminal", "process"}:
        return Verdict("allow", "the profile allows commands", "commands")
    return None
