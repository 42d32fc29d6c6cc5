"""Settings that do not do any more: the marks of a merge that nobody finished."""

from hermes_agent.incidents.drills import cabinets as house
from hermes_agent.incidents.drills import parts, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

GIT = "git -c user.name=deploy -c user.email=deploy@localhost"


def merge_marks(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    rows, few = house.Rows(pick), house.Rows(pick, 2)
    home, settings = f"{house.HOME}/{main}", house.env_of(main)
    trial = f"{home}/storage/{pick.choice(('development', 'staging', 'test'))}.sqlite3"
    branch = pick.choice(("tuning", "new-laptop", "speed-up"))
    workers = pick.choice((3, 4, 6))
    world = tiers.joined(
        [house.app(main, port, rows, start_seconds=1), house.app(other, other_port)],
        files={
            trial: few.file(),
            f"{home}/.gitignore": File("storage/\nlog/\n", age=tiers.MONTH),
            **house.weeks_ago(main, pick), **house.weeks_ago(other, pick),
        },
        hostname=pick.host(),
        setup=(f"cd {home} && {GIT} init -q -b main && {GIT} add -A && {GIT} commit -qm 'as is'",),
    )  # fmt: skip

    def inject(box: Box) -> None:
        steps = (
            f"checkout -q -b {branch}",
            f"!sed -i 's#^DATABASE=.*#DATABASE={trial}#' {settings}",
            f"commit -qam 'settings of {branch}'", "checkout -q main",
            f"!sed -i '/^DATABASE=/a JOURNAL_MODE=delete' {settings}",
            f"!sed -i 's/^WORKERS=.*/WORKERS={workers}/' {settings}",
            "commit -qam 'journal as agreed, more workers'", f"merge -q {branch}",
        )  # fmt: skip
        for step in steps:
            line = step[1:] if step.startswith("!") else f"{GIT} {step}"
            box.run(f"cd {home} && {line}", check=False)
        box.run(f"supervisorctl restart {main}", check=False)
        box.wait(f"down:{port}")

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, main, house.HOME)
        alone = "" if up else f"{main} is not under supervision"
        return said(house.saves(probe, port), rows.lost(probe, port), alone)

    again = f"supervisorctl restart {main}; sleep 1"
    return Scene(
        world=world,
        check=house.is_up(main, port),
        healthy=healthy,
        truth=Truth(
            (main,), ("bad-config", "bad-deploy"), rf"{settings}|(^|[\s/])\.env\b",
            r"<<<<<<<|=======|>>>>>>>|expected NAME=value|both modified|CONFLICT|Unmerged",
        ),
        inject=inject,
        fix=(f"sed -i '/^<<<<<<< /d; /^=======$/,/^>>>>>>> /d' {settings}", again),
        wrong={
            "restarting": [again],
            "the other side": [f"cd {home} && git checkout -q --theirs .env", again],
            "only the marks go": [f"sed -i -E '/^(<<<<<<<|=======|>>>>>>>)/d' {settings}", again],
        },
        stays=(f"{home}/app.py", house.env_of(other)),
        runs=(f"{house.HOME}/{other}/app.py",),
        harm=lambda probe: said(house.saves(probe, other_port)),
    )  # fmt: skip
