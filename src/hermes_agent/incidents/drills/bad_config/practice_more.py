"""Settings of which nobody kept an earlier version, while what is meant is there: a row of nginx
that is not ended, and a folder whose name is misspelt."""

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import Truth


def not_ended(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    site, kept = tiers.site_file(main), yard.notes(main, pick)
    row = pick.choice(("proxy_http_version 1.1;", "listen 127.0.0.1:{0};")).format(port)
    return Scene(
        world=tiers.joined(
            [
                yard.depot(main, inner),
                yard.depot(other, other_port),
                tiers.nginx({main: yard.proxy(port, f"http://127.0.0.1:{inner}")}, [main], port),
            ],
            files={**kept, **yard.days_ago(other, pick)},
            hostname=pick.host(),
        ),
        check=yard.passes(main, port),
        healthy=lambda probe: said(yard.stores(probe, port)),
        truth=Truth(("nginx",), ("bad-config",), site, r"\[emerg\]|not terminated|arguments"),
        inject=lines(
            f"sed -i 's/{row}/{row[:-1]}/' {site}", "supervisorctl restart nginx; sleep 0.5"
        ),
        fix=(f"sed -i 's/{row[:-1]}$/{row}/' {site}", "supervisorctl restart nginx; sleep 0.4"),
        wrong={
            "restarting": ["supervisorctl restart nginx || true"],
            "without the site": [f"mv {site} /root/; supervisorctl restart nginx; sleep 0.3"],
        },
        stays=(*kept, yard.settings_of(main)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


def misspelt(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    config, kept = yard.settings_of(main), yard.notes(main, pick)
    right, wrong = yard.store_of(main), pick.choice(("note", "ntoes", "notess"))
    wrong = f"{right.rpartition('/')[0]}/{wrong}"
    first, note = next(iter(kept.items()))
    return Scene(
        world=tiers.joined(
            [yard.depot(main, port), yard.depot(other, other_port)],
            files={**kept, **yard.days_ago(other, pick)},
            hostname=pick.host(),
        ),
        check=yard.passes(main, port),
        healthy=lambda probe: said(
            yard.stores(probe, port),
            ""
            if probe.http(port, f"{yard.NOTES}/{first.rpartition('/')[2]}").text == note.text
            else f"{first} cannot be had",
        ),
        truth=Truth((main,), ("bad-config",), rf"{config}|{wrong}", rf"{wrong}|No such file"),
        inject=lines(
            f"sed -i 's#{right}\"#{wrong}\"#' {config}",
            f"supervisorctl restart {main}; sleep 0.6",
        ),
        fix=(f"sed -i 's#{wrong}\"#{right}\"#' {config}", f"supervisorctl restart {main}"),
        wrong={
            "restarting": [f"supervisorctl restart {main}"],
            "a new folder": [f"mkdir {wrong}; supervisorctl restart {main}"],
        },
        stays=tuple(kept),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )
