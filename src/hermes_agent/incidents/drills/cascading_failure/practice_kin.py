"""Pages that somebody tidied away, and a site that suspended who had them; branches that ended when
their parent house fell."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import parish, tiers, vhosts, workshop
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

SUSPENDING = '''
class Suspending(Remote):
    """After some failures in a row nobody is asked any more, as long as this site runs."""

    failures = 0

    def ask(self, method: str, key: str, body: bytes | None = None) -> bytes:
        if self.failures >= MOST:
            raise Trouble(f"{self.own['url']} is suspended, it failed {MOST} times in a row", 503)
        try:
            found = super().ask(method, key, body)
        except Trouble as trouble:
            self.failures = 0 if trouble.status == 404 else self.failures + 1
            raise
        self.failures = 0
        return found


KINDS["remote"] = Suspending

if __name__ == "__main__":
    main()
'''
BRANCH = '''
class Branch(Binder):
    """Papers are with the parent house; without it there is nothing to do here."""

    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        threading.Thread(target=self.visit, daemon=True).start()

    def visit(self) -> None:
        while True:
            try:
                self.put("visit", b"")
            except Trouble as trouble:
                self.log("emerg", f"{trouble}: shutting down")
                os._exit(1)
            time.sleep(0.4)

    def ask(self, method: str, key: str, body: bytes | None = None) -> bytes:
        house = self.own["ParentHouse"]
        line = http.client.HTTPConnection(house, timeout=2)
        try:
            line.request(method, f"/papers/{key}", body)
            reply = line.getresponse()
            found = reply.read()
        except OSError as error:
            raise Trouble(f"({error.errno}){error.strerror}: parent house {house}", 502) from None
        if reply.status >= 400:
            raise Trouble(f"parent house {house} said {reply.status}", reply.status)
        return found

    def put(self, key: str, body: bytes) -> None:
        self.ask("PUT", key, body)

    def get(self, key: str) -> bytes:
        return self.ask("GET", key)


if __name__ == "__main__":
    run(Branch)
'''


def tidied_away(pick: Pick) -> Scene:
    """As `lost-data`: somebody tidied up, and put the pages with real rubbish; sites with INI files
    behind nginx, of which one suspends the other."""
    (front, store, other), (port, middle, inner, other_port) = pick.services(3), pick.ports(4)
    most, kept = pick.size(3, 6), vhosts.pages(store, pick)
    attic = f"{vhosts.TOP}/{pick.choice(('_attic', '_unused', '_old'))}"
    folder, moved = f"{vhosts.var_of(store)}/pages", f"{attic}/{store}-{pick.token(4)}"
    remote = {"kind": "remote", "url": f"http://127.0.0.1:{inner}"}
    asking = vhosts.site(front, middle, remote, needs=(store,))
    usual = tiers.program_text("folio.py").partition('\nif __name__ == "__main__":')[0]
    code = {f"{vhosts.TOP}/{front}/app/folio.py": File(
        usual + SUSPENDING.replace("MOST", str(most)), age=tiers.MONTH)}  # fmt: skip
    rubbish = {f"{attic}/{other}-{n}/p{pick.token(7)}": File("<p>old</p>\n", age=3e7)
               for n in (2023, 2024)}  # fmt: skip
    edge = tiers.nginx({front: workshop.site(port, middle)}, [front], port)
    world = tiers.joined(
        [edge, replace(asking, files={**asking.files, **code}), vhosts.site(store, inner),
         vhosts.site(other, other_port)],
        files={**kept, **rubbish, **vhosts.months_ago(store, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    ask = f"curl -s -m 4 -o /dev/null http://127.0.0.1:{port}/healthcheck"

    def inject(box: Box) -> None:
        box.run(f"mv {folder} {moved}")
        box.run(f"for n in $(seq {most + 2}); do {ask}; done")

    def harm(probe: Probe) -> list[str]:
        lost = [
            path for path, file in kept.items()
            if probe.http(inner, f"/pages/{path.rpartition('/')[2]}").text != file.text
        ]  # fmt: skip
        return said(
            f"pages of {store} are not to be had: {len(lost)}" if lost else "",
            vhosts.writes(probe, other_port),
        )

    return Scene(
        world=world,
        check=vhosts.sound("nginx", port),
        healthy=lambda probe: said(vhosts.writes(probe, port, middle, inner)),
        truth=Truth(
            (store,), ("cascading-failure",), rf"{folder}|{moved}|{store}",
            rf"No such file or directory: '{folder}|is suspended, it failed|{moved}|{folder}",
        ),
        inject=inject,
        fix=(f"mv {moved} {folder}", f"supervisorctl restart {front}"),
        wrong={
            "the front alone": [f"supervisorctl restart {front} nginx"],
            "the store alone": [f"mv {moved} {folder}", f"supervisorctl restart {store}"],
            "an empty folder": [f"mkdir {folder}", f"supervisorctl restart {store} {front}"],
        },
        stays=(*rubbish, *map(vhosts.conf_of, (front, store, other)), tiers.site_file(front)),
        harm=harm,
    )  # fmt: skip


def parent_house(pick: Pick) -> Scene:
    """As `chain`: two end with the one that they ask, which died of a fault in memory; directives
    in files, logs as of Apache, and the second is behind no nginx."""
    (parent, branch, second, other), ports = pick.services(4), pick.ports(5)
    port, inner, second_port, base_port, other_port = ports
    kept, code = parish.papers(parent, pick), parish.program(BRANCH)
    asks = {"ParentHouse": f"127.0.0.1:{base_port}"}
    tiers_of = [
        parish.binder(name, at, asks, code=code, needs=(parent,), start_seconds=5)
        for name, at in ((branch, inner), (second, second_port))
    ]
    edge = tiers.nginx({branch: workshop.site(port, inner)}, [branch], port)
    world = tiers.joined(
        [parish.binder(parent, base_port, autorestart=False), *tiers_of,
         parish.binder(other, other_port), edge],
        files={**kept, **parish.former(branch, pick), **parish.former(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"kill -SEGV $(supervisorctl pid {parent})")
        box.wait(f"down:{base_port}")
        both = f"supervisorctl status {branch} {second} | grep -c FATAL"
        box.run(f"until [ $({both}) = 2 ]; do sleep 0.2; done", seconds=90)

    return Scene(
        world=world,
        check=parish.ready("nginx", port),
        healthy=lambda probe: said(parish.files(probe, port, inner, second_port, base_port)),
        truth=Truth(
            (parent,), ("cascading-failure", "service-crash"), rf"\b{parent}\b|{base_port}",
            rf"{parent}\s+EXITED|{parent}.*SIGSEGV|parent house|({branch}|{second})\s+FATAL",
        ),
        inject=inject,
        fix=(f"supervisorctl start {parent}", f"supervisorctl start {branch} {second}"),
        wrong={
            "those that ended alone": [f"supervisorctl start {branch} {second}"],
            "the parent house alone": [f"supervisorctl start {parent}"],
            "only what is behind nginx": [f"supervisorctl start {parent}; sleep 0.5",
                                          f"supervisorctl start {branch}"],
        },
        stays=(*kept, *map(parish.settings_of, (parent, branch, second, other))),
        harm=lambda probe: said(parish.files(probe, other_port)),
    )  # fmt: skip
