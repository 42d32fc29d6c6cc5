"""Modes of files were tightened: the secret, the data, a folder above them, or the program."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Truth, World


class Plan(tiers.Pair, frozen=True, kw_only=True):
    pass


def plan(pick: Pick, variant: str) -> Plan:
    return Plan(**tiers.pair(pick, variant))


def world(plan: Plan) -> World:
    names = (plan.front, plan.store)
    return tiers.joined(
        tiers.pair_parts(
            plan,
            front={"secret": tiers.secret_of(plan.front)},
            store={"secret": tiers.secret_of(plan.store), "signed_only": "yes"},
        ),
        files={
            **tiers.kept_files(plan),
            **{tiers.secret_of(n): File(plan.secret, mode=0o600, age=tiers.MONTH) for n in names},
            f"/etc/{plan.beside}/secret.old": File("retired", mode=0, age=tiers.MONTH),
        },
        folders={f"/etc/{plan.store}": 0o700},
        hostname=plan.host,
        setup=tiers.old_lines(
            f"/var/log/{plan.front}/{plan.front}.log",
            {2900: "ERROR GET /ready: connection reset by peer", 2899: "INFO back to normal"},
        ),
    )


def inject(box: Box, plan: Plan) -> None:
    data = f"/var/lib/{plan.store}"
    match plan.variant:
        case "secret":
            box.run(f"chmod 000 {tiers.secret_of(plan.store)}")
        case "data":
            box.run(f"chmod -R a-w {data}")
        case "folder":
            box.run(f"chmod 600 /etc/{plan.store}")
        case _:
            box.run(
                f"chmod 200 /srv/{plan.store}/server.py && supervisorctl restart {plan.store}",
                check=False,
            )
            box.wait(f"down:{plan.store_port}")


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = probe.keeps(plan.front_port)
    return [said] if said else []


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    paths = (tiers.secret_of(plan.store), tiers.secret_of(plan.front), tiers.configured(plan.store))
    return {path: probe.sha256(path) for path in paths}


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    wrong = [*tiers.lost(probe, plan), *tiers.changed(probe, before)]
    private = (tiers.secret_of(plan.store), tiers.secret_of(plan.front), f"/var/lib/{plan.store}")
    for path in private:
        stat = probe.stat(path)
        if stat is None or stat.mode & 0o077:
            wrong.append(f"{path} is open to others")
    if probe.http(plan.store_port, "/items/ready").status == 200:
        wrong.append(f"{plan.store} answers without a signature")
    return wrong


def truth(plan: Plan) -> Truth:
    places = {
        "secret": tiers.secret_of(plan.store),
        "data": f"/var/lib/{plan.store}",
        "folder": f"/etc/{plan.store}",
        "code": f"/srv/{plan.store}/server.py",
    }
    return Truth(
        component=(plan.store,),
        category=("permission-change",),
        locus=places[plan.variant],
        evidence=r"Permission denied|[-d][-r][-w][-x]",
    )


def reference(plan: Plan) -> list[str]:
    return {
        "secret": [f"chmod 600 {tiers.secret_of(plan.store)}"],
        "data": [f"chmod -R u+w /var/lib/{plan.store}"],
        "folder": [f"chmod 700 /etc/{plan.store}"],
        "code": [f"chmod 644 /srv/{plan.store}/server.py", f"supervisorctl start {plan.store}"],
    }[plan.variant]


def wrong(plan: Plan) -> dict[str, list[str]]:
    return {
        "restarting": [f"supervisorctl restart {plan.store} {plan.front} || true"],
        "opening everything": [
            f"chmod -R 777 /etc/{plan.store} /var/lib/{plan.store} /srv/{plan.store}",
            f"supervisorctl restart {plan.store} || true",
        ],
    }
