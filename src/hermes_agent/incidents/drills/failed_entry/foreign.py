"""An entry that does not come up: a program that goes into the background on its own."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import bakery, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def daemonized(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    kept, more, conf = bakery.orders(pick), bakery.orders(pick), bakery.conf_of(main)
    example = (
        "# counter: as it comes\nlisten 127.0.0.1:9001\n"
        "journal /var/bakery/counter/orders.journal\n"
        "logfile /var/log/bakery/counter.log\ndaemonize yes\n"
    )
    world = tiers.joined(
        [bakery.counter(main, port, kept), bakery.counter(other, other_port, more)],
        files={
            **bakery.months_ago(main, pick), **bakery.months_ago(other, pick),
            "/opt/bakery/share/counter.conf.example": File(example, age=9e6),
        },
        hostname=pick.host(),
    )  # fmt: skip
    run = f"supervisorctl status {main}"
    ends = f"kill $(pgrep -f 'python3 {bakery.CODE} {conf}'); sleep 0.5"
    return Scene(
        world=world,
        check=WatchedCheck(
            f"{main} supervised", Check(run, Expect(output="RUNNING"), timeout=6.0), main,
            severity="P2",
        ),
        healthy=lambda probe: said(
            bakery.takes(probe, port), bakery.lost(probe, port, kept), bakery.minded(probe, main)
        ),
        truth=Truth(
            (main,), ("bad-config", "service-crash"), rf"{conf}|daemonize",
            r"daemonize|exit status 0; not expected|Exited too quickly",
        ),
        inject=lines(
            f"sed -i 's/^daemonize no/daemonize yes/; 1s/.*/# counter {main}, from the example/' "
            f"{conf}",
            f"supervisorctl restart {main}",
            f"until supervisorctl status {main} | grep -q FATAL; do sleep 0.2; done",
        ),
        fix=(f"sed -i 's/^daemonize yes/daemonize no/' {conf}", ends,
             f"supervisorctl start {main}"),
        wrong={
            "it is only started again": [f"supervisorctl restart {main}; sleep 1.5"],
            "only what runs is ended": [ends, f"supervisorctl start {main}; sleep 1.5"],
            "only the file": [f"sed -i 's/^daemonize yes/daemonize no/' {conf}",
                              f"supervisorctl start {main}; sleep 1.5"],
            "the entry starts something else": [
                f"sed -i 's#^command=.*#command=/bin/sleep infinity#' {bakery.entry_of(main)}",
                "supervisorctl update; sleep 1.5",
            ],
        },
        stays=(bakery.entry_of(main), bakery.conf_of(other), bakery.CODE),
        harm=lambda probe: said(
            bakery.takes(probe, other_port), bakery.lost(probe, other_port, more)
        ),
    )  # fmt: skip
