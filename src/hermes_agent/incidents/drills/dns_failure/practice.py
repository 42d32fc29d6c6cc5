"""Names that lead nowhere, in other houses."""

from hermes_agent.incidents.drills import porters, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

SERVER = "127.0.0.153"


def _named(name: str, zone: str, address: str = SERVER) -> tiers.Part:
    """The house's name server."""
    return tiers.Part(
        Program(
            name=name,
            command=f"python3 /opt/{name}/bin/{name}.py {address} {zone}",
            about=f"names of this house, zone {zone}",
        ),
        {f"/opt/{name}/bin/{name}.py": File(tiers.program_text("names.py"), age=tiers.MONTH)},
    )


def moved_record(pick: Pick) -> Scene:
    """The record of a store still has, or has again, an address where it is not."""
    api, store, beside = pick.services(3)
    port, store_port, beside_port = pick.ports(3)
    style = porters.any_style(pick)
    zone = f"/srv/dns/{pick.choice(('zones', 'db', 'data'))}/{pick.choice(('int', 'svc'))}.txt"
    domain = pick.choice(("svc.local", "int.example", "cluster.test"))
    here, there = (f"127.{n}.{pick.size(2, 200)}.{pick.size(2, 250)}" for n in (1, 2))
    name = f"{store}.{domain}"
    text = f"{beside}.{domain} 127.0.0.1\n{name} {here}\n{api}.{domain} 127.0.0.1\n"
    form = pick.choice(("json", "yaml", "properties"))
    parts = [
        _named("zoned", zone),
        porters.porter(
            api, port, f"http://{name}:{store_port}", form=form, style=style, needs=[store]
        ),
        porters.porter(
            store, store_port, f"/srv/{store}/values", form="env", style=style, bind=here
        ),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form=form, style=style),
    ]
    return Scene(
        world=tiers.joined(
            parts,
            files={
                zone: File(text, age=tiers.MONTH),
                "/etc/resolv.conf": File(
                    f"nameserver {SERVER}\noptions timeout:1 attempts:1\n", age=tiers.MONTH
                ),
            },
            hostname=pick.host(),
        ),
        check=porters.status(api, port),
        healthy=lambda probe: said(probe.keeps(port, "/v"), probe.keeps(beside_port, "/v")),
        truth=Truth(
            component=("zoned", api, store, "dns"),
            category=("dns-failure",),
            locus=f"{zone}|{name}",
            evidence=f"{there}|{name}",
        ),
        inject=lines(f"sed -i 's/{here}/{there}/' {zone}"),
        fix=(f"sed -i 's/{there}/{here}/' {zone}",),
        wrong={"restarting": ["supervisorctl restart all"]},
        stays=(porters.settings_file(api, form), f"/etc/default/{store}"),
        runs=("zoned.py",),
    )


def dangling(pick: Pick) -> Scene:
    """The resolver's file is a link, and what it leads to is gone since the last start."""
    api, store, beside = pick.services(3)
    port, store_port, beside_port = pick.ports(3)
    style, name = porters.any_style(pick), f"{store}.{pick.choice(('home.arpa', 'site.test'))}"
    behind = pick.choice(("/run/resolver/resolv.conf", "/run/net/dns.conf"))
    zone, form = "/opt/localdns/etc/records", pick.choice(("env", "environment", "flags"))
    text = f"nameserver {SERVER}\noptions timeout:1 attempts:1\n"
    parts = [
        _named("localdns", zone),
        porters.porter(api, port, f"http://{name}:{store_port}", form=form, style=style,
                       needs=[store], log=f"/srv/{api}/logs/{api}.out"),
        porters.porter(store, store_port, f"/srv/{store}/values", form="json", style=style),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form=form, style=style),
    ]  # fmt: skip
    return Scene(
        world=tiers.joined(
            parts,
            files={
                zone: File(f"{name} 127.0.0.1\nprinter.{name} 127.0.0.9\n", age=tiers.MONTH),
                behind: File(text, age=tiers.MONTH),
                "/etc/resolv.conf": File(link=behind),
            },
            hostname=pick.host(),
        ),
        check=porters.status(api, port),
        healthy=lambda probe: said(probe.keeps(port, "/v"), probe.keeps(beside_port, "/v")),
        truth=Truth(
            component=("localdns", api, "resolver", "dns"),
            category=("dns-failure",),
            locus=f"resolv.conf|{behind}|{name}",
            evidence=f"resolv.conf|{name}|name resolution|not known",
        ),
        inject=lines(f"rm {behind}"),
        fix=(f"printf 'nameserver {SERVER}\\noptions timeout:1\\n' > /etc/resolv.conf",),
        wrong={"restarting": ["supervisorctl restart all"]},
        stays=(porters.settings_file(store, "json"), zone),
        runs=("localdns.py",),
    )


