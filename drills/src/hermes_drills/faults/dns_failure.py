"""The name of a dependency leads nowhere, or to the wrong machine."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import restart, rewrite, upstream_of
from hermes_drills.pick import Pick
from hermes_drills.probe.probe import Probe
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import inits

HOSTS = "/etc/hosts"
SWITCH = "/etc/nsswitch.conf"


class _Unresolved(Fault):
    category = "dns-failure"
    wants = "upstream"

    def fits(self, world: World, at: Target) -> bool:
        return _host(at) in world.hosts

    def _truth(self, world: World, at: Target, path: str, copy: str, evidence: str) -> Truth:
        needed = upstream_of(world, at.service)
        others = () if needed is None else (needed.name,)
        host = _host(at)
        return Truth(
            (at.service, *others, host, world.hostname, "dns", "hosts", "resolver"),
            (self.category,), rf"{path}|{re.escape(host)}",
            rf"{evidence}|name resolution|not known|{re.escape(host)}",
            at=Target("upstream", at.service, path, value=at.value),
            notes={"copy": copy, "host": host},
        )  # fmt: skip

    def gone(self, probe: Probe, world: World, truth: Truth) -> list[str]:  # noqa: ARG002
        known: dict[str, str] = {}
        for line in probe.text(HOSTS).splitlines():
            address, *names = line.partition("#")[0].split() or [""]
            for name in names:
                known.setdefault(name, address)
        wanted = {"localhost": "127.0.0.1", **world.hosts}
        wrong = [f"{HOSTS} has {name} at {known.get(name)}" for name in wanted
                 if known.get(name) != wanted[name]]  # fmt: skip
        order = re.search(r"^hosts:(.*)", probe.text(SWITCH), re.MULTILINE)
        if order is None or "files" not in order[1].split():
            wrong.append(f"{SWITCH} does not consult {HOSTS}")
        return wrong

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        copy, path = quote(truth.notes["copy"]), truth.at.path
        return f"diff {copy} {path}; cat {copy} > {path}", inits.restart(world, truth.at.service)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name, host = truth.at.service, truth.notes["host"]
        config, again = quote(world.service(name).config), inits.restart(world, name)
        others = [inits.restart(world, needed) for needed in world.service(name).needs]
        return {
            "restart": [again],
            "restart both": [*others, again],
            "write the address into the configuration": [
                f"sed -i 's/{re.escape(host)}/{world.hosts[host]}/' {config}", again,
            ],
            "nothing but that name": [f"echo '{world.hosts[host]} {host}' > {HOSTS}", again],
        }  # fmt: skip


class LostEntry(_Unresolved):
    """An edit of the hosts file dropped the line with the name."""

    mechanism = "lost"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        host = _host(at)
        kept = [line for line in box.read(HOSTS).splitlines() if host not in line.split()]
        if pick.chance(0.5):
            kept.append(f"# {host} moved to the name server")
        copy = rewrite(box, world, _file(at, HOSTS), "\n".join([*kept, ""]))
        return self._truth(world, at, HOSTS, copy, "Errno -[235]")


class WrongAddress(_Unresolved):
    """The name has the address of a machine that no longer exists."""

    mechanism = "address"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        host = _host(at)
        stale = f"{pick.choice(('10.77.0', '10.12.4', '192.168.30'))}.{pick.size(100, 250)}"
        text = box.read(HOSTS).replace(f"{world.hosts[host]}\t{host}\n", f"{stale}\t{host}\n")
        copy = rewrite(box, world, _file(at, HOSTS), text)
        return self._truth(world, at, HOSTS, copy, re.escape(stale) + "|unreachable|No route")


class LookupOrder(_Unresolved):
    """Only name servers are consulted, and there is none: /etc/hosts is right but unread."""

    mechanism = "lookup-order"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        order = pick.choice(("dns", "resolve dns", "mdns4_minimal dns"))
        text = re.sub(r"(?m)^hosts:.*$", f"hosts: {order}", box.read(SWITCH))
        copy = rewrite(box, world, _file(at, SWITCH), text)
        restart(box, world, at.service)
        return self._truth(world, at, SWITCH, copy, r"hosts:\s")


def _host(at: Target) -> str:
    return at.value.partition("://")[2].rpartition(":")[0]


def _file(at: Target, path: str) -> Target:
    return Target(at.kind, at.service, path)


FAULTS = (LostEntry(), WrongAddress(), LookupOrder())
