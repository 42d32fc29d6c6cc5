"""Where in a world a fault of some kind can be injected."""

from collections.abc import Callable, Iterator, Mapping

from hermes_drills.types import Kind, Service, Target, World

APPS = frozenset({"front", "store", "ledger", "worker"})


def targets(world: World, kind: Kind) -> tuple[Target, ...]:
    return tuple(_FOUND[kind](world))


def _apps(world: World) -> list[Service]:
    """Services whose work users feel."""
    return [one for one in world.services if one.role in APPS]


def _services(world: World) -> Iterator[Target]:
    for one in _apps(world):
        yield Target("service", one.name, one.config, port=one.port)


def _configs(world: World) -> Iterator[Target]:
    for one in _apps(world):
        for key, value in world.settings[one.name].items():
            yield Target("config", one.name, one.config, key, value, one.port)


def _mounts(world: World) -> Iterator[Target]:
    for mount in world.mounts:
        owners = [one for one in _apps(world) if one.data == mount.path]
        owner = owners[0].name if owners else world.entry
        yield Target("mount", owner, mount.path)


def _jobs(world: World) -> Iterator[Target]:
    for job in world.jobs:
        yield Target("job", job.name, job.product)


def _field(kind: Kind, name: str) -> Callable[[World], Iterator[Target]]:
    def found(world: World) -> Iterator[Target]:
        for one in _apps(world):
            if path := getattr(one, name):
                yield Target(kind, one.name, path, port=one.port)

    return found


def _ports(world: World) -> Iterator[Target]:
    for one in _apps(world):
        if one.port:
            yield Target("port", one.name, port=one.port)


def _settings(kind: Kind, key: str) -> Callable[[World], Iterator[Target]]:
    def found(world: World) -> Iterator[Target]:
        for one in _apps(world):
            if value := world.settings[one.name].get(key):
                yield Target(kind, one.name, one.config, key, value, one.port)

    return found


_FOUND: Mapping[Kind, Callable[[World], Iterator[Target]]] = {
    "service": _services,
    "config": _configs,
    "mount": _mounts,
    "job": _jobs,
    "log": _field("log", "log"),
    "data": _field("data", "data"),
    "lock": _field("lock", "lock"),
    "secret": _field("secret", "secret"),
    "certificate": _field("certificate", "certificate"),
    "release": _field("release", "release"),
    "port": _ports,
    "upstream": _settings("upstream", "upstream"),
    "database": _settings("database", "database"),
}
