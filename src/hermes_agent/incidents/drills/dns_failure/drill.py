"""The way from a name to an address is broken: at the resolver, in the zone, by a line of the hosts
file, or by the order in which names are looked for."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Program, Truth, World

SERVER = "127.0.0.53"
RESOLVER = "/etc/resolv.conf"
ORDER = "/etc/nsswitch.conf"


class Plan(tiers.Pair, frozen=True, kw_only=True):
    domain: str
    dead: str
    """An address where nobody is."""
    address: str

    @property
    def name(self) -> str:
        return f"{self.store}.{self.domain}"

    @property
    def zone(self) -> str:
        return f"/etc/names/{self.domain}.zone"


def plan(pick: Pick, variant: str) -> Plan:
    return Plan(
        domain=pick.choice(("internal", "lab", "lan", "corp")),
        dead=f"127.0.{pick.size(2, 200)}.{pick.size(2, 250)}",
        address=f"127.1.{pick.size(2, 200)}.{pick.size(2, 250)}",
        **tiers.pair(pick, variant),
    )


def _zone(plan: Plan, name: str) -> str:
    return (
        f"# {plan.domain}: name, address\n{plan.beside}.{plan.domain} 127.0.0.1\n"
        f"{name} {plan.address}\n{plan.front}.{plan.domain} 127.0.0.1\n"
    )


def world(plan: Plan) -> World:
    names = tiers.Part(
        Program(
            name="names",
            command=f"python3 /srv/names/server.py {SERVER} {plan.zone}",
            about=f"the name server of {plan.domain}, on {SERVER}; zone {plan.zone}",
        ),
        {"/srv/names/server.py": File(tiers.program_text("names.py"), age=tiers.MONTH)},
    )
    front, store, beside = tiers.pair_parts(
        plan, upstream=f"http://{plan.name}:{plan.store_port}", bind=plan.address
    )
    return tiers.joined(
        [names, store, front, beside],
        files={
            **tiers.kept_files(plan),
            RESOLVER: File(
                f"search {plan.domain}\nnameserver {SERVER}\noptions timeout:1 attempts:1\n",
                age=tiers.MONTH,
            ),
            plan.zone: File(_zone(plan, plan.name), age=tiers.MONTH),
            f"{plan.zone}~": File(_zone(plan, plan.name), age=tiers.MONTH),
        },
        hostname=plan.host,
        hosts={f"printer.{plan.domain}": "127.0.0.99"},
    )


def inject(box: Box, plan: Plan) -> None:
    match plan.variant:
        case "resolver":
            text = box.read(RESOLVER).replace(SERVER, plan.dead)
            box.write(RESOLVER, "# written by the network setup\n" + text)
        case "record":
            box.write(plan.zone, _zone(plan, f"{plan.store[:-1]}.{plan.domain}"))
        case "hosts":
            box.run(f"echo '{plan.dead} {plan.name} # until the move is over' >> /etc/hosts")
        case _:
            box.write(ORDER, box.read(ORDER).replace("hosts: files dns", "hosts: files"))


def check(plan: Plan) -> WatchedCheck:
    return tiers.answers(plan.front, plan.front_port)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    said = probe.keeps(plan.front_port)
    return [said] if said else []


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return {tiers.configured(name): probe.sha256(tiers.configured(name)) for name in
            (plan.front, plan.store)}  # fmt: skip


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    wrong = [*tiers.lost(probe, plan), *tiers.changed(probe, before), *tiers.gone(probe, "names")]
    zone = (probe.read(plan.zone) or b"").decode()
    if f"{plan.beside}.{plan.domain} 127.0.0.1" not in zone:
        wrong.append(f"{plan.zone} lost a name")
    return wrong


def truth(plan: Plan) -> Truth:
    place = {"resolver": RESOLVER, "record": plan.zone, "hosts": "/etc/hosts"}
    return Truth(
        component=("names", plan.host, "resolver", "dns", plan.front),
        category=("dns-failure", *(["bad-config"] if plan.variant == "record" else [])),
        locus=place.get(plan.variant, ORDER) + f"|{plan.name}",
        evidence=r"name resolution|Name or service not known|not known|no such name|nameserver|"
        rf"hosts: |{plan.dead}",
    )


def reference(plan: Plan) -> list[str]:
    return {
        "resolver": [f"sed -i 's/{plan.dead}/{SERVER}/' {RESOLVER}"],
        "record": [f"cp {plan.zone}~ {plan.zone}"],
        "hosts": [f"sed -i '/^{plan.dead} /d' /etc/hosts"],
    }.get(plan.variant, [f"sed -i 's/^hosts: files$/hosts: files dns/' {ORDER}"])


def wrong(plan: Plan) -> dict[str, list[str]]:
    conf = tiers.configured(plan.front)
    return {
        "restarting": ["supervisorctl restart all"],
        "an address in the configuration": [
            f"sed -i 's/{plan.name}/{plan.address}/' {conf}",
            f"supervisorctl restart {plan.front}",
        ],
    }
