"""Nothing is wrong. What looks odd is old, or meant to be so."""

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.services import web
from hermes_agent.incidents.drills.world import File, Program, Truth, World


class Plan(Struct, frozen=True):
    variant: str
    host: str
    names: tuple[str, ...]
    ports: tuple[int, ...]
    job: str
    text: str


TEXTS = (
    "a customer says that {} is slow",
    "{} gave an error earlier, please have a look",
    "is {} all right? it felt odd this morning",
)


def plan(pick: Pick, variant: str) -> Plan:
    names = pick.services(2)
    return Plan(
        variant, pick.host(), tuple(names), tuple(pick.ports(2)), pick.word(),
        pick.choice(TEXTS).format(names[0]),
    )  # fmt: skip


def world(plan: Plan) -> World:
    programs: list[Program] = []
    files: dict[str, File] = {}
    folders: dict[str, int] = {}
    for name, port in zip(plan.names, plan.ports, strict=True):
        program, more, made = web(name, port)
        programs.append(program)
        files |= more
        folders |= made
    first = plan.names[0]
    if plan.variant == "old-errors":
        files[f"/var/log/{first}/{first}.log.1"] = File(
            "2026-02-03 11:20:07,310 ERROR cannot start: [Errno 98] Address already in use\n" * 4,
            age=2e6,
        )
    if plan.variant == "stopped-job":  # run by hand once a month, as its entry says
        program = Program(
            plan.job, f"python3 -c 'print(\"{plan.job}\")'", autostart=False, autorestart=False,
            about="run by hand once a month",
        )  # fmt: skip
        programs.append(program)
    return World(tuple(programs), files, folders, hostname=plan.host)


def inject(box: Box, plan: Plan) -> None:
    """There is nothing to break."""


def signal(plan: Plan) -> str:
    return plan.text


def check(plan: Plan) -> WatchedCheck:
    url = f"http://127.0.0.1:{plan.ports[0]}/healthz"
    run = Check(f"curl -fsS -m 3 {url}", Expect(output="ok"), timeout=5.0)
    return WatchedCheck(f"{plan.names[0]} answers", run, service=plan.names[0], severity="P3")


def healthy(probe: Probe, plan: Plan) -> list[str]:
    return [said for port in plan.ports if (said := probe.keeps(port))]


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    return []


def truth(plan: Plan) -> Truth:
    return Truth((*plan.names, plan.host, ""), ("no-fault",))


def reference(plan: Plan) -> list[str]:
    return []


def wrong(plan: Plan) -> dict[str, list[str]]:
    first = plan.names[0]
    return {
        "restarted to be sure": [f"supervisorctl restart {first}"],
        "its configuration changed": [f"sed -i s/info/debug/ /etc/{first}/{first}.conf"],
    }
