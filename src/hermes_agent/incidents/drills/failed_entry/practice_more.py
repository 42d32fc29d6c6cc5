"""An entry that somebody put aside, and a module that is looked for in the wrong place."""

import re

from msgspec.structs import replace

from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Look, Scene, lines, said
from hermes_agent.incidents.drills.stalls import MONTH, Stall, alive, stall
from hermes_agent.incidents.drills.world import File, Truth


def _supervised(service: Stall) -> Look:
    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, service.name, service.root.rpartition("/")[0])
        return said(
            probe.keeps(service.port), "" if up else f"{service.name} is not under supervision"
        )

    return healthy


def put_aside(pick: Pick) -> Scene:
    """The supervisor was told to take in its entries anew while one of them had another name."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    service, beside = stall(pick, name, port), stall(pick, other, other_port)
    aside = service.entry + pick.choice((".disabled", ".off", ".hold"))
    return Scene(
        world=parts.joined(service.part, beside.part),
        check=alive(service),
        healthy=_supervised(service),
        truth=Truth(
            component=(name,), category=("service-crash", "bad-config"), locus=service.entry,
            evidence=rf"{re.escape(aside)}|removed|available|No config updates",
        ),
        inject=lines(f"mv {service.entry} {aside}", "supervisorctl reread; supervisorctl update"),
        fix=(f"mv {aside} {service.entry}", "supervisorctl reread", "supervisorctl update"),
        wrong={
            "it is only started again": [f"supervisorctl start {name}"],
            "it is started by hand": [
                f"cd {service.root}; setsid {service.program.command} &>/dev/null & sleep 0.6"
            ],
        },
        stays=(service.code, beside.config),
        runs=(beside.code,),
    )  # fmt: skip


def lost_module(pick: Pick) -> Scene:
    """The entry no longer says where a module of its own is."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    service = stall(pick, name, port, form=pick.choice(("json", "toml", "flags")))
    beside = stall(pick, other, other_port)
    folder = f"{service.root}/{pick.choice(('shared', 'vendor', 'python'))}"
    module = f"{name}_{pick.choice(('tools', 'base', 'core'))}"
    text = service.part.files[service.code].text
    files = {
        **service.part.files,
        service.code: File(
            text.replace("import http.server\n", f"import http.server\nimport {module}\n", 1),
            mode=0o755, age=MONTH,
        ),
        f"{folder}/{module}.py": File("SHARED = True\n", age=MONTH),
    }  # fmt: skip
    told = {"TZ": "UTC", "PYTHONPATH": folder}
    program = replace(service.program, environment={**service.program.environment, **told})
    return Scene(
        world=parts.joined(
            parts.Part((program,), files, service.part.folders), beside.part
        ),
        check=alive(service),
        healthy=_supervised(service),
        truth=Truth(
            component=(name,), category=("bad-config", "service-crash"),
            locus=rf"{service.entry}|{folder}", evidence=rf"No module named|{module}",
        ),
        inject=lines(
            f"sed -i -E 's/,?PYTHONPATH=\"[^\"]*\"//' {service.entry}",
            "supervisorctl reread; supervisorctl update; sleep 2",
        ),
        fix=(
            f"sed -i 's#^environment=.*#&,PYTHONPATH=\"{folder}\"#' {service.entry}",
            "supervisorctl reread", "supervisorctl update",
        ),
        wrong={"it is only started again": [f"supervisorctl start {name}"]},
        stays=(service.code, f"{folder}/{module}.py", beside.config),
        runs=(beside.code,),
    )  # fmt: skip
