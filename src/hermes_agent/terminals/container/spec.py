"""The names, labels and confinement of a session's container. No I/O."""

import hashlib
import posixpath
import re
from typing import Any

import msgspec

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.terminals import ContainerPlace

HOME = "/home/hermes"
SESSION_LABEL = "hermes.session"
SEED = "/hermes"
"""Where the volumes are mounted in the container that only exists to set their owner."""
AWAKE = "2147483647"
"""Seconds that the first process sleeps; the most that every `sleep` accepts."""
PERIOD = 100_000
LEAST_QUOTA = 1_000


class ContainerSpec:
    """A container for settings, a session and a local workspace. The same three give the same
    names, so that everything is found again after a crash."""

    def __init__(self, place: ContainerPlace, session: str, workspace: str) -> None:
        if not posixpath.isabs(place.workspace) or posixpath.normpath(place.workspace) == "/":
            raise UsageError(
                f"the container's workspace {place.workspace!r} is not a separate folder",
                "give an absolute path such as /workspace",
            )
        self.place = place
        self.folder = posixpath.normpath(place.workspace)
        self.source = workspace if place.mount else ""
        known = msgspec.json.encode([place, session, self.source])
        plain = re.sub(r"[^a-zA-Z0-9_.-]", "-", session)[:40]
        self.name = f"hermes-{plain}-{hashlib.sha256(known).hexdigest()[:12]}"
        self.labels = {SESSION_LABEL: session}
        self.label = f"{SESSION_LABEL}={session}"

    @property
    def volumes(self) -> dict[str, str]:
        """The folders that outlive the container, and their volumes."""
        volumes = {HOME: f"{self.name}-home", self.folder: f"{self.name}-work"}
        if self.place.mount:
            del volumes[self.folder]
        return volumes

    def options(self) -> dict[str, Any]:
        """The container: as little as commands need."""
        place, limits = self.place, self.place.limits
        megabytes = limits.memory_mb
        mounts = [_mount(folder, name) for folder, name in self.volumes.items()]
        if place.mount:
            mounts.append(_mount(self.folder, self.source, "bind"))
        return {
            **self._common(self.name, mounts),
            "entrypoint": ["sleep"],
            "command": [AWAKE],
            "init": True,
            "user": place.user,
            "read_only": True,
            "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={megabytes // 2}m"},  # noqa: S108
            "network_mode": place.network,
            "mem_limit": f"{megabytes}m",
            "memswap_limit": f"{megabytes}m",
            "pids_limit": limits.processes,
            # Docker refuses to promise more cores than there are, but takes any quota.
            "cpu_period": PERIOD,
            "cpu_quota": max(LEAST_QUOTA, round(limits.cpus * PERIOD)),
            "working_dir": self.folder,
            "environment": {"HOME": HOME},
            "stop_signal": "SIGTERM",
            "log_config": {"Type": "none", "Config": {}},
        }

    def seed_options(self) -> dict[str, Any]:
        """The container that never runs and mounts the volumes side by side."""
        mounts = [_mount(f"{SEED}/{name}", name) for name in self.volumes.values()]
        return {
            **self._common(f"{self.name}-seed", mounts),
            "entrypoint": ["sleep"],
            "command": ["0"],
            "user": "0:0",
            "network_mode": "none",
        }

    def _common(self, name: str, mounts: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "image": self.place.image,
            "name": name,
            "labels": self.labels,
            "mounts": mounts,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            # Else the proxies of the user's Docker settings, passwords and all, would be there.
            "use_config_proxy": False,
        }


def _mount(target: str, source: str, kind: str = "volume") -> dict[str, Any]:
    return {"Target": target, "Source": source, "Type": kind, "ReadOnly": False}


def owner(user: str, passwd: bytes, group: bytes) -> tuple[int, int]:
    """User and group ids of `user`, `user:group`, by name or number."""
    name, _, of = user.partition(":")
    users, groups = _table(passwd), _table(group)
    if name.isdecimal():
        uid = int(name)
        gid = next((int(row[3]) for row in users.values() if row[2] == name), 0)
    elif name in users:
        uid, gid = int(users[name][2]), int(users[name][3])
    else:
        raise _unknown("user", name)
    if of.isdecimal():
        gid = int(of)
    elif of in groups:
        gid = int(groups[of][2])
    elif of:
        raise _unknown("group", of)
    return uid, gid


def _table(data: bytes) -> dict[str, list[str]]:
    rows = (line.split(":") for line in data.decode(errors="replace").splitlines())
    return {row[0]: row for row in rows if len(row) >= 3}


def _unknown(kind: str, name: str) -> HermesError:
    return HermesError(
        f"the image has no {kind} called {name!r}", "set `user` to numbers, such as 1000:1000"
    )
