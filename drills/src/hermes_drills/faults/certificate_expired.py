"""Clients refuse the certificate of a service, because of the time that it is valid for."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from shlex import quote

from hermes_drills.box.box import Box
from hermes_drills.faults.common import restart
from hermes_drills.pick import Pick
from hermes_drills.types import Fault, Target, Truth, World
from hermes_drills.worlds import checks, inits
from hermes_drills.worlds.authority import issued
from hermes_drills.worlds.styles import copy_path


class _Invalid(Fault):
    category = "certificate-expired"
    wants = "certificate"
    needs = ("openssl",)

    def _truth(self, world: World, at: Target, beside: tuple[str, str], evidence: str) -> Truth:
        paths = _pair(world, at)
        return Truth(
            (at.service,), (self.category,), rf"{at.path}|{beside[0]}|certificate",
            rf"{evidence}|certificate verify failed", at=at,
            notes={"paths": " ".join(paths), "undo": _copied(beside, paths), "beside": beside[0]},
        )  # fmt: skip

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        return truth.notes["undo"], inits.restart(world, truth.at.service)

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        name = truth.at.service
        pem, key = map(quote, _pair(world, truth.at))
        again = inits.restart(world, name)
        needed = [inits.restart(world, one) for one in world.service(name).needs]
        own = (f"openssl req -x509 -newkey rsa:2048 -nodes -days 90 -subj /CN={name}.internal "
               f"-addext subjectAltName=DNS:{name}.internal -keyout {key} -out {pem}")  # fmt: skip
        return {
            "restart what it needs": needed,
            "sign it ourselves": [own, again],
            "delete it": [f"rm {pem}", again],
        }


class Expired(_Invalid):
    """The certificate in use has expired; its renewal was obtained but never installed."""

    mechanism = "expired"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        pem, key = _pair(world, at)
        folder, _, name = pem.rpartition("/")
        place = pick.choice((folder, f"{folder}/renewed"))
        stem = f"{place}/{name.partition('.')[0]}{pick.choice(('.new', '.renewed', '-renewed'))}"
        beside = (f"{stem}.pem", f"{stem}.key")
        box.run(_copied((pem, key), beside))
        _put(box, world, at, -90, -pick.size(1, 200) / 24)
        restart(box, world, at.service)
        return self._truth(world, at, beside, "expired|notAfter")

    def wrong(self, world: World, truth: Truth) -> Mapping[str, Sequence[str]]:
        assert truth.at is not None
        again = inits.restart(world, truth.at.service)
        half = f"cp {quote(truth.notes['beside'])} {quote(truth.at.path)}"
        more = {"restart": [again], "without its key": [half, again]}
        return {**super().wrong(world, truth), **more}


class NotRestarted(_Invalid):
    """It was renewed on disk, but the service still uses the one that it read at startup."""

    mechanism = "not-restarted"

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        pem, key = _pair(world, at)
        good = box.read(pem), box.read(key)
        _put(box, world, at, -90, -pick.size(1, 200) / 24)
        restart(box, world, at.service)
        _expired(box, world)
        box.write(pem, good[0])
        box.write(key, good[1])
        return self._truth(world, at, (pem, key), "expired|notAfter|renewed")

    def expert(self, world: World, truth: Truth) -> tuple[str, ...]:
        assert truth.at is not None
        return (inits.restart(world, truth.at.service),)


class NotYetValid(Expired):
    """The renewed one is not valid for some days yet; the one before it still is."""

    mechanism = "not-yet-valid"
    foreign = True

    def inject(self, box: Box, world: World, at: Target, pick: Pick) -> Truth:
        pem, key = _pair(world, at)
        beside = (copy_path(world.style, pem, at.service), copy_path(world.style, key, at.service))
        box.run(_copied((pem, key), beside))
        _put(box, world, at, pick.size(6, 300) / 24, 90)
        restart(box, world, at.service)
        return self._truth(world, at, beside, "not yet valid|notBefore")


def _pair(world: World, at: Target) -> tuple[str, str]:
    return at.path, world.settings[at.service]["key"]


def _copied(those: tuple[str, str], to: tuple[str, str]) -> str:
    lines = [f"cp -p {quote(one)} {quote(path)}" for one, path in zip(those, to, strict=True)]
    return "; ".join([f"mkdir -p {quote(to[0].rpartition('/')[0])}", *lines])


def _put(box: Box, world: World, at: Target, first: float, last: float) -> None:
    """Another certificate in its place, valid between two days from now."""
    host = next(host for host in world.hosts if host.startswith(f"{at.service}."))
    texts = issued(host, datetime.now(UTC), timedelta(days=first), timedelta(days=last))
    for path, text in zip(_pair(world, at), texts, strict=True):
        box.write(path, text)


def _expired(box: Box, world: World) -> None:
    """Wait until it has read its files and shows them."""
    look = checks.answers(world).run
    box.run(f"until {look} 2>&1 | grep -q expired; do sleep 0.05; done")


FAULTS = (Expired(), NotRestarted(), NotYetValid())
