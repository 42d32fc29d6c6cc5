"""What runs on a machine: seven stacks, each with services that need each other."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from hermes_drills.pick import Pick
from hermes_drills.types import MONTH, File, Service, Style, World
from hermes_drills.worlds.authority import authority, issued
from hermes_drills.worlds.builder import Builder
from hermes_drills.worlds.postgres import postgres

DATA_MB = 12


def _store(made: Builder, name: str, port: int, **settings: str) -> tuple[Service, str]:
    """A service that keeps items, and its address."""
    host = made.host(name)
    own = {"bind": "0.0.0.0", "lock": f"/run/{name}.lock", **settings}
    store = made.app(name, "store", own, port=port, data=True, mount_mb=DATA_MB)
    return store, f"http://{host}:{port}"


def web(pick: Pick, style: Style) -> World:
    """A front that signs what it asks of a store."""
    made = Builder("web", pick, style)
    front, store = pick.names(2)
    ports = pick.ports(2)
    secret = pick.token(24)
    _, url = _store(made, store, ports[1], secret=made.secret(store, secret), signed="yes")
    made.app(front, "front", {"upstream": url, "secret": made.secret(front, secret)},
             needs=(store,), port=ports[0], limits={"nofile": 96})  # fmt: skip
    return made.world(front)


def ledger(pick: Pick, style: Style) -> World:
    """A front, and a service that keeps its items in SQLite."""
    made = Builder("ledger", pick, style)
    front, books = pick.names(2)
    ports = pick.ports(2)
    host = made.host(books)
    folder = f"/var/lib/{books}" if style.place.startswith("etc") else f"/srv/{books}/data"
    made.app(books, "ledger", {"bind": "0.0.0.0", "database": f"{folder}/{books}.db",
             "lock": f"/run/{books}.lock"}, port=ports[1], data=True,
             mount_mb=DATA_MB)  # fmt: skip
    made.app(front, "front", {"upstream": f"http://{host}:{ports[1]}"}, needs=(books,),
             port=ports[0], limits={"nofile": 96})  # fmt: skip
    return made.world(front)


def tls(pick: Pick, style: Style) -> World:
    """A front that speaks TLS, with a certificate of a private authority."""
    made = Builder("tls", pick, style)
    front, store = pick.names(2)
    ports = pick.ports(2)
    _, url = _store(made, store, ports[1])
    host = made.host(front)
    now = datetime.now(UTC)
    pem, key = issued(host, now, timedelta(days=-20), timedelta(days=60))
    made.authority = authority()[0]
    place = f"/etc/{front}/tls" if style.place == "etc" else f"/etc/ssl/{front}"
    made.files |= {
        f"{place}/server.pem": File(pem, age=20 * 86400), f"{place}/server.key": File(key, mode=0o600),
        "/etc/ssl/authority.pem": File(made.authority, age=MONTH),
    }  # fmt: skip
    made.app(front, "front", {"upstream": url, "certificate": f"{place}/server.pem",
             "key": f"{place}/server.key"}, needs=(store,), port=ports[0],
             limits={"nofile": 96})  # fmt: skip
    made.needs.append("openssl")
    return made.world(front)


def cron(pick: Pick, style: Style) -> World:
    """A store, and jobs that make files from what it keeps."""
    made = Builder("cron", pick, style)
    (name,) = pick.names(1)
    _store(made, name, pick.ports(1)[0])
    made.cron(pick.jobs(2), name)
    return made.world(name)


def queue(pick: Pick, style: Style) -> World:
    """A front that puts items into a queue, and a worker that takes them out of it."""
    made = Builder("queue", pick, style)
    front, worker = pick.names(2)
    data, spool = f"/srv/{worker}/results", f"/var/spool/{worker}"
    made.folders |= {data: 0o700, spool: 0o700}
    own = {"queue": spool, "data": data}
    made.app(worker, "worker", {**own, "lock": f"/run/{worker}.lock"}, program="worker.py")
    made.app(front, "front", own, needs=(worker,), port=pick.ports(1)[0])
    return made.world(front)


def chain(pick: Pick, style: Style) -> World:
    """Three in a row, and the first gives up on the second after some failures."""
    made = Builder("chain", pick, style)
    front, middle, store = pick.names(3)
    ports = pick.ports(3)
    _, url = _store(made, store, ports[2])
    host = made.host(middle)
    made.app(middle, "front", {"bind": "0.0.0.0", "upstream": url}, needs=(store,), port=ports[1])
    made.app(front, "front", {"upstream": f"http://{host}:{ports[1]}", "give_up_after": "3"},
             needs=(middle,), port=ports[0])  # fmt: skip
    return made.world(front)


STACKS: Mapping[str, Callable[[Pick, Style], World]] = {
    "web": web, "ledger": ledger, "tls": tls, "cron": cron, "chain": chain, "queue": queue,
    "postgres": postgres,
}  # fmt: skip
HELD = frozenset({"queue", "postgres"})
"""Stacks that the first split never has."""
PARTICULAR = frozenset({"chain"})
"""Stacks for faults that name them."""
