"""An entry that does not come up: a new password that the supervisor cannot read."""

from pathlib import Path

from hermes_agent.incidents.drills import parts
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.stalls import Stall, alive, stall
from hermes_agent.incidents.drills.world import File, Truth

ROTATED = "/var/log/rotation.log"


def _told(probe: Probe, service: Stall, pair: str) -> str:
    """Whether its process was given a variable with that value."""
    for process in probe.processes():
        if service.code in process.command:
            given = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            return "" if pair.encode() in given else f"{service.name} has another password"
    return f"{service.name} does not run"


def percent_sign(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    variable = pick.choice(("SMTP_PASSWORD", "DB_PASSWORD", "PAYMENT_KEY"))
    was, now = pick.token(14), f"{pick.token(5)}%{pick.choice('kTwz!')}{pick.token(7)}"
    service = stall(
        pick, main, port, form=pick.choice(("json", "toml", "yaml", "variables")),
        settings={"needed": variable}, environment={"TZ": "UTC", variable: was},
    )  # fmt: skip
    beside = stall(pick, other, other_port, environment={variable: pick.token(14)})
    entry = service.entry
    old = f"2026-08-03 09:12 {other}: {variable} rotated, entry written\n"

    def healthy(probe: Probe) -> list[str]:
        up = parts.supervised(probe, main, service.root.rpartition("/")[0])
        due = was if was in probe.text(entry) else now
        return said(
            probe.keeps(port), "" if up else f"{main} is not under supervision",
            _told(probe, service, f"{variable}={due}"),
        )  # fmt: skip

    return Scene(
        world=parts.joined(
            service.part, beside.part, parts.Part((), {ROTATED: File(old, age=9e6)})
        ),
        check=alive(service),
        healthy=healthy,
        truth=Truth(
            (main, "supervisor", "supervisord"), ("bad-config", "service-crash"),
            rf"{entry}|{variable}|environment",
            r"CANT_REREAD|Format string|badly formatted|cannot be expanded|"
            rf"{variable}=|no such process",
        ),
        inject=lines(
            f"supervisorctl stop {main}; supervisorctl remove {main}",
            f"sed -i '/^environment=/s/{was}/{now}/' {entry}",
            f"echo \"$(date '+%F %H:%M') {main}: {variable} rotated, entry written\" >> {ROTATED}",
            "supervisorctl reread; supervisorctl update",
        ),
        fix=(
            f"sed -i '/^environment=/s/{now}/{now.replace('%', '%%')}/' {entry}",
            "supervisorctl reread",
            "supervisorctl update",
        ),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it runs with the password of before": [f"supervisorctl add {main}; sleep 1.5"],
            "the sign goes": [
                f"sed -i '/^environment=/s/{now}/{now.replace('%', '')}/' {entry}",
                "supervisorctl reread; supervisorctl update; sleep 1.5",
            ],
            "it is started by hand": [
                (f"cd {service.root}; {variable}='{now}' setsid as-app {service.program.command} "
                "</dev/null &>/dev/null & sleep 0.8")
            ],
        },
        stays=(service.code, beside.config, beside.entry),
        runs=(beside.code,),
        harm=lambda probe: said(probe.keeps(other_port)),
    )  # fmt: skip
