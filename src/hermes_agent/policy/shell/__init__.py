"""Shell text as the acts that it would do."""

from hermes_agent.core.effects import Operation
from hermes_agent.policy.shell.interpreter.collector import MAX_ACTS
from hermes_agent.policy.shell.interpreter.command import dispatch, is_known, run_simple
from hermes_agent.policy.shell.interpreter.interpreter import ShellInterpreter
from hermes_agent.policy.shell.interpreter.state import ShellContext, State
from hermes_agent.policy.shell.parser.commands import ShellParser
from hermes_agent.policy.shell.parser.syntax import UnreadableShell

__all__ = ["read"]

_MAX_TEXT = 100_000
_ODD = {"\0", "\x01", "\x7f"}
"""Signs that bash drops or uses for itself."""


def read(text: str, *, folder: str, home: str = "~") -> tuple[Operation, ...]:
    """Everything that bash would do with this text in this folder, as far as that can be known
    beforehand. Where it cannot, there is an act of the kind `unknown`. Never raises."""
    if len(text) > _MAX_TEXT:
        return (_unknown(text, "too long to read"),)
    if not _ODD.isdisjoint(text) or not _encodes(text):
        return (_unknown(text, "characters that are invalid in shell text"),)
    walk = ShellInterpreter(run_simple, dispatch, is_known)
    state = State((folder if folder.startswith("/") else None,), home)
    try:
        script = ShellParser(text, walk.budget).whole()
        walk.script(script, state, ShellContext())
    except UnreadableShell as problem:
        return (*_most(walk), _unknown(text, f"not understood: {problem}"))
    except RecursionError:
        return (*_most(walk), _unknown(text, "nested too deeply"))
    return tuple(walk.note.acts)


def _most(walk: ShellInterpreter) -> list[Operation]:
    return list(walk.note.acts)[: MAX_ACTS - 1]


def _unknown(text: str, reason: str) -> Operation:
    return Operation("unknown", text=text[:500].encode(errors="replace").decode(), reason=reason)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
