"""Certificates of programs that are no web servers of the usual kind: one that serves by itself,
and one that shows its certificate to whoever it asks."""

import re
from datetime import UTC, datetime, timedelta

from hermes_agent.incidents.drills import tiers, troves
from hermes_agent.incidents.drills.authority import authority, issued
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene
from hermes_agent.incidents.drills.world import File, Truth

DAY = timedelta(days=1)
GOOD = -60 * DAY, 30 * DAY
TRUST = ("/etc/ssl/lab-root.pem", "/opt/trust/root.crt", "/etc/pki/anchors/root.pem")


def _files(folder: str, names: tuple[str, str], pair: tuple[str, str]) -> dict[str, File]:
    return {
        f"{folder}/{names[0]}": File(pair[0], age=tiers.MONTH),
        f"{folder}/{names[1]}": File(pair[1], mode=0o600, age=tiers.MONTH),
    }


def own_server(pick: Pick) -> Scene:
    """A program serves over TLS by itself; the new certificate was fetched and not installed."""
    name, other = pick.services(2)
    ports = pick.ports(2)
    host = f"{name}.{pick.choice(('lab', 'internal', 'example'))}"
    folder = pick.choice((f"/opt/{name}/tls", f"/etc/{name}/ssl", f"/srv/{name}/certs"))
    fetched = pick.choice((f"/var/lib/acme/{host}", f"/etc/pki/{host}", f"/root/{host}"))
    names = pick.choice(
        (("server.crt", "server.key"), ("cert.pem", "key.pem"), ("tls.crt", "tls.key"))
    )
    trusted, now = pick.choice(TRUST), datetime.now(UTC)
    home, third = troves.house(pick, name, ports[0]), troves.house(pick, other, ports[1])
    kept = troves.entries(home, pick)
    pem = authority()[0]
    hours = timedelta(hours=pick.size(2, 200))
    over, new = issued(host, now, -90 * DAY, -hours), issued(host, now, -hours, 90 * DAY)

    def inject(box: Box) -> None:
        box.write(f"{folder}/{names[0]}", over[0])
        box.write(f"{folder}/{names[1]}", over[1], 0o600)
        box.write(f"{fetched}/fullchain.pem", new[0])
        box.write(f"{fetched}/privkey.pem", new[1], 0o600)
        box.run(f"supervisorctl restart {name}")
        box.wait(f"tcp:{home.port}")

    more = {"tls_certificate": f"{folder}/{names[0]}", "tls_key": f"{folder}/{names[1]}"}
    return Scene(
        world=tiers.joined(
            [troves.trove(home, more), troves.trove(third)],
            files={**kept, trusted: File(pem, age=tiers.MONTH),
                   **_files(folder, names, issued(host, now, *GOOD))},
            hostname=pick.host(),
            hosts={host: "127.0.0.1"},
        ),
        check=troves.is_up(name, home.port, how=f"--cacert {trusted}", scheme="https", host=host),
        healthy=lambda probe: [
            said
            for said in (probe.keeps(home.port, "/v1", ca=pem, name=host),
                         *troves.keeps(probe, third.port))
            if said
        ],
        truth=Truth((name,), ("certificate-expired",), rf"{folder}|{re.escape(host)}",
                    r"notAfter|expired|Not After"),
        inject=inject,
        fix=(f"cp {fetched}/fullchain.pem {folder}/{names[0]}",
             f"cp {fetched}/privkey.pem {folder}/{names[1]}", f"supervisorctl restart {name}"),
        wrong={
            "restarting": [f"supervisorctl restart {name}"],
            "only the certificate": [f"cp {fetched}/fullchain.pem {folder}/{names[0]}",
                                     f"supervisorctl restart {name} || true"],
        },
        stays=(home.config, third.config, trusted, *kept),
    )  # fmt: skip


def of_the_caller(pick: Pick) -> Scene:
    """Whoever asks shows a certificate that has run out, and is let in no more."""
    front, store = pick.services(2)
    ports = pick.ports(2)
    asks, keeps = troves.house(pick, front, ports[0]), troves.house(pick, store, ports[1])
    host, trusted, now = f"{store}.internal", pick.choice(TRUST), datetime.now(UTC)
    served = pick.choice((f"/etc/{store}/tls", f"/opt/{store}/certs"))
    shown = pick.choice((f"/etc/{front}/client", f"/srv/{front}/identity", f"/opt/{front}/mtls"))
    year = pick.choice(("2027", "next", "new"))
    kept = troves.entries(keeps, pick)
    pem = authority()[0]
    hours = timedelta(hours=pick.size(2, 200))
    name = f"{front}-client"
    over, new = issued(name, now, -90 * DAY, -hours), issued(name, now, -hours, 90 * DAY)

    def inject(box: Box) -> None:
        box.write(f"{shown}/client.pem", over[0])
        box.write(f"{shown}/client.key", over[1], 0o600)
        box.write(f"{shown}/client-{year}.pem", new[0])
        box.write(f"{shown}/client-{year}.key", new[1], 0o600)
        box.run(f"supervisorctl restart {front}")
        box.wait(f"tcp:{asks.port}")

    asking = {
        "backend": f"https://{host}:{keeps.port}",
        "backend_authority": trusted,
        "client_certificate": f"{shown}/client.pem",
        "client_key": f"{shown}/client.key",
    }
    keeping = {"tls_certificate": f"{served}/host.pem", "tls_key": f"{served}/host.key",
               "client_authority": trusted}  # fmt: skip
    return Scene(
        world=tiers.joined(
            [troves.trove(asks, asking, needs=[store]), troves.trove(keeps, keeping)],
            files={
                **kept, trusted: File(pem, age=tiers.MONTH),
                **_files(served, ("host.pem", "host.key"), issued(host, now, *GOOD)),
                **_files(shown, ("client.pem", "client.key"), issued(name, now, *GOOD)),
            },
            hostname=pick.host(),
            hosts={host: "127.0.0.1"},
        ),
        check=troves.is_up(front, asks.port),
        healthy=lambda probe: troves.keeps(probe, asks.port),
        truth=Truth((front,), ("certificate-expired",), rf"{shown}|{name}",
                    r"notAfter|expired|Not After"),
        inject=inject,
        fix=(f"cp {shown}/client-{year}.pem {shown}/client.pem",
             f"cp {shown}/client-{year}.key {shown}/client.key", f"supervisorctl restart {front}"),
        wrong={
            "restarting": [f"supervisorctl restart {front} {store}"],
            "letting everybody in": [f"sed -i '/client_authority/Id' {keeps.config}",
                                     f"supervisorctl restart {store}; false"],
        },
        stays=(keeps.config, trusted, *kept),
    )  # fmt: skip
