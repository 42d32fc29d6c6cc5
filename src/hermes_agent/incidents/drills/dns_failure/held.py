"""A store that moved, and an nginx that looked up its name before."""

from hermes_agent.incidents.drills import house_ha3 as house
from hermes_agent.incidents.drills import tiers
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

    def healthy(probe: Probe) -> list[str]:
        moved = f"LISTEN={new}:{inner}" in probe.text(env)
        back = moved and not probe.tcp(inner, new)
        return said(house.serves(probe, port), f"{main} is not at {new}" if back else "")

    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
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
