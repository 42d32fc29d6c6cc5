"""What the set-up prints and asks: plain lines that work over SSH, in tmux and without colour."""

import itertools
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hermes_agent.cli.output.formatting import style
from hermes_agent.core.text.terminal import clean

WIDEST = 100
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Choice(NamedTuple):
    label: str
    note: str = ""


class Prompts:
    """`asks` is false for scripts: every question then has its default as the answer. A quiet one
    prints nothing."""

    def __init__(self, *, asks: bool, quiet: bool = False) -> None:
        self.asks = asks
        self.quiet = quiet
        self._live = sys.stdout.isatty() and not quiet and os.environ.get("TERM", "dumb") != "dumb"
        self._unicode = "utf" in (sys.stdout.encoding or "").lower()
        self._frames = itertools.cycle(_SPINNER if self._unicode else "|/-\\")
        if asks:
            import readline  # noqa: F401 - gives `input` line editing

    @property
    def _width(self) -> int:
        return max(40, min(shutil.get_terminal_size().columns, WIDEST) - 1)

    def say(self, text: str, look: str = "", indent: int = 2) -> None:
        """Print a paragraph, wrapped to the width of the terminal."""
        if self.quiet:
            return
        pad = " " * indent
        wrapped = [
            textwrap.fill(
                line, self._width, initial_indent=pad, subsequent_indent=pad,
                break_long_words=False, break_on_hyphens=False,
            )
            for line in clean(text).split("\n")
        ]  # fmt: skip
        print("\n".join(style(line, look) for line in wrapped), flush=True)

    def title(self, text: str, note: str = "") -> None:
        if not self.quiet:
            print(f"\n{style(style(text, 'cyan'), 'bold')}  {style(note, 'dim')}".rstrip())

    def mark(self, ok: bool, head: str, text: str, note: str = "") -> None:
        """One line with a tick or a cross; what does not fit goes below, and the note too."""
        if self.quiet:
            return
        sign = ("✓" if ok else "✗") if self._unicode else ("ok" if ok else "no")
        print(f"  {style(sign, 'green' if ok else 'red')} ", end="")
        start = f"{head:<11}"
        lines = textwrap.wrap(clean(text), self._width - 5 - len(start), break_on_hyphens=False)
        print(f"{start} {lines[0] if lines else ''}")
        for line in lines[1:]:
            print(" " * (5 + len(start)) + line)
        if note:
            self.say(note, "dim", indent=5 + len(start))

    def progress(self, text: str) -> None:
        """Replace the line at the cursor; an empty text removes it."""
        if self._live:
            width = shutil.get_terminal_size().columns - 5
            line = f"  {next(self._frames)} {clean(text)[:width]}" if text else ""
            print(f"\r\033[K{line}", end="", flush=True)

    # questions

    def text(self, question: str, default: str = "") -> str:
        if not self.asks:
            return default
        shown = f" [{default}]" if default else ""
        return input(f"  {question}{clean(shown)}: ").strip() or default

    def yes(self, question: str, default: bool) -> bool:
        if not self.asks:
            return default
        asked = clean(f"{question} [{'Y/n' if default else 'y/N'}]")
        *above, last = textwrap.wrap(asked, self._width - 3)
        while True:
            for line in above:
                print(f"  {line}")
            said = input(f"  {last} ").strip().lower()
            if not said:
                return default
            if said in ("y", "yes", "n", "no"):
                return said.startswith("y")

    def choose(self, question: str, choices: Sequence[Choice], default: int) -> int:
        """The place of the chosen row, or -1 for none: Enter takes the default, `s` skips."""
        if not self.asks:
            return default
        self.say(f"\n{question}", "bold")
        self._rows(choices, default)
        shown = f"1-{len(choices)}" if len(choices) > 1 else "1"
        hint = "Enter skips" if default < 0 else f"Enter takes {default + 1}, s skips"
        while True:
            said = input(f"  {shown}, {hint}: ").strip().lower()
            if not said:
                return default
            if said in ("s", "skip"):
                return -1
            if said.isdecimal() and 1 <= int(said) <= len(choices):
                return int(said) - 1
            named = [n for n, one in enumerate(choices) if one.label.lower().startswith(said)]
            if len(named) == 1:
                return named[0]
            self.say(f"not one of the choices: {said!r}")

    def _rows(self, choices: Iterable[Choice], default: int) -> None:
        rows = list(choices)
        longest = min(max(len(row.label) for row in rows), 40)
        for number, row in enumerate(rows):
            label = clean(row.label)
            head = f"  {number + 1:>3}  {label:<{longest}}"
            notes = textwrap.wrap(clean(row.note), max(20, self._width - longest - 9))
            if len(label) > longest and notes:
                notes.insert(0, "")
            bold = style(head, "bold") if number == default else head
            print(f"{bold}  {style(notes[0], 'dim') if notes else ''}".rstrip())
            for note in notes[1:]:
                print(" " * (longest + 9) + style(note, "dim"))
