"""In a house of its own: a slash too many in a site of nginx, and the settings of the trial system
on the real one."""

from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def _site(port: int, main: int, other: str, other_port: int) -> str:
    return f"""server {{
    listen 127.0.0.1:{port};
    root /var/www/html;

    location /api/ {{
        proxy_pass http://127.0.0.1:{main};
        proxy_set_header X-Forwarded-For $remote_addr;
    }}

    location /{other}/ {{
        proxy_pass http://127.0.0.1:{other_port}/;
        proxy_set_header X-Forwarded-For $remote_addr;
    }}
}}
"""


def trailing_slash(pick: Pick) -> Scene:
    (main, other), (port, inner, other_port) = pick.services(2), pick.ports(3)
    kept, more, site = house.rows(pick), house.rows(pick), tiers.site_file(main)
    world = tiers.joined(
        [
            house.app(main, inner, rows=kept),
            house.app(other, other_port, rows=more),
            house.nginx({main: _site(port, inner, other, other_port)}, (main, other), port),
        ],
        files={
            "/var/www/html/index.html": File("<h1>Hello</h1>\n", age=tiers.MONTH),
            **house.history(main, pick), **house.history(other, pick),
        },
        hostname=pick.host(),
    )  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        wants = f"/{other}{house.RECORDS}"
        return said(house.keeps(probe, port), probe.keeps(port, wants))

    bare, slashed = f"http://127.0.0.1:{inner};", f"http://127.0.0.1:{inner}/;"
    reload = "nginx -tq && nginx -s reload"
    return Scene(
        world=world,
        check=house.reads(main, port, kept),
        healthy=healthy,
        truth=Truth(
            ("nginx", main), ("bad-config",), rf"{site}|location /api/|proxy_pass",
            rf"proxy_pass +{slashed[:-1]}|{site}",
        ),
        inject=lines(
            f"sed -i 's#{bare}#{slashed}#' {site}; {reload}; sleep 0.4",
            house.noted(f"{main}: site tidied up, nginx reloaded"),
        ),
        fix=(f"sed -i 's#{slashed}#{bare}#' {site}", reload, "sleep 0.4"),
        wrong={
            "restarting": [f"supervisorctl restart nginx {main}", "sleep 0.4"],
            "all slashes go": [f"sed -i -E 's#(:[0-9]+)/;#\\1;#' {site}", reload, "sleep 0.4"],
            "the service is put in nginx's place": [
                "supervisorctl stop nginx",
                f"sed -i 's/^PORT=.*/PORT={port}/' {house.env_of(main)}",
                f"supervisorctl restart {main}",
            ],
        },
        stays=(house.env_of(main), house.code_of(main), "/etc/nginx/nginx.conf"),
        runs=("nginx: master", house.code_of(main), house.code_of(other)),
        harm=lambda probe: said(
            house.keeps(probe, other_port, inner), house.lost(probe, house.base_of(main), kept)
        ),
    )  # fmt: skip


def trial_settings(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    kept, tried = house.rows(pick), house.rows(pick, 3)
    word = pick.choice(("staging", "test", "demo"))
    real, trial = house.base_of(main), house.base_of(f"{main}-{word}")
    settings = house.env_of(main)
    example = house.env({"PORT": port, "DATABASE": trial, "LOG_FILE": house.log_of(main)})
    world = tiers.joined(
        [house.app(main, port, rows=kept), house.app(other, other_port)],
        files={
            trial: File(data=house.base(tried), mode=0o640, age=tiers.MONTH),
            f"{house.APPS}/{main}/.env.{word}": File(example, mode=0o640, age=tiers.MONTH),
            **house.history(main, pick), **house.history(other, pick),
        },
        hostname=pick.host(),
    )  # fmt: skip
    fresh = "select count(*) from records where changed > 1770000000 and key <> 'health'"

    def healthy(probe: Probe) -> list[str]:
        was = house.ask(probe, real, fresh)
        wrong = house.keeps(probe, port)
        reached = house.ask(probe, real, fresh) != was
        key, body = next(iter(kept.items()))
        found = probe.http(port, f"{house.RECORDS}/{key}").text.strip() == body
        return said(
            "" if found else f"{key} is not to be had",
            "" if reached else f"what it is given does not reach {real}",
            wrong if found and reached else "",
        )  # fmt: skip

    back = f"sed -i 's#^DATABASE=.*#DATABASE={real}#' {settings}"
    return Scene(
        world=world,
        check=house.reads(main, port, kept),
        healthy=healthy,
        truth=Truth(
            (main,), ("bad-config",), rf"{settings}|{trial}|DATABASE",
            rf"{trial}|DATABASE",
        ),
        inject=lines(
            f"cp {house.APPS}/{main}/.env.{word} {settings}",
            house.noted(f"{main}: settings brought up to date, restarted"),
            f"supervisorctl restart {main}; sleep 0.5",
        ),
        fix=(back, f"supervisorctl restart {main}", "sleep 0.5"),
        wrong={
            "restarting": [f"supervisorctl restart {main}", "sleep 0.5"],
            "the records are copied over": [f"cp {real} {trial}",
                                            f"supervisorctl restart {main}", "sleep 0.5"],
            "the real one is replaced": [f"cp {trial} {real}", back,
                                         f"supervisorctl restart {main}", "sleep 0.5"],
        },
        stays=(house.code_of(main), f"{house.APPS}/{main}/.env.{word}"),
        runs=(house.code_of(main), house.code_of(other)),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, real, kept),
            house.lost(probe, trial, tried),
        ),
    )  # fmt: skip
