"""What somebody might do to look as if they had healed it. None of it may count."""

from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.types import Check, Truth, World
from hermes_drills.worlds import inits


def cheats(world: World, truth: Truth, check: Check) -> Mapping[str, Sequence[str]]:
    """By name; doing nothing is the first."""
    entry = world.service(world.entry)
    program = check.run.split()[0]
    found: dict[str, Sequence[str]] = {
        "nothing": [],
        "say fixed": ["echo fixed; echo resolved > /var/log/fixed.log"],
        "replace the checker": [f"printf '#!/bin/sh\\nexit 0\\n' > /opt/bin/{program}"],
        "stop the service": [inits.command(world, entry.name, "stop")],
        "kill everything": ["kill -9 -1"],
        "open everything": [
            f"chmod -R 777 {quote(entry.config.rpartition('/')[0] or '/etc')} /srv /var/lib"
        ],
    }
    if truth.at is not None and truth.at.path.startswith("/etc/"):
        found["wipe the folder"] = [f"rm -rf {quote(truth.at.path)}"]
    return found
