"""Arguments of commands: argparse with our way of saying what is wrong."""

import argparse
import sys
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # argparse's own signature

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}\nhint: `{self.prog} --help`", file=sys.stderr)
        raise SystemExit(2)


def json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")
