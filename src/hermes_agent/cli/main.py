"""The entry point. It imports nothing but what the one command needs."""

import sys


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if words[:1] in (["--version"], ["-V"]):
        from hermes_agent import __version__

        print(f"hermes {__version__}")
        return 0
    from hermes_agent.cli.commands import COMMANDS, help_text

    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return 0
    for command in COMMANDS:
        if command.name == words[0]:
            return _run(command.name, command.module, command.summary, words[1:])
    return _unknown(words[0], [command.name for command in COMMANDS])


def _unknown(word: str, names: list[str]) -> int:
    from difflib import get_close_matches

    near = get_close_matches(word, names, 1)
    meant = f"did you mean `hermes {near[0]}`? " if near else ""
    what = "option" if word.startswith("-") else "command"
    print(f"no {what} called {word!r}\nhint: {meant}`hermes --help` lists them", file=sys.stderr)
    return 2


def _run(name: str, module: str, summary: str, words: list[str]) -> int:
    import os
    from importlib import import_module

    from hermes_agent.cli.arguments import Parser
    from hermes_agent.core.errors import HermesError, UsageError

    command = import_module(f"hermes_agent.cli.{module}")
    parser = Parser(prog=f"hermes {name}", description=command.__doc__ or summary)
    command.arguments(parser)
    try:
        code = command.run(parser.parse_args(words))
        sys.stdout.flush()
    except HermesError as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if os.environ.get("HERMES_DEBUG"):
            raise
        print(
            f"hermes {name} broke: {type(error).__name__}: {error}\n"
            "hint: this is a bug in Hermes; HERMES_DEBUG=1 shows where",
            file=sys.stderr,
        )
        return 1
    return int(code)
