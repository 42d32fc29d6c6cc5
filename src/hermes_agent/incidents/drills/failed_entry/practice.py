"""Services that cannot be started in other houses: a script that leads nowhere, a release that is
not where its link says, an entry without a variable, data that was moved, and a
script with the line ends of another system."""

from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Look, Scene, lines, said
from hermes_agent.incidents.drills.stalls import MONTH, Stall, alive, stall
from hermes_agent.incidents.drills.world import File, Program, Truth

_START = """\
#!/bin/bash
. {env}
cd {root} || exit 1
echo "starting with $RUNTIME"
exec "$RUNTIME/bin/python3" {words}
"""


def wrapper_runtime(pick: Pick) -> Scene:
    """A script starts it with a runtime that is not there; the one before still is."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    was, now = f"3.{pick.size(8, 11)}", f"3.{pick.size(13, 19)}"
    service, beside = (
        stall(pick, one, where, form=pick.choice(("json", "toml", "yaml", "flags")), style="logfmt")
        for one, where in ((name, port), (other, other_port))
    )
    kept = f"/opt/runtimes/py-{was}"
    made = [_wrapped(one, kept) for one in (service, beside)]
    env = _env(service)
    files = {f"{kept}/bin/python3": File(link="/opt/bin/python3")}
    return Scene(
        world=parts.joined(*made, parts.Part((), files)),
        check=alive(service),
        healthy=_supervised(service),
        truth=Truth(
            component=(name,), category=("bad-config", "service-crash", "bad-deploy"),
            locus=rf"{env}|py-{now}|py-{was}", evidence=rf"py-{now}.*No such file",
        ),
        inject=lines(
            f"supervisorctl stop {name}",
            f"sed -i 's#py-{was}#py-{now}#' {env}",
            f"supervisorctl start {name}",
        ),
        fix=(f"sed -i 's#py-{now}#py-{was}#' {env}", f"supervisorctl start {name}"),
        wrong={"it is only started again": [f"supervisorctl start {name}"]},
        stays=(service.code, beside.code, _env(beside)),
        runs=(beside.code,),
    )  # fmt: skip


def _env(service: Stall) -> str:
    return f"/etc/default/{service.name}" if service.port % 2 else f"{service.root}/etc/env"


def _wrapped(service: Stall, runtime: str) -> parts.Part:
    script, env = f"{service.root}/start.sh", _env(service)
    words = service.program.command.removeprefix("python3 ")
    text = _START.format(env=env, root=service.root, words=words)
    program = Program(
        name=service.name, command=script, directory="/", ready=f"tcp:{service.port}",
        about="keeps items", start_seconds=1,
    )  # fmt: skip
    return parts.Part(
        (program,),
        {
            **service.part.files,
            script: File(text=text, mode=0o755, age=MONTH),
            env: File(text=f"# what start.sh needs\nRUNTIME={runtime}\nLANG=C.UTF-8\n", age=MONTH),
        },
        service.part.folders,
    )


def _supervised(service: Stall) -> Look:
    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, service.name, service.root.rpartition("/")[0])
        return said(
            probe.keeps(service.port), "" if up else f"{service.name} is not under supervision"
        )

    return healthy


def dangling_release(pick: Pick) -> Scene:
    """The folder that it is started in is a link to what is not there."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    root = pick.choice((f"/opt/{name}", f"/srv/{name}", f"/srv/www/{name}"))
    versions = sorted(f"2026.{pick.size(1, 5)}.{number}" for number in (pick.size(0, 8), 9))
    link = f"{root}/{pick.choice(('current', 'live', 'active'))}"
    service = stall(pick, name, port, form="flags", root=f"{root}/releases/{versions[1]}",
                    data=f"/var/lib/{name}")  # fmt: skip
    beside = stall(pick, other, other_port)
    inner = service.code.removeprefix(service.root + "/")
    program = Program(
        name=name, command=service.program.command.replace(service.code, inner), directory=link,
        ready=f"tcp:{port}", about="keeps items", start_seconds=1,
    )  # fmt: skip
    files = {
        **service.part.files,
        service.code.replace(versions[1], versions[0]): service.part.files[service.code],
        link: File(link=f"{root}/releases/{versions[1]}"),
    }
    gone = f"{root}/releases/2026.{pick.size(6, 9)}.0"

    def healthy(probe: Probe) -> list[str]:
        return said(probe.keeps(port))

    return Scene(
        world=parts.joined(parts.Part((program,), files, service.part.folders), beside.part),
        check=alive(service),
        healthy=healthy,
        truth=Truth(
            component=(name,), category=("bad-deploy", "bad-config", "service-crash"),
            locus=rf"{link}|{gone}", evidence="chdir|No such file|spawn error",
        ),
        inject=lines(
            f"supervisorctl stop {name}", f"ln -sfn {gone} {link}", f"supervisorctl start {name}"
        ),
        fix=(f"ln -sfn {root}/releases/{versions[1]} {link}", f"supervisorctl start {name}"),
        wrong={"it is only started again": [f"supervisorctl start {name}"]},
        stays=(service.code,),
        runs=(beside.code,),
    )  # fmt: skip


