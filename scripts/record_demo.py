"""Record a command in a terminal (asciicast v2), and draw the recording as an SVG that moves.

    record_demo.py [--cast FILE] [--svg FILE] [--width N] [--height N] [COMMAND …]

Every line is in the picture once; it appears when it was printed, and the screen scrolls. Where
nothing moves (a viewer without animation, or a reader who wants none) the last screen is shown."""

import argparse
import codecs
import fcntl
import html
import json
import os
import pty
import re
import struct
import sys
import termios
import time
from pathlib import Path

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
DEMO = [sys.executable, "-m", "hermes_drills.demo"]
MAX_PAUSE = 1.5
"""Nobody looks at a screen on which nothing happens for longer than this."""
REST = 6.0
"""How long the last screen stays before it begins again."""
COLOURS = {
    "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "35": "#d2a8ff", "36": "#79c0ff",
    "2": "#8b949e", "1": "#ffffff", "": "#c9d1d9",
}  # fmt: skip
ROW, COLUMN, MARGIN = 18, 8.4, 14
_PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")

Event = tuple[float, str]
Run = tuple[str, str]
"""A text and its colour."""


def record(command: list[str], width: int, height: int) -> tuple[list[Event], int]:
    """What the command prints in a terminal of that size, and its exit code."""
    size = struct.pack("HHHH", height, width, 0, 0)
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LC_ALL": "C.UTF-8"}
        environ = {key: value for key, value in environ.items() if value and key != "NO_COLOR"}
        os.execvpe(command[0], command, environ)
    began = time.monotonic()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    events: list[Event] = []
    while True:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        events.append((round(time.monotonic() - began, 3), decoder.decode(data)))
    return events, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def cast(events: list[Event], width: int, height: int) -> str:
    head = {"version": 2, "width": width, "height": height, "title": "make demo"}
    lines = [json.dumps(head)]
    lines += [json.dumps([when, "o", text], ensure_ascii=False) for when, text in events]
    return "\n".join(lines) + "\n"


def printed(events: list[Event]) -> list[tuple[float, list[Run]]]:
    """The lines that stayed, with when each was done. Enough of a terminal for what only goes
    forward: a line may be begun anew and erased."""
    lines: list[tuple[float, list[Run]]] = []
    now: list[Run] = []
    colour = ""
    fresh = False
    for when, text in events:
        for code, kind, control, plain in _PIECE.findall(text):
            if kind == "m":
                colour = code if code in COLOURS else ""
            elif kind == "K" or (plain and fresh):
                now = []
            if control == "\n":
                lines.append((when, now))
                now = []
            fresh = control == "\r"
            if plain:
                now.append((plain, colour))
    return lines


def paced(lines: list[tuple[float, list[Run]]]) -> list[tuple[float, list[Run]]]:
    """With long pauses cut short."""
    done, last, at = [], 0.0, 0.0
    for when, runs in lines:
        at += min(when - last, MAX_PAUSE)
        last = when
        done.append((at, runs))
    return done


def drawing(lines: list[tuple[float, list[Run]]], width: int, height: int) -> str:
    lines = paced(lines)
    whole = (lines[-1][0] if lines else 0.0) + REST
    screen = f"{width * COLUMN + 2 * MARGIN:.0f} {height * ROW + 2 * MARGIN}"
    wide, high = screen.split()
    last = max(0, len(lines) - height)
    frames, rules = ["0%{transform:translateY(0)}"], []
    for number, (when, _runs) in enumerate(lines):
        at = 100 * when / whole
        rules.append(
            f"@keyframes l{number}{{0%,{at:.2f}%{{opacity:0}}{at + 0.01:.2f}%{{opacity:1}}}}"
        )
        if number >= height:
            up = (number - height + 1) * ROW
            frames.append(f"{at:.2f}%{{transform:translateY(-{up}px)}}")
    frames.append(f"100%{{transform:translateY(-{last * ROW}px)}}")
    style = (
        f"text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre;"
        f"fill:{COLOURS['']}}}"
        f"#page{{transform:translateY(-{last * ROW}px)}}"
        "@media (prefers-reduced-motion:no-preference){"
        f"#page{{animation:page {whole:.2f}s step-end infinite}}"
        f"#page text{{animation-duration:{whole:.2f}s;animation-timing-function:step-end;"
        "animation-iteration-count:infinite}}"
        f"@keyframes page{{{''.join(frames)}}}{''.join(rules)}"
    )
    shown = "\n".join(_text(number, runs) for number, (_when, runs) in enumerate(lines) if runs)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {screen}" width="{wide}" '
        f'height="{high}" role="img" aria-label="A recording of make demo">'
        f"<style>{style}</style>"
        f'<rect width="{wide}" height="{high}" rx="8" fill="#0d1117"/>'
        f'<clipPath id="clip"><rect x="0" y="{MARGIN}" width="{wide}" height="{height * ROW}"/>'
        f'</clipPath><g clip-path="url(#clip)"><g id="page">\n{shown}\n</g></g></svg>\n'
    )


def _text(number: int, runs: list[Run]) -> str:
    parts = "".join(
        f'<tspan fill="{COLOURS[colour]}">{html.escape(text)}</tspan>' if colour
        else html.escape(text)
        for text, colour in runs
    )  # fmt: skip
    y = MARGIN + number * ROW + 13
    name = f"animation-name:l{number}"
    return f'<text x="{MARGIN}" y="{y}" style="{name}" xml:space="preserve">{parts}</text>'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cast", type=Path, default=PICTURES / "demo.cast")
    parser.add_argument("--svg", type=Path, default=PICTURES / "demo.svg")
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--height", type=int, default=32)
    parser.add_argument("command", nargs="*", default=DEMO)
    given = parser.parse_args()
    events, code = record(given.command, given.width, given.height)
    if code == 0:
        for path in (given.cast, given.svg):
            path.parent.mkdir(parents=True, exist_ok=True)
        given.cast.write_text(cast(events, given.width, given.height))
        given.svg.write_text(drawing(printed(events), given.width, given.height))
    return code


if __name__ == "__main__":
    sys.exit(main())
