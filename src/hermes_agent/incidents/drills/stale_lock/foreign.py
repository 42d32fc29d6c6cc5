"""The lock of another machine."""

from hermes_agent.incidents.drills import bakery, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def other_host(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    kept, more = bakery.orders(pick), bakery.orders(pick)
    here, there = f"{pick.host()}-b", pick.choice(("till-1", "shop-old", "backoffice"))
    lock, theirs = (f"{bakery.journal_of(name)}.lck" for name in (main, other))
    pid, moved = pick.size(900, 4000), "/var/log/move.log"
    world = tiers.joined(
        [
            bakery.counter(main, port, kept),
            bakery.counter(other, other_port, more),
        ],
        files={
            **bakery.months_ago(main, pick), **bakery.months_ago(other, pick),
            moved: File(f"2026-06-02 18:30 {other}: rsync from {there}, entry written\n"),
        },
        hostname=here,
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        owner = probe.text(lock).partition("@")[0]
        ours = [str(one.inner) for one in probe.processes() if bakery.conf_of(main) in one.command]
        return said(
            bakery.takes(probe, port), bakery.lost(probe, port, kept), bakery.minded(probe, main),
            "" if owner in ours else f"{lock} is not its own",
        )  # fmt: skip

    start = f"supervisorctl start {main}; sleep 1.5"
    return Scene(
        world=world,
        check=bakery.is_open(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("stale-lock",), r"orders\.journal",
            rf"is in use by|{pid}@{there}|{lock}",
        ),
        inject=lines(
            f"supervisorctl stop {main}",
            f"echo {pid}@{there} > {lock}; touch -d '-2 hours' {lock}",
            f"echo \"$(date '+%F %H:%M') {main}: rsync from {there}, entry written; "
            f'{there} is switched off" >> {moved}',
            f"supervisorctl start {main}",
        ),
        fix=(f"mv {lock} /root/", start),
        wrong={
            "it is only started again": [start],
            "all locks go": [f"rm {bakery.STORED}/*/*.lck", start],
            "it begins with an empty journal": [
                (f"mv {bakery.STORED}/{main} {bakery.STORED}/{main}.old; "
                f"mkdir {bakery.STORED}/{main}"), start,
            ],
        },
        stays=(theirs, bakery.conf_of(main), bakery.conf_of(other), bakery.CODE),
        harm=lambda probe: said(
            bakery.takes(probe, other_port), bakery.lost(probe, other_port, more)
        ),
    )  # fmt: skip
