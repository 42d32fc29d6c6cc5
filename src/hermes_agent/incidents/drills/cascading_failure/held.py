"""One falls and others with it, on machines of other people."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import harbour, tiers, troves, workshop
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

GUARDED = '''
class Guarded(Remote):
    """Not asked any more after some failures in a row, for as long as the settings say."""

    failures, opened, log = 0, 0.0, print

    def call(self, key: str, body: bytes | None) -> str:
        name = "resilience4j.circuitbreaker.instances.remote."
        most = int(self.own[name + "minimum-number-of-calls"])
        if self.failures >= most:
            if time.time() < self.opened + 3600 * float(self.own[name + "open-hours"]):
                raise Trouble("CallNotPermittedException: CircuitBreaker 'remote' is OPEN and does "
                              "not permit further calls")
            self.failures = most - 1
        try:
            found = super().call(key, body)
        except Trouble as trouble:
            self.failures = 0 if trouble.status == 404 else self.failures + 1
            if self.failures == most:
                self.opened = time.time()
                self.log("WARN", "i.g.r.c.CircuitBreaker", "CircuitBreaker 'remote' changed state "
                         "from CLOSED to OPEN")
            raise
        self.failures = 0
        return found


class Guard(App):
    def __init__(self, own: dict[str, str]) -> None:
        super().__init__(own)
        self.store = Guarded(own)
        self.store.own, self.store.log = own, self.log


if __name__ == "__main__":
    main(sys.argv[1], Guard)
'''
WAIT = """#!/bin/bash
# wait-for-it.sh HOST:PORT SECONDS COMMAND...: starts the command once the port answers
target=$1 limit=$2; shift 2
echo "wait-for-it.sh: waiting $limit seconds for $target" >&2
for ((n = 0; n < limit * 5; n++)); do
    if (exec 3<>"/dev/tcp/${target/:/\\/}") 2>/dev/null; then
        echo "wait-for-it.sh: $target is available after $((n / 5)) seconds" >&2
        exec "$@"
    fi
    sleep 0.2
