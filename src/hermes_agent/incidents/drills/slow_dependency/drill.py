"""The store answers late: it was throttled, is crowded by a stray caller or by a batch that got too
many hands, or the link to it became thin."""

from collections.abc import Mapping

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Node, Program, Truth, World

CROWD = 90


class Plan(tiers.Pair, frozen=True, kw_only=True):
    pause_ms: int
    batch: str
    stray: str
    address: str

    @property
    def linked(self) -> bool:
        return self.variant == "thin-link"

    @property
    def stray_folder(self) -> str:
        return f"/tmp/{self.stray}"  # noqa: S108


def plan(pick: Pick, variant: str) -> Plan:
    batch, stray = pick.words(2)
    return Plan(
        pause_ms=pick.size(1600, 2600),
        batch=f"{batch}-job",
        stray=f"{stray}-{pick.token(3)}",
        address=f"10.77.0.{pick.size(2, 200)}" if variant == "thin-link" else "127.0.0.1",
        **tiers.pair(pick, variant),
    )


def _calls(plan: Plan, **settings: object) -> dict[str, object]:
    url = f"http://{plan.address}:{plan.store_port}/items/{next(iter(tiers.kept(plan)))}"
    return {"url": url, "pause": 1.0, "threads": 1, **settings}


def world(plan: Plan) -> World:
    node = f"{plan.store}-node" if plan.linked else ""
    batch = tiers.Part(
        Program(
            name=plan.batch,
            command=f"python3 /srv/{plan.batch}/server.py {tiers.configured(plan.batch)}",
            needs=(plan.store,),
            about=f"configuration {tiers.configured(plan.batch)}; must go on",
        ),
        {
            f"/srv/{plan.batch}/server.py": File(tiers.program_text("caller.py"), age=tiers.MONTH),
            tiers.configured(plan.batch): File(
                tiers.configuration(plan.batch, _calls(plan)), age=tiers.MONTH
            ),
        },
    )
    parts = tiers.pair_parts(
        plan,
        upstream=f"http://{plan.address}:{plan.store_port}",
        store={"workers": 2, "pause_ms": 0 if plan.linked else 40},
        bind=plan.address,
        node=node,
    )
    return tiers.joined(
        [*parts, batch],
        files=tiers.kept_files(plan),
        hostname=plan.host,
        nodes=(Node(node, plan.address),) if plan.linked else (),
        setup=tiers.old_lines(
            f"/var/log/{plan.front}/{plan.front}.log",
            {
                3000: "ERROR GET /ready: cannot read: No space left on device",
                2990: "INFO well again",
            },
        ),
    )


def inject(box: Box, plan: Plan) -> None:
    match plan.variant:
        case "throttled":
            _change(box, plan.store, {"pause_ms = 40": f"pause_ms = {plan.pause_ms}"})
            box.wait(f"tcp:{plan.store_port}")
        case "greedy-batch":
            more = {"threads = 1": f"threads = {CROWD}", "pause = 1.0": "pause = 0"}
            _change(box, plan.batch, more)
        case "crowded":
            text = tiers.configuration(plan.stray, _calls(plan, pause=0, threads=CROWD))
            box.write(f"{plan.stray_folder}/calls.conf", text)
            box.write(f"{plan.stray_folder}/{plan.stray}.py", tiers.program_text("caller.py"))
            box.spawn(
                f"cd {plan.stray_folder} && exec /opt/bin/as-app python3 {plan.stray}.py calls.conf"
            )
        case _:
            box.run("tc qdisc add dev veth0 root tbf rate 2kbit burst 1600 latency 30s")
    tiers.until_broken(box, check(plan))


def _change(box: Box, name: str, edits: Mapping[str, str]) -> None:
    path = tiers.configured(name)
    box.run(f"cp -p {path} {path}.bak")
    text = box.read(path)
    for old, new in edits.items():
        text = text.replace(old, new)
    box.write(path, text)
    box.run(f"supervisorctl restart {name}")


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    wrong = []
    if said := probe.keeps(plan.front_port):
        wrong.append(said)
    if any(plan.stray in process.command for process in probe.processes()):
        wrong.append(f"{plan.stray} still crowds {plan.store}")
    return wrong


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return {tiers.configured(plan.front): probe.sha256(tiers.configured(plan.front))}


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    wrong = [*tiers.lost(probe, plan), *tiers.changed(probe, before)]
    wrong += tiers.gone(probe, plan.batch)
    if "workers = 2" not in (probe.read(tiers.configured(plan.store)) or b"").decode():
        wrong.append(f"{plan.store} was given more workers")
    return wrong


def truth(plan: Plan) -> Truth:
    conf = tiers.configured(plan.store)
    by_variant = {
        "throttled": ((plan.store,), f"{conf}|pause_ms", r"pause_ms = \d{4}|timed out"),
        "crowded": ((plan.store, plan.stray), plan.stray, f"{plan.stray}|timed out"),
        "greedy-batch": (
            (plan.batch, plan.store),
            f"{plan.batch}|threads",
            rf"threads = {CROWD}|timed out|{plan.batch}",
        ),
        "thin-link": (
            (plan.host, plan.store, f"{plan.store}-node", "network"),
            f"veth0|{plan.address}",
            r"tbf|rate 2|timed out",
        ),
    }
    component, locus, evidence = by_variant[plan.variant]
    set_wrong = plan.variant in ("throttled", "greedy-batch")
    categories = ("slow-dependency", *(["bad-config"] if set_wrong else []))
    return Truth(component, categories, locus, evidence)


def reference(plan: Plan) -> list[str]:
    restore = "cp -p {0}.bak {0}"
    return {
        "throttled": [
            restore.format(tiers.configured(plan.store)), f"supervisorctl restart {plan.store}",
        ],
        "greedy-batch": [
            (f"sed -i 's/^threads = .*/threads = 1/; s/^pause = .*/pause = 1.0/' "
            f"{tiers.configured(plan.batch)}"),
            f"supervisorctl restart {plan.batch}",
        ],
        "crowded": [f"pkill -f '{plan.stray[:-1]}[{plan.stray[-1]}].py'"],
    }.get(plan.variant, ["tc qdisc del dev veth0 root"])  # fmt: skip


def wrong(plan: Plan) -> dict[str, list[str]]:
    conf = tiers.configured(plan.front)
    return {
        "restarting": [f"supervisorctl restart {plan.front}"],
        "waiting longer": [
            f"sed -i 's/^timeout = .*/timeout = 30/' {conf}", f"supervisorctl restart {plan.front}",
        ],
        "stopping the batch": [f"supervisorctl stop {plan.batch}"],
    }  # fmt: skip
