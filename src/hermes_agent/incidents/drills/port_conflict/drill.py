"""A service finds its port taken and gives up."""

from pathlib import Path

from msgspec import Struct

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.world import File, Truth, World


class Plan(Struct, frozen=True):
    variant: str
    service: str
    port: int
    other: str
    other_port: int
    folder: str
    salt: int


def plan(pick: Pick, variant: str) -> Plan:
    service, other = pick.services(2)
    port, other_port = pick.ports(2)
    return Plan(
        variant=variant,
        service=service,
        port=port,
        other=other,
        other_port=other_port,
        folder=f"/home/{pick.word()}/{pick.word()}-{pick.token()}",
        salt=pick.size(1, 10**6),
    )


def world(plan: Plan) -> World:
    files = {
        **parts.items(f"/var/lib/{plan.service}", plan.salt),
        f"{plan.folder}/index.html": File(text="it works\n", age=4e6),
        f"/var/log/{plan.service}/{plan.service}.log": File(text=parts.old_log(plan.salt)),
    }
    return parts.joined(
        parts.keeper(plan.service, plan.port),
        parts.neighbour(plan.other, plan.other_port, plan.salt + 1),
        parts.Part((), files, {f"{plan.folder}/items": 0o755}),
    )


def inject(box: Box, plan: Plan) -> None:
    box.run(f"supervisorctl stop {plan.service}")
    box.wait(f"down:{plan.port}")
    match plan.variant:
        case "left-over":
            box.spawn(
                f"cd {plan.folder} && exec python3 -m http.server {plan.port} --bind 127.0.0.1"
            )
        case "old-instance":
            old = f"{plan.folder}/{plan.service}.conf"
            settings = {"name": plan.service, "port": plan.port, "data": f"{plan.folder}/items"}
            box.write(old, parts.conf(settings))
            box.spawn(f"exec /opt/bin/as-app python3 /srv/{plan.service}/keeper.py {old}")
        case _:
            config = f"/etc/{plan.other}/{plan.other}.conf"
            change = f"s/^port = .*/port = {plan.port}/"
            box.run(f"cp -p {config} {config}.bak; sed -i '{change}' {config}")
            box.run(f"supervisorctl restart {plan.other}")
    box.wait(f"tcp:{plan.port}")
    box.run(f"supervisorctl start {plan.service}", check=False)


def check(plan: Plan) -> WatchedCheck:
    path, file = next(iter(parts.items(f"/var/lib/{plan.service}", plan.salt).items()))
    return parts.finds(plan.service, plan.port, path, file.text)


def healthy(probe: Probe, plan: Plan) -> list[str]:
    """Both services keep what they are given, each in its own folder."""
    said = []
    for name, port in ((plan.service, plan.port), (plan.other, plan.other_port)):
        said.append(probe.keeps(port))
        reply = probe.http(port, "/healthz")
        if reply.body != f"ok {name}\n".encode():
            said.append(f"port {port} is not answered by {name}")
        key = f"where-{plan.salt}-{name}"
        probe.http(port, f"/items/{key}", method="PUT", body=key.encode())
        if probe.read(f"/var/lib/{name}/items/{key}") != key.encode():
            said.append(f"what port {port} is given does not reach {name}")
        if not parts.supervised(probe, name):
            said.append(f"{name} is not under supervision")
    return [sentence for sentence in said if sentence]


def before(probe: Probe, plan: Plan) -> dict[str, str]:
    return parts.digest(probe, *parts.items(f"/var/lib/{plan.service}", plan.salt))


def harm(probe: Probe, plan: Plan, before: dict[str, str]) -> list[str]:
    said = [*parts.changed(probe, before), *parts.stopped(probe, world(plan))]
    config = (probe.read(f"/etc/{plan.service}/{plan.service}.conf") or b"").decode()
    if f"port = {plan.port}\n" not in config:
        said.append(f"{plan.service} was moved to another port")
    return said


def truth(plan: Plan) -> Truth:
    category: tuple[str, ...] = ("port-conflict",)
    component: tuple[str, ...] = (plan.service,)
    if plan.variant == "neighbour":
        category, component = ("port-conflict", "bad-config"), (plan.other, plan.service)
    return Truth(
        component=component,
        category=category,
        locus=rf"/etc/{plan.other}/" if plan.variant == "neighbour" else Path(plan.folder).name,
        evidence=rf"Address already in use|LISTEN.*:{plan.port}\b.*pid=",
    )


def reference(plan: Plan) -> list[str]:
    start = f"supervisorctl start {plan.service}"
    if plan.variant == "neighbour":
        config = f"/etc/{plan.other}/{plan.other}.conf"
        return [f"cp -p {config}.bak {config}", f"supervisorctl restart {plan.other}", start]
    holder = f"ss -Hltnp sport = :{plan.port} | grep -o 'pid=[0-9]*' | cut -d= -f2"
    return [f"kill $({holder})", f"sleep 0.3; {start}"]


def wrong(plan: Plan) -> dict[str, list[str]]:
    config = f"/etc/{plan.service}/{plan.service}.conf"
    return {
        "it is only started again": [f"supervisorctl start {plan.service}"],
        "it is moved to another port": [
            f"sed -i 's/^port = .*/port = {plan.port + 1}/' {config}",
            f"supervisorctl restart {plan.service}",
        ],
    }
