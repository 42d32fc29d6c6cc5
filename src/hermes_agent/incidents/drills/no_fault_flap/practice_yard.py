"""In another house: nginx answered 502 for a moment while a release went out; it has been well
since."""

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth


def release(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    minutes, build = pick.size(2, 7), pick.size(100, 900)
    kept = yard.notes(main, pick)
    refused = (
        f"[error] 31#31: *{build} connect() failed (111: Connection refused) while connecting to "
        f'upstream, request: "GET /status HTTP/1.1", upstream: "http://127.0.0.1:{inner}/status"'
    )
    world = tiers.joined(
        [yard.depot(main, inner), yard.depot(other, other_port),
         tiers.nginx({main: yard.proxy(port, f"http://127.0.0.1:{inner}")}, [main], port)],
        files={**kept, **yard.days_ago(other, pick),
               f"/opt/{main}/BUILD": File(f"{build}\n", age=60.0 * minutes)},
        hostname=pick.host(),
        setup=[
            *tiers.old_lines("/var/log/nginx/error.log", {minutes: refused}),
            *tiers.old_lines("/var/log/releases.log", {
                minutes + 3000: f"{main} build {build - 1} is live",
                minutes: f"{main} build {build} is live, restarted in 1.1 s",
            }),
        ],
    )  # fmt: skip
    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=lambda probe: said(yard.stores(probe, port, inner, other_port)),
        signal=f"{main} status failed once {minutes} minutes ago: 502",
        truth=Truth((main, "nginx", world.hostname, ""), ("no-fault",)),
        wrong={
            "rolled back to be sure": [
                f"echo {build - 1} > /opt/{main}/BUILD", f"supervisorctl restart {main}",
            ],
            "restarted to be sure": ["supervisorctl restart nginx; sleep 0.3"],
        },
        stays=(*kept, yard.settings_of(main), tiers.site_file(main), f"/opt/{main}/BUILD"),
    )  # fmt: skip
