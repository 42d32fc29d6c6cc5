"""What somebody meant who typed a command, an action or an option that does not exist."""

import argparse
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from hermes_agent.core.errors import UsageError

SYNONYMS = {
    "--help": "-? /? /help",
    "--version": "-v version",
    "add": "extras install plugin plugins",
    "approvals": "allow approve deny yes no",
    "ask": "agent exec message oneshot prompt query run",
    "audit": "trace",
    "backup": "snapshot dump",
    "chat": "cli repl shell talk tui console",
    "config": "configure edit preferences settings",
    "config path": "env home where",
    "cost": "billing budget costs insights spend tokens usage",
    "doctor": "check debug diagnose health security verify",
    "down": "exit kill quit stop",
    "gateway": "bot bots channel channels discord email matrix slack telegram whatsapp",
    "gateway pair": "devices pairing",
    "gateway people": "directory people user users",
    "gateway setup": "connect",
    "help": "docs guide man manual",
    "import": "claw migrate",
    "incidents": "alerts incident pages",
    "interrupt": "abort cancel",
    "logs": "log tail",
    "mcp": "acp server servers",
    "memory": "journal notes remember",
    "memory undo": "forget rollback undo",
    "model": "fallback infer models provider providers",
    "model key": "key keys secrets secret token",
    "model login": "auth login signin",
    "model logout": "logout signout",
    "parked": "unknown",
    "policy": "permissions rules sandbox",
    "proposals": "curator review reviews suggestions",
    "search": "find grep recall",
    "serve": "daemon dashboard node web webui",
    "sessions": "chats conversations history ls list session threads",
    "sessions export": "export save share",
    "sessions resume": "attach continue reopen resume",
    "setup": "init onboard onboarding wizard",
    "skills": "commands hub skill",
    "status": "info ps state system",
    "task": "board cron job jobs kanban schedule scheduler tasks todo webhook webhooks",
    "terminals": "backend backends docker environments ssh terminal",
    "tools": "functions tool toolsets",
    "up": "boot start",
    "watch": "checks heartbeat monitor",
}
"""Other words for a command: those of similar programs, and those that people try."""

_SAME = (
    "list ls all index",
    "show view get cat info inspect describe read open status",
    "add new create install make",
    "remove rm delete del uninstall drop",
    "edit set update change modify rename",
    "run start exec trigger test",
    "log history",
    "undo rollback revert restore again",
    "resume continue enable unpause",
    "pause stop disable retire block",
    "accept approve yes agree allow",
    "reject deny no",
    "verify check validate lint",
)
"""Actions of a command that are called differently elsewhere."""

_OPTIONS = {"--force": "--yes", "-y": "--yes", "--output": "--out", "-o": "--out", "-m": "--model",
            "-s": "--session", "-n": "--limit", "-p": "--policy", "--cwd": "--workspace",
            "--dir": "--workspace", "--resume": "--session", "--silent": "--quiet",
            "-q": "--quiet", "--yolo": "--policy", "-c": "--continue"}  # fmt: skip
_USAGE_LENGTH = 120


def unknown_command(word: str, names: Sequence[str]) -> UsageError:
    """A command that is not among these."""
    if word.lower() in ("update", "upgrade", "self-update", "uninstall"):
        return UsageError(
            f"no command called {word!r}",
            "use the tool you installed Hermes with: pip, pipx or uv",
        )
    known = {name: name for name in names}
    known |= {other: name for name, others in SYNONYMS.items() for other in others.split()}
    near = get_close_matches(word.lower(), known, 1)
    hint = f"did you mean `hermes {known[near[0]]}`? " if near else ""
    if word.startswith("-"):
        return UsageError(
            f"no option called {word!r}", f"{hint}options of a command go after its name"
        )
    return UsageError(f"no command called {word!r}", f"{hint}`hermes --help` lists the commands")


def unknown_choice(parser: argparse.ArgumentParser, action: Any, value: Any) -> UsageError:
    """An action that a command does not have, or a value that an argument cannot take."""
    choices = [str(choice) for choice in action.choices]
    if isinstance(action, argparse._SubParsersAction):
        meant = f"did you mean `{parser.prog} {near}`? " if (near := _near(value, choices)) else ""
        return UsageError(
            f"{parser.prog}: no action called {value!r}",
            f"{meant}the actions are: {', '.join(choices)}",
        )
    meant = f"did you mean {near}? " if (near := _near(str(value), choices)) else ""
    return UsageError(
        f"{parser.prog}: not a valid {_named(action)}: {value!r}",
        f"{meant}use one of: {', '.join(choices)}",
    )


def _near(word: str, choices: Sequence[str]) -> str:
    """The choice that was meant, by its spelling or because it means the same."""
    same = next((group.split() for group in _SAME if word in group.split()), ())
    near = get_close_matches(word.lower(), choices, 1)
    return next((choice for choice in choices if choice in same), near[0] if near else "")


def _named(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else str(
        action.metavar or action.dest
    ).upper()  # fmt: skip


_PLAIN = (
    (r"the following arguments are required: (.+)", r"\1 is required"),
    (r"argument (\S+): expected one argument", r"\1 needs a value"),
    (r"argument (\S+): expected at least one argument", r"\1 needs a value"),
    (r"argument (\S+): not allowed with argument (\S+)", r"use either \1 or \2, not both"),
    (r"one of the arguments (.+) is required", r"one of these is required: \1"),
    (r"argument (\S+): ignored explicit argument (.+)", r"\1 takes no value, but was given \2"),
    (r"argument (\S+): invalid \w+ value: (.+)", r"\1 must be a number, not \2"),
    (r"argument (\S+): (.+)", r"\1: \2"),
)
"""argparse's own sentences, in plain words."""


def bad_usage(parser: argparse.ArgumentParser, message: str) -> UsageError:
    for pattern, plain in _PLAIN:
        if found := re.fullmatch(pattern, message):
            message = found.expand(plain)
            break
    return UsageError(f"{parser.prog}: {message}", usage(parser))


def unknown_words(
    parser: argparse.ArgumentParser, options: argparse.Namespace, stray: list[str], hint: str
) -> UsageError:
    """Words and options that are left over."""
    for action in (one for one in parser._actions if isinstance(one, argparse._SubParsersAction)):
        if chosen := action.choices.get(getattr(options, action.dest, "") or ""):
            return unknown_words(chosen, options, stray, hint)
    odd = next((word for word in stray if word.startswith("-")), "")
    if not odd:
        message = f"{parser.prog}: unexpected {', '.join(map(repr, stray))}"
        return UsageError(message, hint or usage(parser))
    name = odd.partition("=")[0]
    known = [one for one in parser._option_string_actions if one != "--no-pager"]
    near = [_OPTIONS[name]] if _OPTIONS.get(name) in known else get_close_matches(name, known, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return UsageError(f"{parser.prog} has no option {name}", f"{meant}{usage(parser)}")


def usage(parser: argparse.ArgumentParser) -> str:
    """One line that says how a command is called."""
    line = " ".join(parser.format_usage().split()).replace(" [-h]", "", 1)
    if len(line) > _USAGE_LENGTH:
        formatter = parser._get_formatter()
        needed = [one for one in parser._actions if one.required or not one.option_strings]
        formatter.add_usage(None, needed, ())
        line = " ".join(formatter.format_help().split())
        line = line.replace(parser.prog, f"{parser.prog} [options]", 1)
    return f"{line}; `{parser.prog.replace('hermes ', 'hermes help ', 1)}` says more"
