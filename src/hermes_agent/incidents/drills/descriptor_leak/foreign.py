"""A scan that is none, and is opened again and again."""

import time
from collections.abc import Sequence

from hermes_agent.incidents.drills import parish, parts, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import Truth

SCANS = '''

class Scans(Binder):
    """Also files what the scanner leaves in Inbox, as soon as it is a whole document."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.unread: list[Any] = []
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        while True:
            time.sleep(0.1)
            try:
                for path in sorted(Path(self.own["Inbox"]).glob("*.pdf")):
                    self.take(path)
            except OSError as error:
                self.log("error", f"({error.errno}){error.strerror}: {self.own['Inbox']}")
                time.sleep(1)

    def take(self, path: Path) -> None:
        scan = open(path, "rb")
        if scan.read(5) != b"%PDF-":
            self.log("warn", f"{path.name}: no document yet, looking again later")
            self.unread.append(scan)
            return
        self.put(path.stem, b"%PDF-" + scan.read())
        scan.close()
        path.unlink()


if __name__ == "__main__":
    run(Scans)
'''


def _more(probe: Probe, code: str, most: int) -> str:
    """Whether files stay open: there are many, or ever more."""

    def opened() -> int:
        return max((p.descriptors for p in probe.processes() if code in p.command), default=0)

    was = opened()
    time.sleep(2.0)
    now = opened()
    if now > most // 2:
        return f"{now} files are open"
    return f"{now - was} more files are open than just now" if now - was > 3 else ""


def _worse(probe: Probe, main: str, inbox: str, good: Sequence[str], most: int) -> list[str]:
    """Scans that are lost, and whether it may have more files open."""
    code = parish.code_of(main)
    filed = {*probe.names(inbox), *probe.names(parish.store_of(main))}
    gone = [name for name in good if not {name, f"{name}.pdf"} & filed]
    own = [one.pid for one in probe.processes() if code in one.command]
    may = max((parts.open_files(pid) for pid in own), default=0)
    return said(
        f"{', '.join(gone)} lost" if gone else "",
        f"{main} may have {may} files open now" if may > most else "",
    )  # fmt: skip


def unreadable_scan(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    most, inbox = pick.size(60, 90), f"/srv/{pick.choice(('scanner', 'scans', 'copier'))}/{main}"
    bad = f"{inbox}/{pick.choice(('scan', 'doc', 'img'))}{pick.size(1000, 4000)}.pdf"
    good = [f"scan{pick.size(5000, 9000)}{n}" for n in range(4)]
    kept, code = parish.papers(main, pick), parish.code_of(main)
    world = tiers.joined(
        [parish.binder(main, port, {"Inbox": inbox}, code=parish.program(SCANS),
                       limits={"nofile": most},
                       about=f"papers in {parish.store_of(main)}, and what the scanner leaves in "
                       f"{inbox}; settings {parish.settings_of(main)}, log {parish.log_of(main)}"),
         parish.binder(other, other_port)],
        files={**kept, **parish.former(main, pick), **parish.former(other, pick)},
        folders={inbox: 0o777},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.write(bad, "II*\0" + "\0" * 400)
        full = f"tail -n 3 {parish.log_of(main)} | grep -q 'Too many open files: {inbox}'"
        box.run(f"until {full}; do sleep 0.2; done", seconds=50)
        for name in good:
            box.write(f"{inbox}/{name}.pdf", f"%PDF-1.4 {name}\n")

    def waiting(probe: Probe) -> str:
        here = [name for name in probe.names(inbox) if name.removesuffix(".pdf") in good]
        return f"{', '.join(here)} still in {inbox}" if here else ""

    name = bad.rpartition("/")[2]
    entry = f"/etc/supervisor/conf.d/{main}.conf"
    return Scene(
        world=world,
        check=parish.ready(main, port),
        healthy=lambda probe: said(
            parish.files(probe, port, timeout=1.0), _more(probe, code, most), waiting(probe)
        ),
        truth=Truth(
            (main,), ("descriptor-leak",), rf"{name}|{inbox}|open files|nofile|\bfd\b",
            rf"{name}|\[binder:(crit|error)\].*Too many open files",
        ),
        inject=inject,
        fix=(f"mv {bad} /var/tmp/", f"supervisorctl restart {main}; sleep 1"),
        wrong={
            "it is only restarted": [f"supervisorctl restart {main}; sleep 0.5"],
            "the neighbour is restarted": [f"supervisorctl restart {other}"],
            "the limit is raised": [
                f"sed -i 's/--nofile=[0-9:]*/--nofile=8192/' {entry}", "supervisorctl update",
            ],
            "the inbox is emptied": [f"rm {inbox}/*", f"supervisorctl restart {main}; sleep 1"],
        },
        stays=(*kept, parish.settings_of(main), code),
        harm=lambda probe: [
            *_worse(probe, main, inbox, good, most), *said(parish.files(probe, other_port)),
        ],
    )  # fmt: skip
