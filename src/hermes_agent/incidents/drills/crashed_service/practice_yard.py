"""In another house: a service that ends at once since its state was cut off, and a PostgreSQL that
was killed below the service that people see."""

from hermes_agent.incidents.drills import database, tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def cut_off(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    state = f"/var/opt/{main}/{pick.choice(('state', 'counter', 'position'))}.json"
    count = pick.size(4000, 90000)
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [yard.depot(main, port, {"state": state}, start_seconds=1), yard.depot(other, other_port)],
        files={
            **kept,
            **yard.days_ago(main, pick),
            **yard.days_ago(other, pick),
            state: File(f'{{"counter": {count}}}'),
            f"{state}.bak": File(f'{{"counter": {count - 3}}}', age=3000.0),
        },
        hostname=pick.host(),
    )

    def healthy(probe: Probe) -> list[str]:
        text = probe.text(state)
        digits = "".join(letter for letter in text if letter.isdigit())
        known = digits and int(digits) >= count - 3
        return said(yard.stores(probe, port, other_port),
                    "" if known else "it began to count anew")  # fmt: skip

    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("service-crash",), state.replace(".", r"\."),
            r"is damaged|Unterminated|Expecting|delimiter",
        ),
        inject=lines(
            f"supervisorctl stop {main}",
            f"printf '{{\"coun' > {state}",
            f"supervisorctl start {main}",
        ),
        fix=(f"cp -p {state}.bak {state}", f"supervisorctl start {main}"),
        wrong={
            "only started again": [f"supervisorctl start {main}"],
            "it begins anew": [f"mv {state} {state}.broken", f"supervisorctl start {main}"],
        },
        stays=(*kept, yard.settings_of(main)),
    )  # fmt: skip


def database_gone(pick: Pick) -> Scene:
    main, front, other = pick.services(3)
    port, base_port, other_port, front_port = pick.ports(4)
    base = yard.Base(pick, main, base_port)
    site = yard.proxy(front_port, f"http://127.0.0.1:{port}")
    world = tiers.joined(
        [
            base.server(autorestart=False),
            base.service(main, port),
            tiers.nginx({front: site}, [main], front_port),
            yard.depot(other, other_port),
        ],
        files=yard.days_ago(other, pick),
        hostname=pick.host(),
    )
    return Scene(
        world=world,
        check=tiers.answers(front, front_port),
        healthy=lambda probe: said(probe.keeps(front_port), base.lost(probe)),
        truth=Truth(
            (database.NAME,), ("service-crash",), rf"{database.NAME}|{base_port}",
            rf"{database.NAME}\s+(EXITED|STOPPED|FATAL)|database: .*refused",
        ),
        inject=lines(f"kill -9 $(supervisorctl pid {database.NAME}); sleep 0.5"),
        fix=(f"supervisorctl start {database.NAME}",),
        wrong={
            "restarting the services": [f"supervisorctl restart {main} nginx"],
            "its data anew": [
                f"rm -rf {database.DATA}/base", f"supervisorctl start {database.NAME}; sleep 0.5",
            ],
        },
        stays=(tiers.configured(main), yard.settings_of(other), database.SETTINGS),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
