"""Errors that strangers make: somebody tries doors that are not there."""

from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import webshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

DOORS = (
    "/wp-login.php", "/.env", "/phpmyadmin/index.php", "/.git/config", "/cgi-bin/luci",
    "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php", "/owa/auth/logon.aspx",
)  # fmt: skip


def _strangers(pick: Pick, count: int) -> str:
    lines = []
    for number in range(count):
        net = pick.choice(("185.220", "45.155", "193.32"))
        who = f"{net}.{pick.size(1, 250)}.{pick.size(1, 250)}"
        when = f"{pick.size(1, 9):02}/Nov/2026:0{number * 9 // count}:{pick.size(10, 59)}:07 +0000"
        lines.append(f'{who} - - [{when}] "GET {pick.choice(DOORS)} HTTP/1.1" 404 10 "-" "zgrab"\n')
    return "".join(lines)


def tried_doors(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    count = pick.size(60, 140)
    kept, host = house.records(main, pick), pick.host()
    world = tiers.joined(
        [house.app(main, inner), house.app(other, other_port),
         tiers.nginx({main: house.site(port, f"http://127.0.0.1:{inner}")}, [main], port)],
        files={
            **kept, **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
            "/var/log/nginx/access.log": File(_strangers(pick, count)),
        },
        hostname=host,
    )  # fmt: skip
    env, site = house.env_of(main), tiers.site_file(main)
    asked = (
        f"the weekly digest counts {count} errors for {main}, please look into it",
        f"{count} requests to {main} ended with 404 last week; is a page missing?",
        f"many errors in the access log of {main}, is it broken?",
    )
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=lambda probe: said(house.serves(probe, port, other_port)),
        truth=Truth((main, other, "nginx", host, ""), ("no-fault",)),
        wrong={
            "restarted to be sure": [f"supervisorctl restart {main}"],
            "the doors are shut in nginx": [
                f"sed -i 's/^    location/    location ~ php {{ deny all; }}\\n&/' {site}",
                "nginx -s reload",
            ],
            "its settings are changed": [f"echo WEB_CONCURRENCY=2 >> {env}"],
        },
        stays=(*kept, env, house.env_of(other)),
        signal=pick.choice(asked),
    )  # fmt: skip
