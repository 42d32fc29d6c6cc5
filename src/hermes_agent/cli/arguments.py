"""Arguments of commands: argparse with our way of saying what is wrong."""

import argparse
import os
from typing import Any, NoReturn

from hermes_agent.core.errors import UsageError

MAX_COUNT = 1_000_000_000
NAME_LENGTH = 100
MAX_FILE_BYTES = 20_000_000
STEPS = ("low", "medium", "high", "xhigh", "max")
"""Of reasoning effort; the same as `EFFORTS` in core, which takes its time to import."""

_FILE_TYPES = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
"""How the files that models take begin; beside them WebP."""


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


def tools_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tools", default=None, metavar="NAMES",
        help="tools and toolsets of a new session, with commas (see `hermes tools list`)",
    )  # fmt: skip


def chosen_tools(options: argparse.Namespace) -> list[str]:
    """Those named on the command line; none of them means all there are."""
    if options.tools is None:
        return []
    names = [name for name in options.tools.replace(" ", "").split(",") if name]
    if not names:
        raise UsageError(
            f"--tools {options.tools!r} names no tool", "`hermes tools list` shows what there is"
        )
    return names


def chosen_terminals(options: argparse.Namespace) -> list[str]:
    """Those named on the command line, else the one of the environment, else none."""
    named = options.terminal or [os.environ.get("HERMES_TERMINAL", "")]
    return [name for name in named if name]


def effort_option(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--effort", default="", metavar="STEP", choices=STEPS,
        help=f"how hard the model thinks, {what}: {', '.join(STEPS)}",
    )  # fmt: skip


def file_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file", action="append", default=[], metavar="PATH",
        help="send an image or a PDF with it; again for more",
    )  # fmt: skip


def read_files(paths: list[str]) -> list[dict[str, str]]:
    """Files as a message carries them: their type by how they begin, their bytes in base 64."""
    if not paths:
        return []
    from base64 import b64encode

    files = []
    for path in paths:
        try:
            with open(os.path.expanduser(path), "rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UsageError(
                f"cannot read {path}: {error.strerror}", "name a file of this machine"
            ) from None
        if len(data) > MAX_FILE_BYTES:
            most = MAX_FILE_BYTES // 1_000_000
            raise UsageError(f"{path} has more than {most} MB", "send a smaller one, or its path")
        content = b64encode(data).decode()
        name = os.path.basename(path)
        files.append({"type": _file_type(path, data), "data": content, "name": name})
    return files


def _file_type(path: str, data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    for begin, type in _FILE_TYPES:
        if data.startswith(begin):
            return type
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not least <= number <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{number} is not between {least} and {MAX_COUNT}")
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
    """A file named by a path means the same file wherever the runtime works."""
    service, _, script = model.partition("/")
    if service == "local" and script.startswith(("./", "../")):
        return f"local/{os.path.abspath(script)}"
    if service != "scripted" or script.startswith("~/"):
        return model
    if "/" not in script and not script.endswith((".yaml", ".yml", ".json")):
        return model
    return f"scripted/{os.path.abspath(script)}"
