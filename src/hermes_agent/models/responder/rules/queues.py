"""Queues of links that lose what they are given, or let little through."""

import re
from collections.abc import Iterator

from hermes_agent.models.responder.rules.wires import Cut, quoted

LOSS = 20.0
"""Of a hundred packets, how many may be lost before the rest is no help."""


def lossy(near: str) -> Iterator[Cut]:
    """A queue that loses what it is given."""
    for line in near.splitlines():
        row = re.match(r"qdisc (netem|blackhole) \S+ dev (\S+) root(?: refcnt \d+)?(.*)$", line)
        lost = re.search(r"\b(?:loss|corrupt)(?: \w+)*? ([\d.]+)%", line)
        if row and (row[1] == "blackhole" or (lost and float(lost[1]) >= LOSS)):
            yield Cut(f"{row[2]} loses what is sent ({' '.join(line.split())})", line,
                      f"tc qdisc del dev {quoted(row[2])} root",
                      f"tc qdisc add dev {quoted(row[2])} root {quoted(row[1] + row[3])}",
                      0.93)  # fmt: skip


def throttled(line: str) -> Cut | None:
    """A queue that lets little through. One with classes of its own cannot be put back as it was:
    they are shown before it goes, and it goes only where nothing is likelier."""
    row = re.match(
        r"qdisc (tbf|netem|htb|hfsc|cake) (\S+) dev ([\w.-]+)(?:@\S+)? root(?: refcnt \d+)?(.*)$",
        line.strip(),
    )
    if row is None:
        return None
    claim, own = f"the link {row[3]} is throttled", f"dev {quoted(row[3])}"
    if row[1] in ("htb", "hfsc"):
        shown = f"tc class show {own} && tc filter show {own}"
        return Cut(claim, line, f"{shown} && tc qdisc del {own} root",
                   f"its classes and filters were shown: make them again on {row[3]}",
                   0.62)  # fmt: skip
    added = f"tc qdisc add {own} root handle {quoted(row[2])} {quoted(row[1] + row[4])}"
    return Cut(claim, line, f"tc qdisc del {own} root", added)
