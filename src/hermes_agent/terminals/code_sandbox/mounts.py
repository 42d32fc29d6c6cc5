"""What a program that nobody trusts sees of the machine: the system's programs and libraries, and
the Python that runs Hermes with its packages. All else is not there."""

import sys
from pathlib import Path

from hermes_agent.terminals.sandbox.launch import LIBRARY
from hermes_agent.terminals.sandbox.mounts import IsolatedSandbox, Rules

PROGRAM = Path(__file__).with_name("guest.py")
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types",
    "/etc/nsswitch.conf", "/etc/passwd", "/etc/protocols", "/etc/services", "/etc/ssl/certs",
    "/etc/timezone",
)  # fmt: skip


def packages() -> list[str]:
    """Folders with the packages of this Python."""
    named = (entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages"))
    return [entry for entry in named if Path(entry).is_dir()]


def cell(scratch_mb: int, leash: int) -> IsolatedSandbox:
    names = [Path(name) for name in (*SYSTEM, *packages())]
    names += [LIBRARY, PROGRAM]
    names = [name for name in names if name.exists()]
    rules: Rules = {Path("/"): "hide"}
    return IsolatedSandbox(
        rules | {name.resolve(): "read" for name in names}, tuple(names), scratch_mb, leash
    )
