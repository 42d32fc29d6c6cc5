"""Command-line arguments: argparse with our error messages, and the options commands share."""

import argparse
import os
import sys
from typing import Any, NoReturn

from hermes_agent.core.errors import HermesError, UsageError

MAX_COUNT = 1_000_000_000
NAME_LENGTH = 100
MAX_FILE_BYTES = 20_000_000
EFFORT_LEVELS = ("low", "medium", "high", "xhigh", "max")
"""Levels of reasoning effort: `EFFORTS` in core, which is slow to import."""

_FILE_TYPES = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
"""First bytes of the files that models accept, apart from WebP."""


class Parser(argparse.ArgumentParser):
    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        if sys.version_info >= (3, 14):
            kwargs.setdefault("color", False)  # ours says the same in every version
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # argparse's own signature
        self.add_argument(
            "--no-pager", action=_NoPager, nargs=0, dest=argparse.SUPPRESS, help=argparse.SUPPRESS
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Words that follow an option belong to the last argument, too; argparse leaves them."""
        found, left = super().parse_known_args(args, namespace)
        last = next((one for one in reversed(self._actions) if not one.option_strings), None)
        words = [word for word in left if word != "--"]
        if not words or last is None or any(word.startswith("-") for word in _before_dashes(left)):
            return found, left
        if last.nargs == "*":
            setattr(found, last.dest, [*(getattr(found, last.dest) or ()), *words])
        elif last.nargs == "?" and len(words) == 1 and getattr(found, last.dest) == last.default:
            setattr(found, last.dest, words[0])
        else:
            return found, left
        return found, []

    def print_help(self, _file: Any = None) -> None:
        from hermes_agent.cli.output.pager import show

        show(self.format_help().rstrip("\n"))  # argparse swallows write errors

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from hermes_agent.cli.help.suggestions import unknown_choice

            raise unknown_choice(self, action, value)

    def error(self, message: str) -> NoReturn:
        from hermes_agent.cli.help.suggestions import bad_usage

        raise bad_usage(self, message)


def _before_dashes(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


class _NoPager(argparse.Action):
    """Every command takes it, and `hermes` itself."""

    def __call__(self, *_: object) -> None:
        os.environ["HERMES_PAGER"] = ""


def json_option(parser: argparse.ArgumentParser, **more: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document", **more)


def terminal_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--terminal", action="append", default=[], metavar="NAME",
        help="where commands run in a new session; repeatable (see `hermes terminals`)",
    )  # fmt: skip


def tools_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tools", default=None, metavar="NAMES",
        help="tools and toolsets of a new session, comma-separated (see `hermes tools list`)",
    )  # fmt: skip


def chosen_tools(options: argparse.Namespace) -> list[str]:
    """The tools named on the command line; an empty list means all."""
    if options.tools is None:
        return []
    names = [name for name in options.tools.replace(" ", "").split(",") if name]
    if not names:
        raise UsageError(
            f"--tools names no tools: {options.tools!r}", "`hermes tools list` shows them"
        )
    return names


def chosen_terminals(options: argparse.Namespace) -> list[str]:
    """The terminals named on the command line, else HERMES_TERMINAL, else none."""
    named = options.terminal or [os.environ.get("HERMES_TERMINAL", "")]
    return [name for name in named if name]


def effort_option(parser: argparse.ArgumentParser, scope: str) -> None:
    parser.add_argument(
        "--effort", default="", metavar="LEVEL", choices=EFFORT_LEVELS,
        help=f"reasoning effort {scope}: {', '.join(EFFORT_LEVELS)}",
    )  # fmt: skip


def session_options(parser: argparse.ArgumentParser) -> None:
    """Which session a message goes to, and how a new one is opened."""
    parser.add_argument("--session", help="continue a session: its id or name")
    parser.add_argument("--name", help="name the new session")
    parser.add_argument("--model", default="", help="service/name, for a new session")
    effort_option(parser, "of a new session")
    parser.add_argument("--policy", default="", help="policy profile, for a new session")
    parser.add_argument("--workspace", default="", help="working folder; default: this one")
    terminal_option(parser)
    tools_option(parser)


def new_session(options: argparse.Namespace, hint: str) -> dict[str, object]:
    """The fields of a message that opens a session. An existing session keeps its own."""
    if options.session is not None and not options.session.strip():
        raise UsageError("name a session", "`hermes sessions` lists them")
    name = "" if options.name is None else session_name(options.name)
    tools = chosen_tools(options)
    chosen = (options.model, options.policy, options.workspace, options.name, options.terminal)
    if (options.session or getattr(options, "last", False)) and any(
        (*chosen, options.effort, tools)
    ):
        raise UsageError(
            "only a new session takes a model, policy, workspace, terminals, tools or name", hint
        )
    return {
        "name": name,
        "model": absolute_model(options.model) or os.environ.get("HERMES_MODEL", ""),
        "policy": options.policy or os.environ.get("HERMES_POLICY", ""),
        "workspace": os.path.abspath(options.workspace or os.getcwd()),
        "terminals": chosen_terminals(options),
        "effort": options.effort,
        "tools": tools,
    }


def read_files(paths: list[str], *, any_type: bool = False) -> list[dict[str, str]]:
    """Files as a message carries them: type, base64 data and name. Models accept images and PDFs;
    people accept any type."""
    from base64 import b64encode

    files = []
    for path in paths:
        try:
            with open(os.path.expanduser(path), "rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            refused = HermesError if any_type else UsageError
            raise refused(
                f"cannot read {path}: {error.strerror}", "name a file on this machine"
            ) from None
        if len(data) > MAX_FILE_BYTES:
            most = MAX_FILE_BYTES // 1_000_000
            raise UsageError(f"{path} is larger than {most} MB", "send a smaller file, or its path")
        type, name = _file_type(path, data, any_type=any_type), os.path.basename(path)
        files.append({"type": type, "data": b64encode(data).decode(), "name": name})
    return files


def _file_type(path: str, data: bytes, *, any_type: bool) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    for begin, type in _FILE_TYPES:
        if data.startswith(begin):
            return type
    if any_type:
        from mimetypes import guess_type

        return guess_type(path)[0] or "application/octet-stream"
    raise UsageError(
        f"{path} is neither an image (PNG, JPEG, GIF, WebP) nor a PDF",
        "name its path in the message instead: the agent can read files",
    )


def positive(text: str) -> int:
    return _whole(text, 1)


def natural(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a whole number: {text!r}") from None
    if not least <= number <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{number} must be between {least} and {MAX_COUNT}")
    return number


def session_name(given: str) -> str:
    """Check the name of a session: it must be usable in commands and paths."""
    name = given.strip()
    if not name:
        raise UsageError("the name is empty", "write a word or two")
    if len(name) > NAME_LENGTH:
        raise UsageError(f"the name has {len(name)} characters", f"use at most {NAME_LENGTH}")
    if "/" in name or not name.isprintable():
        raise UsageError(
            f"not a valid name: {name!r}", "leave out slashes, line breaks and control characters"
        )
    return name


def absolute_model(model: str) -> str:
    """A model named by a relative path, with the path made absolute for the runtime."""
    service, _, script = model.partition("/")
    if service == "local" and script.startswith(("./", "../")):
        return f"local/{os.path.abspath(script)}"
    if service != "scripted" or script.startswith("~/"):
        return model
    if "/" not in script and not script.endswith((".yaml", ".yml", ".json")):
        return model
    return f"scripted/{os.path.abspath(script)}"
