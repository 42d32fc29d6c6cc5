"""In another house: short names that are completed otherwise, and a name server that is not
there."""

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth, World

SERVER = "127.0.0.61"
RESOLVER = "/etc/resolv.conf"


class Town:
    """A front that knows its store by name, and who answers for names."""

    def __init__(self, pick: Pick) -> None:
        self.front, self.store, self.other = pick.services(3)
        self.port, self.store_port, self.other_port = pick.ports(3)
        self.domain = f"{pick.choice(('prod', 'int', 'core'))}.{pick.choice(('arpa', 'home'))}"
        self.address = f"127.3.{pick.size(2, 200)}.{pick.size(2, 250)}"
        self.zone = f"/opt/resolved/zones/{self.domain}"
        self.kept = yard.notes(self.store, pick)
        self.old = yard.days_ago(self.other, pick)
        self.hostname = pick.host()

    def world(self, called: str) -> World:
        names = tiers.Part(
            Program(
                name="resolved",
                command=f"python3 /opt/resolved/bin/resolved.py {SERVER} {self.zone}",
                autorestart=False,
                about=f"answers for {self.domain} at {SERVER}; zone {self.zone}",
            ),
            {
                "/opt/resolved/bin/resolved.py": File(
                    tiers.program_text("names.py"), age=tiers.MONTH
                ),
                self.zone: File(
                    f"{self.other}.{self.domain} 127.0.0.1\n{self.store}.{self.domain} "
                    f"{self.address}\n",
                    age=tiers.MONTH,
                ),
            },
        )
        store = yard.depot(self.store, self.store_port, listen=f"{self.address}:{self.store_port}")
        front = yard.depot(
            self.front, self.port, {"backend": f"http://{called}:{self.store_port}"},
            needs=(self.store, "resolved"),
        )  # fmt: skip
        return tiers.joined(
            [names, store, front, yard.depot(self.other, self.other_port)],
            files={
                **self.kept,
                **self.old,
                RESOLVER: File(
                    f"# kept by hand\nsearch {self.domain}\nnameserver {SERVER}\n"
                    "options timeout:1 attempts:1\n",
                    age=tiers.MONTH,
                ),
            },
            hostname=self.hostname,
        )

    def healthy(self, probe: Probe) -> list[str]:
        return said(yard.stores(probe, self.port))

    def harm(self, probe: Probe) -> list[str]:
        return said(yard.stores(probe, self.other_port))

    def stays(self) -> tuple[str, ...]:
        return (*self.kept, self.zone, *map(yard.settings_of, (self.front, self.store)))

    def by_address(self, called: str) -> list[str]:
        return [
            f"sed -i 's#//{called}:#//{self.address}:#' {yard.settings_of(self.front)}",
            f"supervisorctl restart {self.front}",
        ]


def search_list(pick: Pick) -> Scene:
    town = Town(pick)
    elsewhere = f"{pick.token(4)}.example"
    return Scene(
        world=town.world(town.store),
        check=yard.passes(town.front, town.port),
        healthy=town.healthy,
        truth=Truth(
            ("resolved", town.hostname, "resolver", "dns", "resolv.conf", RESOLVER, town.front),
            ("dns-failure", "bad-config"), rf"{RESOLVER}|{elsewhere}|search",
            rf"Name or service not known|name resolution|search {elsewhere}|no such name",
        ),
        inject=lines(
            f"cp -p {RESOLVER} {RESOLVER}.dhcp-saved",
            f"sed -i 's/^search .*/search {elsewhere}/; s/by hand/by the lease/' {RESOLVER}",
        ),
        fix=(f"sed -i 's/^search .*/search {town.domain}/' {RESOLVER}",),
        wrong={
            "restarting": ["supervisorctl restart all; sleep 0.4"],
            "an address in the settings": town.by_address(town.store),
        },
        stays=town.stays(),
        harm=town.harm,
    )  # fmt: skip


def server_gone(pick: Pick) -> Scene:
    town = Town(pick)
    called = f"{town.store}.{town.domain}"
    return Scene(
        world=town.world(called),
        check=yard.passes(town.front, town.port),
        healthy=lambda probe: said(
            *town.healthy(probe),
            "" if any("resolved.py" in p.command for p in probe.processes())
            else "nobody answers for names",
        ),
        truth=Truth(
            ("resolved",), ("dns-failure", "service-crash"), rf"resolved|{SERVER}|{called}",
            r"name resolution|resolved\s+(EXITED|STOPPED|FATAL)|connection timed out",
        ),
        inject=lines("kill -9 $(supervisorctl pid resolved); sleep 0.2"),
        fix=("supervisorctl start resolved",),
        wrong={
            "restarting": [f"supervisorctl restart {town.front} {town.store}"],
            "a line in the hosts file": [f"echo '{town.address} {called}' >> /etc/hosts"],
        },
        stays=(*town.stays(), RESOLVER),
        harm=town.harm,
    )  # fmt: skip
