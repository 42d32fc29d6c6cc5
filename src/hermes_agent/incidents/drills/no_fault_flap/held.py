"""The line between two machines was away for some seconds, as the switch was restarted."""

from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import BOX_ADDRESS, File, Node, Truth

KERNEL = "/var/log/kern.log"


def _kernel(host: str, ago: int, since: int, text: str) -> str:
    """A line of the kernel of so many seconds ago."""
    stamp = f"$(date -d '-{ago} sec' '+%b %e %T')"
    return (
        f'echo "{stamp} {host} kernel: [{since - ago}.{ago * 7919 % 10**6:06}] {text}" >> {KERNEL}'
    )


def switch_restarted(pick: Pick) -> Scene:
    (main, store, other), (port, inner, other_port) = pick.services(3), pick.ports(3)
    host, minutes = pick.host(), pick.size(4, 11)
    far, address = f"{pick.choice(('rack', 'cellar', 'annex'))}-{pick.size(1, 9)}", "10.77.0.2"
    ago, away = minutes * 60, pick.size(7, 14)
    since, pid = pick.size(900_000, 4_000_000), pick.size(300, 900)
    backend = f"http://{address}:{inner}"
    error = (
        f"[{pid}] [ERROR] GET /up: backend {backend}: <urlopen error [Errno 113] No route to host>"
    )
    log = house.log_of(main)
    world = tiers.joined(
        [house.app(store, inner, address=address, node=far),
         house.app(main, port, {"BACKEND_URL": backend}, needs=(store,)),
         house.app(other, other_port)],
        files={**house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
               "/etc/motd": File("Mondays 9 to 10: work on the network of the building\n")},
        setup=[
            _kernel(host, ago + 9 * 86400, since, "br0: topology change detected, propagating"),
            _kernel(host, ago + away, since, "br0: port 1(veth0) entered disabled state"),
            _kernel(host, ago, since, "br0: port 1(veth0) entered blocking state"),
            _kernel(host, ago, since, "br0: port 1(veth0) entered forwarding state"),
            *(f"echo \"[$(date -u -d '-{ago + gone} sec' '+%F %T') +0000] {error}\" >> {log}"
              for gone in (away - 3, away - 6)),
        ],
        nodes=(Node(far, address),),
        hosts={store: address},
        hostname=host,
    )  # fmt: skip
    return Scene(
        world=world,
        check=house.up(main, port),
        signal=f"{main} is up failed {minutes} minutes ago: No route to host HTTP 504",
        healthy=lambda probe: said(
            house.serves(probe, port, other_port),
            "" if probe.tcp(inner, address) else f"{far} is not reached from {BOX_ADDRESS}",
        ),
        truth=Truth((main, store, far, host, ""), ("no-fault",)),
        wrong={
            "restarted to be sure": [f"supervisorctl restart {main}"],
            "waiting longer": [f"echo BACKEND_TIMEOUT=9 >> {house.env_of(main)}"],
            "the line is taken down and up": [
                "ip link set veth0 down; ip link set veth0 up", f"supervisorctl restart {store}",
            ],
        },
        stays=(house.env_of(main), house.env_of(store)),
    )  # fmt: skip
