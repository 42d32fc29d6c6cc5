"""In another house: a site of nginx that came with a package and took the port, and a second entry
for the same program."""

from hermes_agent.incidents.drills import parts, tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def _kept_up(probe: Probe, name: str) -> str:
    kept = parts.supervised(probe, name, "/opt")
    return "" if kept else f"{name} is not under supervision"


def packaged_site(pick: Pick) -> Scene:
    (main, other), (port, site_port, other_port) = pick.services(2), pick.ports(3)
    site = f"/etc/nginx/sites-enabled/{pick.choice(('default', 'welcome', 'status'))}.conf"
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [yard.depot(main, port, start_seconds=1), yard.depot(other, other_port),
         tiers.nginx({other: yard.proxy(site_port, f"http://127.0.0.1:{other_port}")}, [other],
                     site_port)],
        files={
            **kept, **yard.days_ago(main, pick),
            "/var/www/html/index.html": File("Welcome to nginx!\n", age=9e6),
        },
        hostname=pick.host(),
    )  # fmt: skip
    text = f"server {{\\n    listen 127.0.0.1:{port};\\n    root /var/www/html;\\n}}\\n"
    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=lambda probe: said(yard.stores(probe, port, site_port), _kept_up(probe, main)),
        truth=Truth(
            (main, "nginx"), ("port-conflict", "bad-config"), rf"{site}|nginx",
            rf"Address already in use|LISTEN.*:{port}\b.*nginx|{site}",
        ),
        inject=lines(
            f"supervisorctl stop {main}",
            f"printf '{text}' > {site}; nginx -s reload; sleep 0.4",
            f"supervisorctl start {main}",
        ),
        fix=(f"mv {site} /root/", "nginx -t && nginx -s reload", "sleep 0.4",
             f"supervisorctl start {main}"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it is moved to another port": [
                f"sed -i 's/:{port}\"/:{port + 1}\"/' {yard.settings_of(main)}",
                f"supervisorctl restart {main}",
            ],
            "nginx is stopped": ["supervisorctl stop nginx", f"supervisorctl start {main}"],
        },
        stays=(*kept, yard.settings_of(main), tiers.site_file(other)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


def second_entry(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    twin = f"{main}-{pick.choice(('canary', 'next', 'test'))}"
    folder, entry = f"/var/opt/{twin}", f"/etc/supervisor/conf.d/{twin}.conf"
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [yard.depot(main, port, start_seconds=1), yard.depot(other, other_port)],
        files={
            **kept, **yard.days_ago(main, pick), **yard.days_ago(other, pick),
            f"{folder}/{twin}.toml": File(
                yard.toml({"listen": f"127.0.0.1:{port}", "store": folder,
                           "logfile": yard.log_of(twin)}), age=90_000.0,
            ),
        },
        folders={folder: 0o755},
        hostname=pick.host(),
    )  # fmt: skip
    own = f"{yard.store_of(main)}/where-it-goes"

    def healthy(probe: Probe) -> list[str]:
        probe.http(port, f"{yard.NOTES}/where-it-goes", "PUT", b"here")
        reached = probe.read(own) == b"here"
        return said(
            yard.stores(probe, port), "" if reached else f"what it is given is not {main}'s",
            _kept_up(probe, main),
        )  # fmt: skip

    return Scene(
        world=world,
        check=yard.fetches(main, port, *next((p, f.text) for p, f in kept.items())),
        healthy=healthy,
        truth=Truth(
            (main, twin), ("port-conflict", "bad-config"), rf"{twin}",
            rf"Address already in use|LISTEN.*:{port}\b.*pid=|{twin}",
        ),
        inject=lines(
            f"supervisorctl stop {main}",
            f"sed 's/^.program:.*/[program:{twin}]/; s#/{main}.log#/{twin}.log#; "
            f"s#{yard.settings_of(main)}#{folder}/{twin}.toml#' "
            f"/etc/supervisor/conf.d/{main}.conf > {entry}",
            "supervisorctl reread",
            f"supervisorctl add {twin}; sleep 1.2",
            f"supervisorctl start {main}",
        ),
        fix=(f"supervisorctl stop {twin}", f"mv {entry} {entry}.off", "supervisorctl update",
             f"supervisorctl start {main}"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it is moved to another port": [
                f"sed -i 's/:{port}\"/:{port + 1}\"/' {yard.settings_of(main)}",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(*kept, yard.settings_of(main)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
