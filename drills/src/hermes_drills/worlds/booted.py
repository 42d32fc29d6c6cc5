"""A world whose init is the real systemd of this machine. It takes root, and boots in a second."""

import os
from pathlib import Path

from msgspec.structs import replace

from hermes_drills.errors import UsageError
from hermes_drills.types import File, World

UNITS = Path("/usr/lib/systemd/system")
JOURNAL = ("systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket")
TARGETS = ("sysinit", "basic", "shutdown", "sockets", "final", "umount")
HERE = "/etc/systemd/system"


def booted(world: World) -> World:
    """The same world, without the stand-in. Of the units of this machine it has the journal's."""
    assert world.style.init == "systemd"
    if os.geteuid() != 0:
        raise UsageError("a machine that systemd boots needs root", "leave out --init booted")
    names = [one.name for one in world.services]
    wants = " ".join(["systemd-journald.service", *(f"{name}.service" for name in names)])
    files = {f"{HERE}/{name}.target": File("[Unit]\nDefaultDependencies=no\n") for name in TARGETS}
    files |= {f"{HERE}/{name}": File((UNITS / name).read_text()) for name in JOURNAL}
    files[f"{HERE}/multi-user.target"] = File(f"[Unit]\nWants={wants}\nAllowIsolate=yes\n")
    files["/etc/machine-id"] = File("5d0c1f4e8a2b4b6f9c3d7e1a0b2c4d6e\n")
    files["/var/log/journal/.keep"] = File("")
    return replace(
        world, booted=True, files={**world.files, **files}, needs=(*world.needs, "systemd"),
        # There is no user namespace in which the files would be another user's.
        services=tuple(replace(one, user="root") for one in world.services),
    )  # fmt: skip