_STUB = '''"""Hands questions on: stub.py FILE, with `listen ADDRESS` and `forward ADDRESS`."""
import socket, sys

own = dict(line.split(None, 1) for line in open(sys.argv[1]) if line[:1].isalpha())
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((own["listen"].strip(), 53))
print("forwarding to", own["forward"].strip(), flush=True)
while True:
    packet, sender = server.recvfrom(512)
    further = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    further.settimeout(0.4)
    try:
        further.sendto(packet, (own["forward"].strip(), 53))
        server.sendto(further.recv(512), sender)
    except OSError as error:
        print("forward failed:", error, flush=True)
        server.sendto(packet[:2] + bytes((0x81, 0x82)) + packet[4:], sender)
    further.close()
'''


def lost_forwarder(pick: Pick) -> Scene:
    """The stub hands questions on to an address where no name server is any more."""
    api, store, beside = pick.services(3)
    port, store_port, beside_port = pick.ports(3)
    style, name = porters.any_style(pick), f"{store}.{pick.choice(('intra.net', 'prod.test'))}"
    stub, zone = pick.choice(("stubd", "forwardd")), "/srv/authd/zone"
    conf, dead = f"/opt/{stub}/etc/{stub}.conf", f"127.0.0.{pick.size(200, 250)}"
    form = pick.choice(("yaml", "json", "flags"))
    parts = [
        _named("authd", zone),
        tiers.Part(
            Program(name=stub, command=f"python3 /opt/{stub}/bin/{stub}.py {conf}",
                    needs=("authd",), about=f"hands questions for names on; settings {conf}"),
            {f"/opt/{stub}/bin/{stub}.py": File(_STUB, age=tiers.MONTH),
             conf: File(f"# stub\nlisten 127.0.0.53\nforward {SERVER}\n", age=tiers.MONTH)},
        ),
        porters.porter(api, port, f"http://{name}:{store_port}", form=form, style=style,
                       needs=[store]),
        porters.porter(store, store_port, f"/srv/{store}/values", form="env", style=style),
        porters.porter(beside, beside_port, f"/srv/{beside}/values", form=form, style=style),
    ]  # fmt: skip
    return Scene(
        world=tiers.joined(
            parts,
            files={
                zone: File(f"{name} 127.0.0.1\n", age=tiers.MONTH),
                "/etc/resolv.conf": File("nameserver 127.0.0.53\noptions timeout:2 attempts:1\n",
                                         age=tiers.MONTH),
            },
            hostname=pick.host(),
        ),
        check=porters.status(api, port),
        healthy=lambda probe: said(probe.keeps(port, "/v"), probe.keeps(beside_port, "/v")),
        truth=Truth(
            component=(stub, "dns", api),
            category=("dns-failure", "bad-config"),
            locus=f"{conf}|{dead}|{stub}",
            evidence=f"{dead}|forward|name resolution",
        ),
        inject=lines(f"sed -i 's/^forward .*/forward {dead}/' {conf}",
                     f"supervisorctl restart {stub}"),
        fix=(f"sed -i 's/^forward .*/forward {SERVER}/' {conf}", f"supervisorctl restart {stub}"),
        wrong={"restarting": ["supervisorctl restart all"]},
        stays=(porters.settings_file(api, form), zone),
        runs=("authd.py", f"{stub}.py"),
    )  # fmt: skip
