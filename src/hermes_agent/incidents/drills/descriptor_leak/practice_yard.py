"""In another house: a service that opens its log anew at each rotation and keeps the old ones, and
one whose reports leave their drafts open."""

from hermes_agent.incidents.drills import parts, tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Look, Scene, said
from hermes_agent.incidents.drills.world import File, Truth

ROTATING = '''
import signal


class Rotating(Depot):
    """Its log is opened anew at SIGHUP."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.audits = [self.audit()]
        signal.signal(signal.SIGHUP, self.rotated)

    def rotated(self, *_: object) -> None:
        try:
            self.audits.append(self.audit())
        except OSError as error:
            self.log("error", f"rotation of {self.settings['audit']}: {error.strerror}")

    def audit(self) -> Any:
        return open(self.settings["audit"], "ab", buffering=0)

    def put(self, key: str, body: bytes) -> None:
        super().put(key, body)
        self.audits[-1].write(f"stored {key}\\n".encode())


if __name__ == "__main__":
    run(Rotating)
'''
REPORTING = '''
import tempfile


class Reporting(Depot):
    """GET /v1/notes/report-KEY makes a report of what is stored."""

    def get(self, key: str) -> bytes:
        if not key.startswith("report-"):
            return super().get(key)
        try:
            draft, _ = tempfile.mkstemp(prefix="report-", dir=self.settings["drafts"])
        except OSError as error:
            raise Failure(f"report: {error}", 500) from None
        names = sorted(os.listdir(self.settings["store"]))
        if key.removeprefix("report-") not in names:
            raise Failure(f"no note {key.removeprefix('report-')}", 404)
        os.write(draft, "\\n".join(names).encode())
        os.close(draft)
        return f"{len(names)} notes\\n".encode()


if __name__ == "__main__":
    run(Reporting)
'''


def _harm(name: str, most: int, *ports: int) -> Look:
    def harm(probe: Probe) -> list[str]:
        raised = [
            f"{name} may now have more files open"
            for process in probe.processes()
            if f"/opt/{name}/" in process.command and parts.open_files(process.pid) > most
        ]
        return said(yard.stores(probe, *ports), *raised)

    return harm


def _few(probe: Probe, name: str, most: int) -> str:
    held = max(
        (p.descriptors for p in probe.processes() if f"/opt/{name}/" in p.command), default=0
    )
    return f"{name} has {held} files open" if held > most * 0.6 else ""


def rotations(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    most = pick.size(40, 70)
    audit = f"/var/log/opt/{main}-audit.log"
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [
            yard.depot(
                main, port, {"audit": audit}, code=yard.program(ROTATING), limits={"nofile": most},
                about=f"depot for notes; settings {yard.settings_of(main)}, log "
                f"{yard.log_of(main)}; SIGHUP after a rotation of {audit}",
            ),
            yard.depot(other, other_port, limits={"nofile": most}),
        ],
        files={**kept, **yard.days_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(
            f"pid=$(pgrep -f 'python3 /opt/{main}/bin/depot[d].py'); "
            f"for n in $(seq {most}); do mv {audit} {audit}.1 2>/dev/null; kill -HUP $pid; "
            "sleep 0.02; done",
            check=False,
        )

    return Scene(
        world=world,
        check=yard.passes(main, port),
        healthy=lambda probe: said(
            yard.stores(probe, port, timeout=1.0), _few(probe, main, most)
        ),
        truth=Truth(
            (main,), ("descriptor-leak",), rf"{audit}|open files|nofile|\bfd\b",
            r"Too many open files|audit\.log",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {main}",),
        wrong={
            "the neighbour is restarted": [f"supervisorctl restart {other}"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=9000/' /etc/supervisor/conf.d/{main}.conf",
                "supervisorctl reread; supervisorctl update; sleep 0.5",
            ],
        },
        stays=(*kept, yard.settings_of(main), yard.settings_of(other)),
        harm=_harm(main, most, other_port),
    )  # fmt: skip


def drafts(pick: Pick) -> Scene:
    (main, other, front), (port, other_port, front_port) = pick.services(3), pick.ports(3)
    most = pick.size(40, 70)
    folder = f"/var/opt/{main}/{pick.choice(('drafts', 'scratch', 'work'))}"
    site = yard.proxy(front_port, f"http://127.0.0.1:{port}")
    kept = yard.notes(main, pick)
    world = tiers.joined(
        [
            yard.depot(
                main, port, {"drafts": folder}, code=yard.program(REPORTING),
                limits={"nofile": most},
            ),
            tiers.nginx({front: site}, [main], front_port),
            yard.depot(other, other_port),
        ],
        files={
            **kept, **yard.days_ago(other, pick),
            f"{folder}/README": File("drafts of reports, cleared by hand\n", age=tiers.MONTH),
        },
        folders={folder: 0o755},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        ask = f"curl -s -m 1 -o /dev/null http://127.0.0.1:{port}{yard.NOTES}/report-gone-$n"
        box.run(f"for n in $(seq {most}); do {ask} || break; done", check=False)

    return Scene(
        world=world,
        check=yard.passes(front, front_port),
        healthy=lambda probe: said(
            yard.stores(probe, front_port, timeout=1.0), _few(probe, main, most)
        ),
        truth=Truth(
            (main,), ("descriptor-leak",), rf"{folder}|open files|nofile|\bfd\b",
            rf"Too many open files|{folder}",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {main}",),
        wrong={
            "nginx is restarted": ["supervisorctl restart nginx; sleep 0.3"],
            "drafts are removed": [f"rm -f {folder}/report-*"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=9000/' /etc/supervisor/conf.d/{main}.conf",
                "supervisorctl reread; supervisorctl update; sleep 0.5",
            ],
        },
        stays=(*kept, yard.settings_of(main), tiers.site_file(front)),
        harm=_harm(main, most, other_port),
    )  # fmt: skip
