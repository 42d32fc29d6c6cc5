"""Arguments of commands: argparse with our way of saying what is wrong."""

import argparse
import os
from typing import Any, NoReturn

from hermes_agent.core.errors import UsageError

MOST = 1_000_000_000
NAME_LENGTH = 100


class Parser(argparse.ArgumentParser):
    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # argparse's own signature

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file)  # argparse hides that it could not

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", f"`{self.prog} --help`")


def json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def terminal_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--terminal", action="append", default=[], metavar="NAME",
        help="where commands run, for a new session; again for more (see `hermes terminals`)",
    )  # fmt: skip


def chosen_terminals(options: argparse.Namespace) -> list[str]:
    """Those named on the command line, else the one of the environment, else none."""
    named = options.terminal or [os.environ.get("HERMES_TERMINAL", "")]
    return [name for name in named if name]


def positive(text: str) -> int:
    return _whole(text, 1)


def natural(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not least <= number <= MOST:
        raise argparse.ArgumentTypeError(f"{number} is not between {least} and {MOST}")
    return number


def session_name(given: str) -> str:
    """A name that a session can be found by again."""
    name = given.strip()
    if not name:
        raise UsageError("the name is empty", "name it with a word or two")
    if len(name) > NAME_LENGTH:
        raise UsageError(
            f"the name has {len(name)} characters", f"{NAME_LENGTH} are the most; shorten it"
        )
    if "/" in name or not name.isprintable():
        raise UsageError(
            f"{name!r} cannot be a name", "leave out slashes, line ends and control characters"
        )
    return name


def absolute_model(model: str) -> str:
    """A script named by a path means the same file wherever the runtime works."""
    service, _, script = model.partition("/")
    if service != "scripted" or script.startswith("~/"):
        return model
    if "/" not in script and not script.endswith((".yaml", ".yml", ".json")):
        return model
    return f"scripted/{os.path.abspath(script)}"
