"""webclock: keeps a clock in step with the Date header of a web server.

    webclock.py SETTINGS

Settings, a name and a value on each line: source (URL), every (seconds), step (file that says by
how much the clock is moved), log (file).
"""

import sys
import time
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from pathlib import Path

LEAST = 2.0
"""A header has whole seconds: less than this is nothing."""


def settings(path: str) -> dict[str, str]:
    found = {}
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(" ")
        if value and not name.startswith("#"):
            found[name] = value.strip()
    return found


def said_by(url: str) -> float:
    """The time there, in seconds since 1970."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            date = answer.headers["Date"]
    except urllib.error.HTTPError as error:
        date = error.headers["Date"]
    return parsedate_to_datetime(date).timestamp()


def main() -> None:
    own = settings(sys.argv[1])
    last = None
    while True:
        try:
            off = said_by(own["source"]) - time.time()
            text = f"{off:+.0f}" if abs(off) > LEAST else "+0"
            told = f"{own['source']} is {text} s off, stepping the clock" if off else ""
        except (OSError, TypeError, ValueError) as error:
            text, told = "", f"{own['source']}: {error}"
        if text:
            Path(own["step"]).write_text(f"{text}\n")
        if text != last:
            if text == "+0":
                told = f"in step with {own['source']}"
            with open(own["log"], "a") as log:
                log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} webclock[1]: {told}\n")
        last = text
        time.sleep(float(own.get("every", "60")))


if __name__ == "__main__":
    main()
