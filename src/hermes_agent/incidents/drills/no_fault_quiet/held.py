"""Workers that are replaced after so many requests, as they were told."""

from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import Truth


def turnover(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    most, rows, host = pick.choice((400, 500, 800)), house.Rows(pick), pick.host()
    lines: dict[int, str] = {}
    worker = pick.size(60, 200)
    for ago in range(5400, 300, -pick.size(420, 700)):
        left, worker = worker, worker + pick.size(1, 40)
        head = f"[{{}} +0000] [{left}] [INFO]"
        lines[ago] = f"{head} worker exiting after {most} requests (pid: {left})"
        lines[ago - 1] = f"[{{}} +0000] [31] [INFO] booting worker with pid: {worker}"
    log, env = f"/var/log/{main}/production.log", house.env_of(main)
    world = tiers.joined(
        [house.app(main, port, rows, {**house.var_of(main), "MAX_REQUESTS": most}),
         house.app(other, other_port, house.Rows(pick), house.var_of(other))],
        files={
            **house.weeks_ago(main, pick, path=log),
            **house.weeks_ago(other, pick, path=f"/var/log/{other}/production.log"),
        },
        hostname=host,
        setup=house.lately(log, lines),
    )  # fmt: skip
    asked = (
        f"workers of {main} exit every few minutes, is it crashing?",
        f"the log of {main} is full of 'worker exiting', please have a look",
        f"{main} seems to restart all the time today",
    )
    return Scene(
        world=world,
        check=house.is_up(main, port),
        healthy=lambda probe: said(house.saves(probe, port, other_port), rows.lost(probe, port)),
        truth=Truth((main, other, host, ""), ("no-fault",)),
        wrong={
            "restarted to be sure": [f"supervisorctl restart {main}; sleep 0.5"],
            "workers stay for ever": [f"sed -i 's/^MAX_REQUESTS=.*/MAX_REQUESTS=0/' {env}"],
            "more workers": [f"sed -i 's/^WORKERS=.*/WORKERS=6/' {env}"],
        },
        stays=(env, house.env_of(other)),
        signal=pick.choice(asked),
    )
