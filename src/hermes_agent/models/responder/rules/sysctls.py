"""Settings of the kernel, as files of the machine declare them."""

import re
import shlex

from msgspec.structs import replace

from hermes_agent.models.responder.rules.wires import Cut

DECLARED = (
    "grep -rHsE '^[^#;]*net[./]' /usr/lib/sysctl.d /run/sysctl.d /etc/sysctl.conf /etc/sysctl.d"
)
_SET = re.compile(r"sysctl -w (net\.[\w.-]+)=(\w+)")


def as_declared(cut: Cut, declared: str) -> Cut:
    """A setting that is declared in a file is taken from there: what people chose for the machine
    is no new limit."""
    wanted = _SET.fullmatch(cut.fix)
    for row in declared.splitlines() if wanted else ():
        path, _, rest = row.partition(":")
        told = re.fullmatch(r"\s*-?([\w./-]+?)\s*=\s*(\w+)\s*", rest)
        if wanted and told and (told[1].replace("/", "."), told[2]) == wanted.groups():
            return replace(cut, fix=f"sysctl -p {shlex.quote(path)}")
    return cut
