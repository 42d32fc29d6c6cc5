"""Which release runs is said by a file that the start script reads."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth


def pinned(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    number = pick.size(40, 190)
    old, new = f"r{number}", f"r{number + pick.size(1, 3)}"
    says, folder = pick.choice((f"/etc/default/{main}", f"/srv/{main}/release.env")), f"/srv/{main}"
    text = tiers.program_text("depot.py")
    worse = text.replace("self.counter += 1", "self.counter += self.step")
    if worse == text:
        raise ValueError("the program has no such line")
    start = (
        f"#!/bin/sh\n. {says}\n"
        f"exec python3 {folder}/releases/$RELEASE/depotd.py {yard.settings_of(main)}\n"
    )
    part = yard.depot(main, port, command=f"{folder}/start")
    files = {path: file for path, file in part.files.items() if not path.endswith("depotd.py")}
    kept = yard.notes(main, pick)

    def inject(box: Box) -> None:
        box.write(f"{folder}/releases/{new}/depotd.py", worse)
        box.run(f"sed -i s/{old}/{new}/ {says}; supervisorctl restart {main}")
        box.wait(f"tcp:{port}")

    return Scene(
        world=tiers.joined(
            [replace(part, files=files), yard.depot(other, other_port)],
            files={
                **kept,
                **yard.days_ago(other, pick),
                says: File(f"# which release runs\nRELEASE={old}\n", age=tiers.MONTH),
                f"{folder}/start": File(start, mode=0o755, age=tiers.MONTH),
                f"{folder}/releases/{old}/depotd.py": File(text, age=tiers.MONTH),
            },
            hostname=pick.host(),
        ),
        check=yard.passes(main, port),
        healthy=lambda probe: said(yard.stores(probe, port)),
        truth=Truth((main,), ("bad-deploy",), rf"{new}|{says}", rf"AttributeError|{new}"),
        inject=inject,
        fix=(f"sed -i s/{new}/{old}/ {says}", f"supervisorctl restart {main}"),
        wrong={
            "restarting": [f"supervisorctl restart {main}"],
            "only the file": [f"sed -i s/{new}/{old}/ {says}"],
        },
        stays=(*kept, yard.settings_of(main), f"{folder}/releases/{old}/depotd.py"),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )
