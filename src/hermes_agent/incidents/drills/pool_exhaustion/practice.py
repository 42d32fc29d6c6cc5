"""Connections that are all taken, in other houses."""

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check
from hermes_agent.incidents.drills import porters, tiers
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Program, Truth

_TAKER = '''"""Listens for changes. SIGUSR1: subscribe anew."""
import signal, socket, sys, time

kept, wanted = [], int(sys.argv[2])


def anew(*_):
    global wanted
    wanted += int(sys.argv[2])


signal.signal(signal.SIGUSR1, anew)
while True:
    while len(kept) < wanted:
        one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        one.sendall(b"GET x\\n")
        if b"max number" in one.recv(100):
            print("subscribe failed: ERR max number of clients reached", flush=True)
            one.close()
            break
        kept.append(one)
    time.sleep(0.2)
'''


def max_clients(pick: Pick) -> Scene:
    """A subscriber opened its connections anew, again and again, and closed none."""
    api, watcher, beside = pick.services(3)
    port, store_port, beside_port = pick.ports(3)
    store = pick.choice(("keyval", "sessions", "memkeep"))
    style, form = porters.any_style(pick), pick.choice(("json", "env", "flags"))
    most = pick.size(10, 20)
    code = f"/opt/{watcher}/lib/{watcher}.py"
    watch = tiers.Part(
        Program(
            name=watcher,
            command=f"python3 {code} {store_port} 2",
            needs=(store,),
            about="follows changes; must go on",
        ),
        {code: File(_TAKER, age=tiers.MONTH)},
    )
    parts = [
        porters.lines(store, store_port, most=most),
        porters.porter(api, port, f"kv://127.0.0.1:{store_port}", form=form, style=style,
                       needs=[store], more={"pool": 3}),
        watch,
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="yaml", style=style),
    ]  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"supervisorctl stop {api}")
        box.run(
            f"pid=$(supervisorctl pid {watcher}); "
            f"for n in $(seq {most}); do kill -USR1 $pid; sleep 0.05; done; sleep 0.5"
        )
        box.run(f"supervisorctl start {api}")
        box.wait(f"tcp:{port}")

    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=porters.status(api, port),
        healthy=lambda probe: said(probe.keeps(port, "/v")),
        truth=Truth(
            component=(watcher, store),
            category=("pool-exhausted",),
            locus=f"{watcher}|{store_port}|{store}",
            evidence=f"max number of clients|{watcher}",
        ),
        inject=inject,
        fix=(f"supervisorctl restart {watcher}",),
        wrong={"restarting the service": [f"supervisorctl restart {api}"]},
        stays=(porters.settings_file(api, form), f"/etc/{store}.conf"),
        runs=(code,),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )


def small_pool(pick: Pick) -> Scene:
    """The pool was made smaller than what its users need at the same time."""
    api, beside = pick.services(2)
    port, store_port, beside_port = pick.ports(3)
    store, caller = pick.choice(("keyval", "statedb")), f"{pick.word()}-poller"
    style, form = porters.any_style(pick), pick.choice(("json", "yaml", "properties"))
    path = porters.settings_file(api, form)
    script = f"/opt/{caller}/bin/poll.sh"
    loop = f"while :; do curl -s -m 5 -o /dev/null http://127.0.0.1:{port}/status; done"
    text = f"#!/bin/bash\nfor n in 1 2 3; do ( {loop} ) & done\nwait\n"
    parts = [
        porters.lines(store, store_port),
        porters.porter(api, port, f"kv://127.0.0.1:{store_port}", form=form, style=style,
                       needs=[store], more={"pool": 8, "pool_wait": 0.5, "hold": 0.3}),
        tiers.Part(
            Program(name=caller, command=script, needs=(api,), about="must go on"),
            {script: File(text, mode=0o755, age=tiers.MONTH)},
        ),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form="env", style=style),
    ]  # fmt: skip
    one = f"curl -fsS -m 3 http://127.0.0.1:{port}/status"
    old = f"{path}.{pick.choice(('20261102', 'orig', 'v41'))}"

    def inject(box: Box) -> None:
        box.run(f"cp -p {path} {old}")
        box.run(rf"""sed -i -E 's/(pool"?[:=] ?)8/\11/' {path}; supervisorctl restart {api}""")
        box.wait(f"tcp:{port}")

    return Scene(
        world=tiers.joined(parts, hostname=pick.host()),
        check=WatchedCheck(
            f"{api}-status", Check(" && ".join([one] * 6), timeout=16), api, severity="P1"
        ),
        healthy=lambda probe: said(*(porters.quick(probe, port, 2) for _ in range(6))),
        truth=Truth(
            component=(api,),
            category=("pool-exhausted", "bad-config"),
            locus=f"{path}|pool",
            evidence="pool",
        ),
        inject=inject,
        fix=(f"cp -p {old} {path}", f"supervisorctl restart {api}"),
        wrong={"restarting": [f"supervisorctl restart {api} {store}"]},
        stays=(f"/etc/{store}.conf", script),
        runs=(script,),
        harm=lambda probe: said(probe.keeps(beside_port, "/v")),
    )