def lost_variable(pick: Pick) -> Scene:
    """The entry lost a variable that the program insists on; git has the entry as it was."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    wanted = f"{name.upper()}_{pick.choice(('REGION', 'TENANT', 'ZONE'))}"
    service = stall(
        pick, name, port, form=pick.choice(("json", "yaml", "flags", "properties")),
        settings={"needed": wanted}, environment={wanted: pick.token(), "TZ": "UTC"},
    )  # fmt: skip
    beside = stall(pick, other, other_port)
    commit = "git -c user.name=ops -c user.email=ops@localhost commit -q -m 'as it is'"
    return Scene(
        world=parts.joined(
            service.part, beside.part,
            setup=(f"cd /etc && git init -q . && git add supervisor && {commit}",),
        ),
        check=alive(service),
        healthy=_supervised(service),
        truth=Truth(
            component=(name,), category=("bad-config", "service-crash"), locus=service.entry,
            evidence=rf"KeyError|{wanted}",
        ),
        inject=lines(
            f"sed -i -E 's/{wanted}=\"[^\"]*\",?//' {service.entry}",
            "supervisorctl reread; supervisorctl update",
        ),
        fix=("git -C /etc checkout -- supervisor", "supervisorctl reread", "supervisorctl update"),
        wrong={"it is only started again": [f"supervisorctl start {name}"]},
        stays=(service.code, beside.config),
        runs=(beside.code,),
    )  # fmt: skip


def moved_data(pick: Pick) -> Scene:
    """Somebody moved the folder of its data aside; an empty one would lose what people kept."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    service = stall(pick, name, port, data=f"/data/{name}/{pick.choice(('blobs', 'objects'))}")
    beside = stall(pick, other, other_port)
    away = (
        f"{service.data}{pick.choice(('-', '_', '.'))}{pick.choice(('migrated', '2026-11', 'v1'))}"
    )
    return Scene(
        world=parts.joined(service.part, beside.part),
        check=parts.saves(name, port),
        healthy=_supervised(service),
        truth=Truth(
            component=(name,), category=("service-crash", "bad-config"), locus=service.data,
            evidence="No such file or directory",
        ),
        inject=lines(f"mv {service.data} {away}"),
        fix=(f"mv {away} {service.data}",),
        wrong={
            "it is restarted": [f"supervisorctl restart {name}"],
            "an empty one is made": [f"mkdir {service.data}"],
        },
        stays=(service.config, beside.config),
        runs=(beside.code,),
    )  # fmt: skip


def line_ends(pick: Pick) -> Scene:
    """The script that starts it was saved with carriage returns: its interpreter is not found."""
    name, other = pick.services(2)
    port, other_port = pick.ports(2)
    service = stall(pick, name, port, form="env")
    beside = stall(pick, other, other_port, form="env")
    script = service.program.command
    return Scene(
        world=parts.joined(service.part, beside.part),
        check=alive(service),
        healthy=_supervised(service),
        truth=Truth(
            component=(name,), category=("bad-config", "service-crash", "bad-deploy"), locus=script,
            evidence=r"No such file or directory|bad interpreter|not found|CRLF",
        ),
        inject=lines(
            f"supervisorctl stop {name}", rf"sed -i 's/$/\r/' {script}",
            f"supervisorctl start {name}",
        ),
        fix=(rf"sed -i 's/\r$//' {script}", f"supervisorctl start {name}"),
        wrong={"it is only started again": [f"supervisorctl start {name}"]},
        stays=(service.code, service.config, beside.config),
        runs=(beside.code,),
    )  # fmt: skip
