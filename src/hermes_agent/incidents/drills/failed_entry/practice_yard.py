"""In another house: an entry that hands over an option which the program does not know, and a start
script that misses a variable."""

from hermes_agent.incidents.drills import parts, tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def _entry(name: str) -> str:
    return f"/etc/supervisor/conf.d/{name}.conf"


def _kept_up(probe: Probe, name: str) -> str:
    kept = parts.supervised(probe, name, "/opt")
    return "" if kept else f"{name} is not under supervision"


def unknown_option(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    option = pick.choice(("--workers=4", "--json-logs", "--trace-requests", "--bind-all"))
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [yard.depot(main, port, start_seconds=3), yard.depot(other, other_port)],
        files={
            **kept, **yard.days_ago(main, pick), **yard.days_ago(other, pick),
            "/var/log/changes.log": File(f"2026-07-21 {other}: settings reviewed, no change\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=lambda probe: said(yard.stores(probe, port), _kept_up(probe, main)),
        truth=Truth(
            (main,), ("service-crash", "bad-config"), rf"{_entry(main)}|{option}",
            rf"unrecognized arguments|{option}",
        ),
        inject=lines(
            f"sed -i '/^command=/s/$/ {option}/' {_entry(main)}",
            f"echo \"$(date +%F) {main}: {option} added to its entry\" >> /var/log/changes.log",
            "supervisorctl reread; supervisorctl update",
            f"until supervisorctl status {main} | grep -q FATAL; do sleep 0.2; done",
        ),
        fix=(f"sed -i 's/ {option}//' {_entry(main)}", "supervisorctl reread",
             "supervisorctl update"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it is started by hand": [
                (f"setsid python3 /opt/{main}/bin/depotd.py {yard.settings_of(main)} "
                "&>/dev/null & sleep 0.6"),
            ],
            "its entry is removed": [f"rm {_entry(main)}", "supervisorctl update"],
        },
        stays=(*kept, yard.settings_of(main), f"/opt/{main}/bin/depotd.py"),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


def missing_variable(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    start, place = f"/opt/{main}/bin/start.sh", f"/etc/default/{main}"
    variable = f"{main.upper()}_{pick.choice(('HOME', 'SETTINGS', 'CONFIG'))}"
    script = f"""#!/bin/sh
# Starts {main}; its places are in {place}.
set -eu
. {place}
exec python3 /opt/{main}/bin/depotd.py "${variable}"
"""
    text = f'# places of {main}\n{variable}="{yard.settings_of(main)}"\nLANG=C.UTF-8\n'
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [yard.depot(main, port, command=start, start_seconds=3,
                    about=f"started by {start}; settings {yard.settings_of(main)}"),
         yard.depot(other, other_port)],
        files={
            **kept, **yard.days_ago(main, pick), **yard.days_ago(other, pick),
            start: File(script, mode=0o755, age=tiers.MONTH),
            place: File(text, age=tiers.MONTH),
        },
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=lambda probe: said(yard.stores(probe, port), _kept_up(probe, main)),
        truth=Truth(
            (main,), ("service-crash", "bad-config"), rf"{place}|{variable}|{start}",
            rf"parameter not set|{variable}",
        ),
        inject=lines(
            f"cp -p {place} {place}.ucf-old",
            f"sed -i '/^{variable}=/d; s/places of/written by the package of/' {place}",
            f"supervisorctl restart {main}",
            f"until supervisorctl status {main} | grep -q FATAL; do sleep 0.2; done",
        ),
        fix=(f"cp -p {place}.ucf-old {place}", f"supervisorctl start {main}"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it is started by hand": [
                (f"setsid python3 /opt/{main}/bin/depotd.py {yard.settings_of(main)} "
                "&>/dev/null & sleep 0.6"),
            ],
        },
        stays=(*kept, yard.settings_of(main)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
