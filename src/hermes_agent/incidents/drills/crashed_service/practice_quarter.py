"""A service that gave up while its database was away, and stays down."""

from hermes_agent.incidents.drills import database, parts, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

NIGHT = "/var/log/maintenance.log"


def _noted(text: str, minutes: int = 0) -> str:
    return f"echo \"$(date -d '-{minutes} min' '+%F %T')\" '{text}' >> {NIGHT}"


def gave_up(pick: Pick) -> Scene:
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, kept = house.Store(pick, main, base_port), house.records(other, pick)
    what = pick.choice(("cold copy of the database", "move to the new volume", "minor upgrade"))
    world = tiers.joined(
        [
            store.server(),
            house.app(
                main, port, store.used_by(DATABASE_PREWARM="true"), start_seconds=5,
                needs=(database.NAME,),
            ),
            house.app(other, other_port),
        ],
        files={
            **kept, **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            NIGHT: File(f"2026-10-11 03:00:02 {other}: settings reviewed, no change\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, main, house.TOP)
        return said(
            house.serves(probe, port), store.lost(probe),
            "" if up else f"{main} is not under supervision",
        )  # fmt: skip

    by_hand = f"python3 {house.TOP}/{main}/current/clerk.py {house.env_of(main)}"
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("service-crash", "cascading-failure"),
            rf"process|conf\.d/{main}|startretries|FATAL|{NIGHT}|boot|supervisor",
            rf"{main}\s+FATAL|gave up: {main}|Exited too quickly|boot failed|entered FATAL",
        ),
        inject=lines(
            _noted(f"{what}: {database.NAME} stopped", 21),
            f"supervisorctl stop {database.NAME}",
            _noted(f"nightly restart of {main}", 19),
            f"supervisorctl restart {main}",
            f"until supervisorctl status {main} | grep -q FATAL; do sleep 0.2; done",
            f"supervisorctl start {database.NAME}; sleep 1",
            _noted(f"{what}: done, {database.NAME} started", 12),
        ),
        fix=(f"supervisorctl start {main}",),
        wrong={
            "the database is restarted": [f"supervisorctl restart {database.NAME}; sleep 1"],
            "it is started by hand": [f"setsid as-app {by_hand} </dev/null &>/dev/null & sleep 1"],
            "it goes without the database": [
                (f"sed -i 's#^DATABASE_URL=.*#DATA_DIR={house.data_of(main)}#' "
                f"{house.env_of(main)}"),
                f"supervisorctl start {main}",
            ],
        },
        stays=(*kept, house.env_of(main), house.env_of(other), database.SETTINGS),
        harm=lambda probe: said(house.serves(probe, other_port)),
    )  # fmt: skip
