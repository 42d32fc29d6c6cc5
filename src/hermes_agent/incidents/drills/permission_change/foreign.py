"""The folder of a database, opened for a backup."""

from hermes_agent.incidents.drills import bakery, database, tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def backup_access(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    base, more = yard.Base(pick, main, base_port), bakery.orders(pick)
    top, changes = "/var/lib/postgresql", "/var/log/changes.log"
    given = pick.choice(("a+rX", "g+rwX", "go+rX"))
    world = tiers.joined(
        [
            base.server(start_seconds=3),
            base.service(main, port),
            bakery.counter(other, other_port, more),
        ],
        files={
            **bakery.months_ago(other, pick),
            changes: File(f"2026-09-04 16:20 {other}: journal is part of the backup now\n"),
        },
        hostname=pick.host(),
    )

    def healthy(probe: Probe) -> list[str]:
        return said(probe.keeps(port), base.lost(probe))

    start = f"supervisorctl start {database.NAME}; sleep 1"
    return Scene(
        world=world,
        check=tiers.answers(main, port),
        healthy=healthy,
        truth=Truth(
            (database.NAME,), ("permission-change",), rf"{top}",
            r"invalid permissions|should be u=rwx|drwx[-r]w?[-xs]",
        ),
        inject=lines(
            f"chmod -R {given} {top}",
            f"echo \"$(date '+%F %H:%M') backup reads {top} now\" >> {changes}",
            f"supervisorctl restart {database.NAME}",
            f"until supervisorctl status {database.NAME} | grep -q FATAL; do sleep 0.2; done",
        ),
        fix=(f"chmod 700 {database.DATA}", start),
        wrong={
            "restarting": [f"supervisorctl restart {database.NAME} {main}; sleep 1"],
            "opening everything": [f"chmod -R 777 {top}", start],
            "without the database": [
                f"mkdir -p /var/lib/{main}",
                f"sed -i 's#^database = .*#data = /var/lib/{main}#' {tiers.configured(main)}",
                f"supervisorctl restart {main}; sleep 0.5",
            ],
        },
        stays=(tiers.configured(main), database.SETTINGS, bakery.conf_of(other)),
        harm=lambda probe: said(
            bakery.takes(probe, other_port), bakery.lost(probe, other_port, more)
        ),
    )  # fmt: skip