done
echo "wait-for-it.sh: timeout occurred after waiting $limit seconds for $target" >&2
exit 124
"""


def wait_for_it(pick: Pick) -> Scene:
    """As `base-first`: the well-known script of containers waits for the base, and the supervisor
    tries a few times until it gives up; settings in many formats, a base that aborted, and two that
    need what gave up."""
    (edge, second, middle, base), ports = pick.services(4), pick.ports(5)
    port, second_port, inner, base_port, other_port = ports
    homes = [troves.house(pick, name, at) for name, at in
             ((edge, port), (second, second_port), (middle, inner), (base, base_port))]  # fmt: skip
    other = troves.house(pick, f"{pick.word()}-keeper", other_port)
    script = pick.choice(("/usr/local/bin/wait-for-it.sh", f"/opt/{middle}/wait-for-it.sh"))
    script = script.replace("/usr/local/bin", "/opt/tools")
    limit, kept = pick.size(2, 3), troves.entries(homes[3], pick)
    below = troves.trove(
        homes[2], {"backend": f"http://127.0.0.1:{base_port}"}, needs=(base,), start_seconds=5,
        command=f"{script} 127.0.0.1:{base_port} {limit} python3 {homes[2].code} {homes[2].config}",
    )  # fmt: skip
    lowest = troves.trove(homes[3])
    asks = {"backend": f"http://127.0.0.1:{inner}"}
    world = tiers.joined(
        [troves.trove(homes[0], asks, needs=(middle,)),
         troves.trove(homes[1], asks, needs=(middle,)), below,
         replace(lowest, program=replace(lowest.program, autorestart=False)), troves.trove(other)],
        files={**kept, script: File(WAIT, mode=0o755, age=tiers.MONTH)},
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.run(f"kill -ABRT $(supervisorctl pid {base})")
        box.wait(f"down:{base_port}")
        box.run(f"supervisorctl restart {middle}", check=False)
        box.run(f"until supervisorctl status {middle} | grep -q FATAL; do sleep 0.3; done",
                seconds=90)  # fmt: skip

    def healthy(probe: Probe) -> list[str]:
        return troves.keeps(probe, port, second_port, inner, base_port)

    return Scene(
        world=world,
        check=troves.is_up(edge, port),
        healthy=healthy,
        truth=Truth(
            (base,), ("cascading-failure", "service-crash"), rf"\b{base}\b|{base_port}",
            rf"{base}\s+EXITED|{base}.*SIGABRT|timeout occurred after waiting|{middle}\s+FATAL|"
            rf"{base_port}",
        ),
        inject=inject,
        fix=(f"supervisorctl start {base}", f"supervisorctl start {middle}"),
        wrong={
            "the one that gave up alone": [f"supervisorctl start {middle}"],
            "the lowest alone": [f"supervisorctl start {base}"],
            "those above": [f"supervisorctl restart {edge} {second}"],
        },
        stays=(*kept, script, *(one.config for one in (*homes, other))),
        harm=lambda probe: said(*troves.keeps(probe, other_port)),
    )  # fmt: skip


def open_circuit(pick: Pick) -> Scene:
    """As `breaker`: a circuit breaker as of Resilience4j, set to stay open for hours;
    nginx in front, files instead of a store of keys, a kernel that was out of memory, and one that
    asks the same without a breaker."""
    (middle, lowest, second, other), ports = pick.services(4), pick.ports(5)
    port, inner, base_port, second_port, other_port = ports
    most, hours, host = pick.size(3, 6), pick.size(6, 24), pick.host()
    name = "resilience4j.circuitbreaker.instances.remote."
    asks: dict[str, object] = {"parcels.remote.url": f"http://127.0.0.1:{base_port}"}
    guard = {**asks, f"{name}minimum-number-of-calls": most, f"{name}open-hours": hours}
    kept, log = harbour.parcels(lowest, pick), "/var/log/kern.log"
    edge = tiers.nginx({middle: workshop.site(port, inner)}, [middle], port)
    world = tiers.joined(
        [edge, harbour.app(middle, inner, guard, text=harbour.program(GUARDED), needs=(lowest,)),
         harbour.app(second, second_port, asks, needs=(lowest,)),
         harbour.app(lowest, base_port, autorestart=False), harbour.app(other, other_port)],
        files={**kept, **harbour.weeks_ago(middle, pick), **harbour.weeks_ago(other, pick)},
        hostname=host,
    )  # fmt: skip

    def inject(box: Box) -> None:
        pid = box.run(f"supervisorctl pid {lowest}").stdout.strip()
        box.run(f"supervisorctl signal KILL {lowest}")
        box.wait(f"down:{base_port}")
        told = f"{host} kernel: Out of memory: Killed process {pid} (python3) anon-rss:412088kB"
        box.run(f"echo \"$(date '+%b %d %T')\" '{told}' >> {log}")
        ask = f"curl -s -m 4 -o /dev/null http://127.0.0.1:{port}/actuator/health"
        box.run(f"for n in $(seq {most + 2}); do {ask}; done")

    return Scene(
        world=world,
        check=harbour.health("nginx", port),
        healthy=lambda probe: said(harbour.stores(probe, port, inner, second_port, base_port)),
        truth=Truth(
            (lowest,), ("cascading-failure", "service-crash"),
            rf"\b{lowest}\b|{base_port}|/data/{lowest}",
            rf"{lowest}\s+EXITED|{lowest}.*SIGKILL|Out of memory|changed state from CLOSED",
        ),
        inject=inject,
        fix=(f"supervisorctl start {lowest}", "sleep 1", f"supervisorctl restart {middle}"),
        wrong={
            "the lowest alone": [f"supervisorctl start {lowest}; sleep 1"],
            "the others alone": [f"supervisorctl restart {middle} {second} nginx; sleep 1"],
            "a shorter pause": [
                f"sed -i 's/open-hours=.*/open-hours=0/' {harbour.settings_of(middle)}",
                f"supervisorctl restart {middle}; sleep 1",
            ],
        },
        stays=(*kept, *map(harbour.settings_of, (middle, lowest, second, other))),
        harm=lambda probe: said(harbour.stores(probe, other_port)),
    )  # fmt: skip
