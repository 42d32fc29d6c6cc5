"""`hermes help` and `hermes completion`."""

import argparse
import sys
from pathlib import Path

from hermes_agent.cli.commands import find_command, print_help

SHELLS = ("bash", "zsh", "fish")


def help_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="a command, and its action")
    parser.add_argument("--man", action="store_true", help="print the manual page of all commands")


def help(options: argparse.Namespace) -> int:
    """Explain a command, or one of its actions: `hermes help sessions export`.

    `hermes help --man` prints all of them as a manual page for `man -l`."""
    if options.man:
        from hermes_agent.cli.help.manual import manual_page

        sys.stdout.write(manual_page())
    elif not options.words:
        print_help()
    else:
        name, *rest = options.words
        find_command(name).parser()[1].parse_args([*rest[:1], "--help"])
    return 0


def completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def completion(options: argparse.Namespace) -> int:
    """Print a script that completes commands, options and names in a shell: bash, zsh or fish.
    Its first lines say how to install it."""
    script = Path(__file__).with_name(f"completion.{options.shell}")
    sys.stdout.write(script.read_text(encoding="utf-8"))
    return 0
