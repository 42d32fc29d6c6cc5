"""Programs of this machine that boxes use."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

PACKAGES = {
    "postgres": "postgresql", "psql": "postgresql-client",
    "faketime": "faketime", "iptables": "iptables", "ip": "iproute2", "tc": "iproute2",
    "nsenter": "util-linux", "unshare": "util-linux", "prlimit": "util-linux",
}  # fmt: skip
"""The package of Debian that has each, where it is not called so itself."""
ALWAYS = ("bash", "nsenter", "unshare", "prlimit")
"""What every box has."""


def find(program: str) -> str | None:
    """Where a program lies, whether or not it is on the path."""
    more = ["/usr/sbin", "/sbin", "/usr/local/sbin"]
    more += sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    if program == "faketime":
        found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
        return str(found[0]) if found else None
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *more]))


def lacking(programs: Iterable[str]) -> list[str]:
    """Those that are not there, of these and of what every box has."""
    return [name for name in dict.fromkeys((*ALWAYS, *programs)) if find(name) is None]


def advice(programs: Iterable[str]) -> str:
    packages = dict.fromkeys(PACKAGES.get(name, name) for name in programs)
    return f"apt-get install {' '.join(packages)}" if packages else ""
