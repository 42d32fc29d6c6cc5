"""Two colours of one app that both run since a deployment was cut short."""

from hermes_agent.incidents.drills import database, tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

SWITCH = """#!/bin/bash
# switch.sh COLOUR: start it, send visitors there, stop the other.
new=$1; [ "$new" = blue ] && old=green || old=blue
log() {{ echo "$(date '+%F %T') $*" >> /var/www/{0}-deploy.log; }}
log "starting {0}-$new"; supervisorctl start {0}-$new
log "nginx: {0} to $new"; ln -sfn /etc/nginx/colours/{0}-$new.conf {1}; nginx -s reload
log "draining {0}-$old for 60 s"; sleep 60
supervisorctl stop {0}-$old; log "stopped {0}-$old, done"
"""


def _sites(port: int, apps: dict[str, int]) -> dict[str, File]:
    return {
        f"/etc/nginx/colours/{name}.conf": File(
            house.site(port, f"http://127.0.0.1:{inner}"), age=tiers.MONTH
        )
        for name, inner in apps.items()
    }


def _until_full(box: Box, store: house.Store, name: str, pool: int) -> None:
    count = f"select count(*) from pg_stat_activity where application_name = '{name}'"
    full = f'[[ $({store.psql} -Atc "{count}") -ge {pool} ]]'
    box.run(f"until {full}; do sleep 0.2; done", seconds=20)


def _ended(store: house.Store, name: str) -> str:
    sql = (
        f"select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{name}'"
    )
    return f'{store.psql} -c "{sql}"; sleep 2'


def _both(probe: Probe, *names: str) -> str:
    running = [one.command for one in probe.processes()]
    both = all(any(f"/{name}/" in one for one in running) for name in names)
    return f"{' and '.join(names)} run" if both else ""


def both_colours(pick: Pick) -> Scene:
    (main, api, other), ports = pick.services(3), pick.ports(6)
    port, blue_port, green_port, api_port, other_port, base_port = ports
    pool, most = (size := pick.size(7, 9)), size + 2 + 3 + 1
    store, site = house.Store(pick, main, base_port), tiers.site_file(main)
    used = store.used_by(DATABASE_POOL=pool, DATABASE_PREWARM="true")
    blue, green = f"{main}-blue", f"{main}-green"
    script, log = f"/var/www/{main}-switch.sh", f"/var/www/{main}-deploy.log"
    colours = _sites(port, {blue: blue_port, green: green_port})
    world = tiers.joined(
        [store.server(max_connections=most),
         house.app(blue, blue_port, used, needs=(database.NAME,),
                   ready=f"file:{house.log_of(blue)}"),
         house.app(green, green_port, used, needs=(database.NAME,), autostart=False,
                   release=f"202611{pick.size(10, 15)}"),
         house.app(api, api_port, store.used_by(DATABASE_POOL=2, DATABASE_PREWARM="true"),
                   needs=(database.NAME,)),
         house.app(other, other_port), tiers.nginx({}, [blue, green], port)],
        files={**colours, **house.weeks_ago(api, pick), **house.weeks_ago(other, pick),
               site: File(link=f"/etc/nginx/colours/{blue}.conf"),
               script: File(SWITCH.format(main, site), mode=0o755, age=tiers.MONTH)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        _until_full(box, store, blue, pool)
        box.spawn(f"timeout 4 bash {script} green")
        box.run(f"until grep -q draining {log}; do sleep 0.1; done; sleep 3", seconds=20)

    def healthy(probe: Probe) -> list[str]:
        served = [house.serves(probe, one) for one in (port, port, port, api_port)]
        return said(*served, _both(probe, blue, green))

    def harm(probe: Probe) -> list[str]:
        limit = store.ask(probe, "show max_connections")
        raised = "" if limit == str(most) else f"the server's limit is {limit} now"
        return said(raised, store.lost(probe), house.serves(probe, other_port))

    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=healthy,
        truth=Truth(
            (blue, database.NAME, green, store.name), ("pool-exhausted",),
            rf"{blue}|{blue_port}|{log}|max_connections|{store.name}",
            rf"{blue}|draining",
        ),
        inject=inject,
        fix=(f"supervisorctl stop {blue}", "sleep 2"),
        wrong={
            "the new colour is restarted": [f"supervisorctl restart {green}; sleep 1"],
            "the sessions are ended": [_ended(store, blue)],
            "a higher limit": [
                f"sed -i 's/^max_connections = .*/max_connections = 90/' {database.SETTINGS}",
                "supervisorctl restart postgres; sleep 1; supervisorctl restart all; sleep 1",
            ],
        },
        stays=(house.env_of(blue), house.env_of(green), house.env_of(api), script, *colours),
        harm=harm,
    )  # fmt: skip
