"""In another house: what started without its cache gave up for good, and a front that put itself
into maintenance when its store fell."""

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import Truth

NEEDY = '''
class Needy(Depot):
    """Ends when what is behind it does not answer: whoever keeps it starts it again."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        while True:
            try:
                self.forward("PUT", "watch", b"w")
            except Failure as failure:
                self.log("fatal", f"leaving: {failure}")
                os._exit(3)
            time.sleep(0.3)


if __name__ == "__main__":
    run(Needy)
'''
RESTING = '''
class Resting(Depot):
    """After five failures in a row it rests, until somebody takes the note away."""

    failures = 0

    def forward(self, method: str, key: str, body: bytes | None) -> bytes:
        note = Path(self.settings["maintenance"])
        if note.exists():
            raise Failure(f"in maintenance: {note} is there", 503)
        try:
            found = super().forward(method, key, body)
        except Failure as failure:
            if failure.code != 404:
                self.failures += 1
            if self.failures >= 5:
                note.write_text(f"since {time.ctime()}: {failure}\\n")
                self.log("error", f"entered maintenance; remove {note} to resume")
                self.failures = 0
            raise
        self.failures = 0
        return found


if __name__ == "__main__":
    run(Resting)
'''


def chain(pick: Pick) -> Scene:
    (edge, main, cache, other) = pick.services(4)
    port, main_port, cache_port, other_port = pick.ports(4)
    kept = yard.notes(cache, pick)
    world = tiers.joined(
        [
            yard.depot(cache, cache_port, autorestart=False),
            yard.depot(
                main, main_port, {"backend": f"http://127.0.0.1:{cache_port}"},
                code=yard.program(NEEDY), needs=(cache,), start_seconds=3,
            ),
            yard.depot(other, other_port),
            tiers.nginx({edge: yard.proxy(port, f"http://127.0.0.1:{main_port}")}, [main], port),
        ],
        files={**kept, **yard.days_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"kill -9 $(supervisorctl pid {cache})")
        box.wait(f"down:{main_port}")
        box.run(
            f"until supervisorctl status {main} | grep -q FATAL; do sleep 0.2; done", seconds=40
        )

    return Scene(
        world=world,
        check=yard.passes("nginx", port),
        healthy=lambda probe: said(yard.stores(probe, port, main_port, cache_port)),
        truth=Truth(
            (cache,), ("cascading-failure", "service-crash"), rf"\b{cache}\b|{cache_port}",
            rf"{cache}\s+EXITED|leaving: backend|{main}\s+FATAL|{cache_port}.*refused",
        ),
        inject=inject,
        fix=(f"supervisorctl start {cache}", f"supervisorctl start {main}"),
        wrong={
            "the middle alone": [f"supervisorctl start {main}"],
            "the last alone": [f"supervisorctl start {cache}"],
        },
        stays=(*kept, *map(yard.settings_of, (cache, main, other)), tiers.site_file(edge)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


def maintenance(pick: Pick) -> Scene:
    front, store, other = pick.services(3)
    port, store_port, other_port = pick.ports(3)
    note = f"/var/opt/{front}/{pick.choice(('MAINTENANCE', 'resting', 'out-of-service'))}"
    kept = yard.notes(store, pick)
    world = tiers.joined(
        [
            yard.depot(
                front, port, {"backend": f"http://127.0.0.1:{store_port}", "maintenance": note},
                code=yard.program(RESTING), needs=(store,),
            ),
            yard.depot(store, store_port, autorestart=False),
            yard.depot(other, other_port),
        ],
        files={**kept, **yard.days_ago(store, pick), **yard.days_ago(other, pick)},
        hostname=pick.host(),
    )  # fmt: skip
    ask = f"curl -s -m 3 -o /dev/null http://127.0.0.1:{port}/status"
    return Scene(
        world=world,
        check=yard.passes(front, port),
        healthy=lambda probe: said(yard.stores(probe, port, store_port)),
        truth=Truth(
            (store,),
            ("cascading-failure", "service-crash"),
            rf"\b{store}\b|{store_port}|{note}",
            rf"{store}\s+(EXITED|STOPPED)|in maintenance: |{store_port}.*refused",
        ),
        inject=lines(
            f"kill -9 $(supervisorctl pid {store}); sleep 0.2",
            f"for n in 1 2 3 4 5 6 7; do {ask}; done",
        ),
        fix=(
            f"supervisorctl start {store}",
            f"until curl -fs -m 3 http://127.0.0.1:{store_port}/status; do sleep 0.2; done",
            f"mv {note} {note}.done",
        ),
        wrong={
            "the front alone": [f"supervisorctl restart {front}"],
            "the store alone": [f"supervisorctl start {store}"],
        },
        stays=(*kept, *map(yard.settings_of, (front, store, other))),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )
