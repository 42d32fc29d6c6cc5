"""Of one account's server: the settings of the test machine, with its shifted clock, were copied to
the one that gives out tickets; and a file in the home of the account that shifts it."""

import time
from email.utils import parsedate_to_datetime

from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

TOLERANCE = 5.0


def _off(probe: Probe, name: str, port: int) -> str:
    date = probe.http(port, "/up").headers.get("Date", "")
    if not date:
        return f"the clock of {name} is not told"
    off = parsedate_to_datetime(date).timestamp() - time.time()
    return f"the clock of {name} is off by {off:+.0f} s" if abs(off) > TOLERANCE else ""


def copied_env(pick: Pick) -> Scene:
    (web, auth, other), (port, auth_port, other_port) = pick.services(3), pick.ports(3)
    shift, rows = f"{pick.choice('+-')}{pick.size(2, 40)}{pick.choice('hd')}", house.Rows(pick)
    secret, env, start = pick.token(32), house.env_of(auth), f"{house.HOME}/{auth}/bin/start"
    text = f"#!/bin/sh\nset -a\n. {env}\nset +a\nexec python3 {house.HOME}/{auth}/app.py {env}\n"
    world = tiers.joined(
        [house.app(auth, auth_port, None, {"AUTH_SECRET": secret, "TICKET_SECONDS": 300},
                   command=start, about=f"gives out tickets; started by {start}, settings {env}"),
         house.app(web, port, rows, {"AUTH_URL": f"http://127.0.0.1:{auth_port}",
                                     "AUTH_SECRET": secret}, needs=(auth,)),
         house.app(other, other_port, environment={"TZ": pick.choice(("Asia/Tokyo", "UTC"))}),
        ],
        files={
            start: File(text, mode=0o755, age=tiers.MONTH),
            **house.weeks_ago(web, pick), **house.weeks_ago(other, pick),
        },
        hostname=pick.host(),
    )  # fmt: skip
    added = f"APP_STAGE=staging\\nLD_PRELOAD={find('faketime')}\\nFAKETIME={shift}\\n"
    return Scene(
        world=world,
        check=house.is_up(web, port),
        healthy=lambda probe: said(
            house.saves(probe, port), _off(probe, auth, auth_port), _off(probe, web, port)
        ),
        truth=Truth(
            (auth,), ("clock-jump", "bad-config"), rf"(?i){env}|faketime",
            r"(?i)faketime|\bdate: ",
        ),
        inject=lines(
            f"cp -p {env} {env}.before-merge; printf '{added}' >> {env}",
            f"supervisorctl restart {auth}; sleep 0.5",
        ),
        fix=(
            f"sed -i '/^FAKETIME=/d; /^LD_PRELOAD=/d' {env}",
            f"supervisorctl restart {auth}",
            "sleep 0.5",
        ),
        wrong={
            "both are restarted": [f"supervisorctl restart {auth} {web}; sleep 0.5"],
            "more leeway": [
                f"echo AUTH_LEEWAY=99999999 >> {house.env_of(web)}", f"supervisorctl restart {web}",
                "sleep 0.5",
            ],
            "nobody asks for tickets": [
                f"sed -i /AUTH_URL/d {house.env_of(web)}", f"supervisorctl restart {web}; sleep 0.5"
            ],
        },
        stays=(house.env_of(web), house.env_of(other), start),
        harm=lambda probe: said(house.saves(probe, other_port)),
    )  # fmt: skip


def rc_file(pick: Pick) -> Scene:
    (web, auth, other), (port, auth_port, other_port) = pick.services(3), pick.ports(3)
    shift, rows = f"{pick.choice('+-')}{pick.size(1, 30)}{pick.choice('hd')}", house.Rows(pick)
    secret, path = pick.token(32), f"{house.HOME}/.faketimerc"
    preloaded = {"HOME": house.HOME, "LD_PRELOAD": find("faketime") or ""}
    world = tiers.joined(
        [house.app(auth, auth_port, None, {"AUTH_SECRET": secret, "TICKET_SECONDS": 600},
                   environment=preloaded, about=f"tickets; settings {house.env_of(auth)}"),
         house.app(web, port, rows, {"AUTH_URL": f"http://127.0.0.1:{auth_port}",
                                     "AUTH_SECRET": secret}, needs=(auth,),
                   environment={"HOME": house.HOME}),
         house.app(other, other_port, environment={"HOME": house.HOME, "TZ": "Asia/Kolkata"})],
        files={
            f"{house.HOME}/.profile": File("umask 022\nexport EDITOR=vi\n", age=9e6),
            f"{house.HOME}/.bash_aliases": File("alias ll='ls -l'\n", age=9e6),
            **house.weeks_ago(web, pick), **house.weeks_ago(auth, pick),
        },
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=house.is_up(web, port),
        healthy=lambda probe: said(
            house.saves(probe, port), _off(probe, auth, auth_port), _off(probe, web, port)
        ),
        truth=Truth(
            (auth,), ("clock-jump", "bad-config"), rf"(?i)faketime|conf\.d/{auth}\.conf",
            r"(?i)faketime|\bdate: ",
        ),
        inject=lines(
            f"echo '{shift}' > {path}; touch -d '40 minutes ago' {path}",
            f"supervisorctl restart {auth}; sleep 0.5",
        ),
        fix=(f"mv {path} /root/faketimerc.{auth}", f"supervisorctl restart {auth}", "sleep 0.5"),
        wrong={
            "both are restarted": [f"supervisorctl restart {auth} {web}; sleep 0.5"],
            "more leeway": [
                f"echo AUTH_LEEWAY=99999999 >> {house.env_of(web)}", f"supervisorctl restart {web}",
                "sleep 0.5",
            ],
            "longer tickets": [
                f"sed -i s/^TICKET_SECONDS=.*/TICKET_SECONDS=9999999/ {house.env_of(auth)}",
                f"supervisorctl restart {auth}; sleep 0.5",
            ],
        },
        stays=(house.env_of(web), house.env_of(auth), house.env_of(other)),
        harm=lambda probe: said(house.saves(probe, other_port)),
    )  # fmt: skip
