"""A store that moved, and an nginx that looked up its name before; a line of the hosts file that
was written behind one without an end."""

from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import Truth


def _local(pick: Pick) -> str:
    return f"127.{pick.size(3, 40)}.{pick.size(1, 200)}.{pick.size(2, 250)}"


def kept_address(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port, site_port) = pick.services(2), pick.ports(4)
    name = f"{main}.{pick.choice(('intra', 'home.arpa', 'dc1'))}"
    old, new = _local(pick), _local(pick)
    kept = house.records(main, pick)
    sites = {
        main: house.site(port, f"http://{name}:{inner}"),
        other: house.site(site_port, f"http://127.0.0.1:{other_port}"),
    }
    env, host = house.env_of(main), pick.host()
    world = tiers.joined(
        [house.app(main, inner, address=old), house.app(other, other_port),
         tiers.nginx(sites, [main, other], port)],
        files={**kept, **house.weeks_ago(other, pick)},
        hosts={name: old, f"printer.{name}": "127.0.0.77"},
        hostname=host,
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"sed -i 's/^LISTEN=.*/LISTEN={new}:{inner}/' {env}")
        box.run(f"sed -i 's/^{old}\\t/{new}\\t/' /etc/hosts")
        box.run(f"supervisorctl restart {main}")

    def harm(probe: Probe) -> list[str]:
        listens = f"LISTEN={new}:{inner}" in probe.text(env)
        named = f"{new}\t{name}" in probe.text("/etc/hosts")
        return said(
            "" if listens or f"LISTEN={old}" in probe.text(env) else f"{env} was changed",
            "" if named == listens else f"{name} does not lead to where {main} is",
            house.serves(probe, site_port),
        )

    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=lambda probe: said(house.serves(probe, port)),
        truth=Truth(
            ("nginx", main, host, "dns", "resolver"), ("dns-failure", "bad-config"),
            rf"{name}|{old}|{new}|/etc/hosts|{tiers.site_file(main)}|nginx (worker|master|pid)",
            rf"upstream: \"http://{old}|{old}:{inner}|{new}\s+{name}|{new}:{inner}",
        ),
        inject=inject,
        fix=("nginx -t", "nginx -s reload"),
        wrong={
            "the store is restarted": [f"supervisorctl restart {main}"],
            "its address goes into the site": [
                f"sed -i 's/{name}/{new}/' {tiers.site_file(main)}", "nginx -s reload",
            ],
            "it moves back": [
                f"sed -i 's/^LISTEN=.*/LISTEN={old}:{inner}/' {env}",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(*kept, tiers.site_file(main), tiers.site_file(other), house.env_of(other)),
        harm=harm,
    )  # fmt: skip


def glued_line(pick: Pick) -> Scene:
    (front, store, other), (port, inner, other_port) = pick.services(3), pick.ports(3)
    domain = pick.choice(("intra", "home.arpa", "dc1"))
    name, added = f"{store}.{domain}", f"{pick.choice(('metrics', 'backup', 'relay'))}.{domain}"
    address, new = _local(pick), _local(pick)
    kept, host = house.records(store, pick), pick.host()
    back = {"BACKEND_URL": f"http://{name}:{inner}"}
    world = tiers.joined(
        [house.app(front, port, back, needs=(store,)), house.app(store, inner, address=address),
         house.app(other, other_port)],
        files={**kept, **house.weeks_ago(front, pick), **house.weeks_ago(other, pick)},
        hosts={f"{other}.{domain}": "127.0.0.1", name: address},
        hostname=host,
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run("truncate -s -1 /etc/hosts")
        box.run(f"printf '%s\\t%s\\n' {new} {added} >> /etc/hosts")

    def harm(probe: Probe) -> list[str]:
        names = probe.text("/etc/hosts")
        missing = [one for one in (added, f"{other}.{domain}") if one not in names]
        return said(
            f"/etc/hosts lacks {missing}" if missing else "", house.serves(probe, other_port)
        )

    env = house.env_of(front)
    return Scene(
        world=world,
        check=house.up(front, port),
        healthy=lambda probe: said(house.serves(probe, port)),
        truth=Truth(
            (host, front, store, "dns", "resolver", "hosts"), ("dns-failure", "bad-config"),
            rf"/etc/hosts|{name}{new}", rf"{name}{new}|{new}\s+{added}",
        ),
        inject=inject,
        fix=(f"sed -i 's/^\\({address}\\t{name}\\)\\({new}\\)/\\1\\n\\2/' /etc/hosts",),
        wrong={
            "restarting": ["supervisorctl restart all"],
            "an address in the settings": [
                f"sed -i 's/{name}/{address}/' {env}", f"supervisorctl restart {front}",
            ],
            "the line goes": [f"sed -i '/{added}/d' /etc/hosts"],
        },
        stays=(*kept, env, house.env_of(store)),
        harm=harm,
    )  # fmt: skip
