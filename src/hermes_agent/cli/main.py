"""The entry point. Imports only what the command needs."""

import errno
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes_agent.cli.commands import CliCommand

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells."""
BROKEN_PIPE = 141
"""The exit code when the reader of our output is gone, as in shells."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def main(argv: list[str] | None = None) -> int:
    try:
        _repair_streams()
        code = _main(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as end:  # `--help` of a command
        return _flushed(end)
    except OSError as error:
        return _output_failed(error)
    return code


def _flushed(end: SystemExit) -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        return _output_failed(error)
    return end.code if isinstance(end.code, int) else 0


def _output_failed(error: OSError) -> int:
    """Our output could not be written; discard the rest of it."""
    gone = isinstance(error, BrokenPipeError)
    if not gone and (error.errno not in _FULL or error.filename is not None):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if gone:
        os.dup2(1, 2)  # stderr may be the broken one
        return BROKEN_PIPE
    print(f"cannot write the output: {error.strerror}", file=sys.stderr)
    return 1


def _repair_streams() -> None:
    """Replace closed streams with null ones, and escape characters that a stream cannot show."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if mode == "r" else "backslashreplace")


def _main(words: list[str]) -> int:
    if words[:1] in (["--version"], ["-V"]):
        from hermes_agent.core.version import __version__

        print(f"hermes {__version__}")
        return 0
    if words[:1] == ["--no-pager"]:
        words = words[1:]
        os.environ["HERMES_PAGER"] = ""
    if words[:2] in (["completion", "--words"], ["completion", "--line"]):
        from hermes_agent.cli.help.candidates import print_candidates

        return print_candidates(words[1:])
    if not words and sys.stdin.isatty() and sys.stdout.isatty():
        words = [start_command()]
    if not words or words == ["help"] or words[0] in ("-h", "--help"):
        from hermes_agent.cli.commands import print_help

        print_help()
        return 0
    return _run(words[0], words[1:])


def start_command() -> str:
    """What `hermes` alone does: the conversation, or the set-up where no model is chosen yet."""
    from hermes_agent.host.paths import find_home

    home = find_home(os.environ)
    try:
        with open(os.path.join(home, "config.yaml"), encoding="utf-8", errors="replace") as file:
            chosen = any(line.startswith(("model:", '"model"')) for line in file)
    except OSError:
        chosen = False
    chosen = chosen or bool(os.environ.get("HERMES_MODEL"))
    return "chat" if chosen else "setup"


def _run(name: str, words: list[str]) -> int:
    from hermes_agent.cli.commands import find_command
    from hermes_agent.core.errors import HermesError, UsageError

    try:
        return _command(find_command(name), words)
    except HermesError as error:
        _print_error(error.message, error.hint, "--json" in words)
        return 2 if isinstance(error, UsageError) else 1
    except Exception as error:
        output = isinstance(error, OSError) and error.filename is None and error.errno in _FULL
        if output or isinstance(error, BrokenPipeError) or os.environ.get("HERMES_DEBUG"):
            raise
        what = f"hermes {name} crashed: {type(error).__name__}: {error}"
        hint = "this is a bug in Hermes; HERMES_DEBUG=1 shows the traceback"
        if isinstance(error, FileNotFoundError) and error.filename is None:  # `os.getcwd`
            what, hint = "the folder that you are in was removed", "`cd` into another"
        _print_error(what, hint, "--json" in words)
        return 1


def _command(command: "CliCommand", words: list[str]) -> int:
    from hermes_agent.cli.arguments import absolute_model
    from hermes_agent.cli.commands import LOOKS
    from hermes_agent.core.errors import UsageError

    for word in words:
        if not word.isascii() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(f"{word!r} is not UTF-8", "write it in UTF-8, or rename the file")
    if os.environ.get("HERMES_MODEL"):
        os.environ["HERMES_MODEL"] = absolute_model(os.environ["HERMES_MODEL"])
    module, parser = command.parser()
    options, stray = parser.parse_known_args(getattr(module, "completed", list)(words))
    if stray:
        from hermes_agent.cli.help.suggestions import unknown_words

        raise unknown_words(parser, options, stray, getattr(module, "STRAY_WORDS", ""))
    if f"{command.name} {getattr(options, 'action', None) or ''}".strip() not in LOOKS:
        from hermes_agent.host.inspect import refuse_agent

        refuse_agent(f"use `hermes {command.name}`")
    return command.run(module, options)


def _print_error(message: str, hint: str, as_json: bool) -> None:
    from hermes_agent.cli.output.formatting import hint_here, style
    from hermes_agent.core.text.terminal import clean

    message, hint = clean(message), clean(hint_here(message, hint))  # it may quote a service
    print(style(message, "red", sys.stderr), file=sys.stderr)
    if hint:
        print(style(f"hint: {hint}", "dim", sys.stderr), file=sys.stderr)
    if as_json:
        import json

        print(json.dumps({"error": message, "hint": hint}, ensure_ascii=False))
