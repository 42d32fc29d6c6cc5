"""Names that are not found any more, on machines of other people."""

from msgspec.structs import replace

from hermes_agent.incidents.drills import tiers, vhosts, webshop
from hermes_agent.incidents.drills.box import PYTHON
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Program, Truth

ORDER = "/etc/nsswitch.conf"
KNOT = "/opt/knot/libexec/knotd.py"
REST = (
    "networks:       files\n\nprotocols:      db files\nservices:       db files\n"
    "ethers:         db files\nrpc:            db files\n\nnetgroup:       nis\n"
)


COREDNS = """import os, re, signal, socket, sys

port = 53


def read(*_):
    global bound, further, as_of
    as_of = os.path.getmtime(sys.argv[2])
    text = re.sub("#.*", "", open(sys.argv[2]).read())
    bound, further = (re.search(word, text)[1] for word in (r"bind (\\S+)", r"forward \\. (\\S+)"))
    print(f"[INFO] plugin/reload: Running configuration of {sys.argv[2]}", flush=True)


read()
signal.signal(signal.SIGUSR1, read)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((bound, port))
print(f".:{port} on {bound}\\nCoreDNS-1.11.1", flush=True)
while True:
    packet, sender = server.recvfrom(512)
    if os.path.getmtime(sys.argv[2]) != as_of:
        read()
    name, at = "", 12
    while packet[at]:
        name += packet[at + 1:at + 1 + packet[at]].decode("ascii", "replace") + "."
        at += 1 + packet[at]
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.settimeout(0.4)
    try:
        asked.connect((further, port))
        asked.send(packet)
        server.sendto(asked.recv(512), sender)
    except OSError as error:
        way = f"udp {asked.getsockname()[0]}->{further}:{port}"
        print(f"[ERROR] plugin/errors: 2 {name} A: read {way}: {error.strerror}", flush=True)
        server.sendto(packet[:2] + bytes((0x81, 0x82)) + packet[4:], sender)
    asked.close()
"""
ASK = """import socket, sys
name = b"".join(bytes([len(one)]) + one.encode() for one in sys.argv[2].split("."))
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wire.settimeout(1)
wire.sendto(b"ab\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + name + b"\\0\\0\\1\\0\\1", (sys.argv[1], 53))
print(socket.inet_ntoa(wire.recv(512)[-4:]))
"""
"""Asks a name server for a name."""


def _order(head: str, hosts: str) -> str:
    users = "passwd:         files\ngroup:          files\nshadow:         files\n"
    return f"# /etc/nsswitch.conf\n{head}\n{users}\nhosts:          {hosts}\n{REST}"


def _knot(address: str, origin: str, records: str) -> tuple[tiers.Part, str]:
    """The name server of a zone, and where the zone is."""
    zone = f"/var/lib/knot/{origin}.zone"
    text = f"$ORIGIN {origin}.\n$TTL 600\n@ IN SOA ns hostmaster 2026083101 7200\n{records}"
    return tiers.Part(
        Program(
            name="knotd",
            command=f"python3 {KNOT} {address} {origin} {zone}",
            about=f"authoritative for {origin} at {address}; {zone}",
        ),
        {KNOT: File(tiers.program_text("zones.py"), age=tiers.MONTH),
         zone: File(text, age=tiers.MONTH)},
    ), zone  # fmt: skip


def _at(name: str, address: str, port: int) -> dict[str, dict[str, object]]:
    own = {"name": name, "listen": f"{address}:{port}", "error_log": vhosts.log_of(name)}
    return {"site": dict(own)}


def _unasked(probe: Probe) -> str:
    """Why the name server is never asked; empty when it is."""
    rows = [line for line in probe.text(ORDER).splitlines() if line.startswith("hosts:")]
    return f"dns is not in {rows[0]!r}" if rows and "dns" not in rows[0].split() else ""


def fresh_baseline(pick: Pick) -> Scene:
    """As `lookup-order`: a baseline for servers wrote the whole file anew, with a module for the
    machine's own name in the place of dns; customers' sites with INI files, a zone as BIND has it
    and two names, of which one is an alias."""
    (front, store, second, other), ports, host = pick.services(4), pick.ports(4), pick.host()
    port, inner, second_port, other_port = ports
    origin = pick.choice(("hosting.lan", "rz2.internal", "customers.lan"))
    server, address = (f"127.{n}.{pick.size(1, 200)}.{pick.size(2, 250)}" for n in (41, 87))
    names = f"{store}.{origin}", f"{pick.choice(('content', 'origin', 'cms'))}.{origin}"
    alias = names[1].partition(".")[0]
    knot, zone = _knot(
        server, origin, f"ns IN A {server}\n{store} IN A {address}\n{alias} IN CNAME {store}\n"
    )
    remotes = [{"kind": "remote", "url": f"http://{name}:{inner}"} for name in names]
    kept, log = vhosts.pages(store, pick), "/var/log/baseline.log"
    world = tiers.joined(
        [knot, vhosts.site(front, port, remotes[0], needs=(store, "knotd")),
         vhosts.site(second, second_port, remotes[1], needs=(store, "knotd")),
         vhosts.site(store, inner, None, _at(store, address, inner),
                     ready=f"file:{vhosts.log_of(store)}"),
         vhosts.site(other, other_port)],
        files={
            **kept, **vhosts.months_ago(front, pick), **vhosts.months_ago(other, pick),
            ORDER: File(_order("# see nsswitch.conf(5)", "files dns"), age=tiers.MONTH),
            "/etc/resolv.conf": File(f"search {origin}\nnameserver {server}\n", age=tiers.MONTH),
        },
        hosts={f"scanner.{origin}": "127.0.0.88"},
        hostname=host,
    )  # fmt: skip
    new = _order(f"# baseline {pick.version()}, local changes are lost", "files myhostname")
    did = {14: "common: motd changed, sshd ok, nsswitch changed", 13: "common: chrony ok",
           12: f"play ends: {host} ok=9 changed=2 failed=0"}  # fmt: skip
    return Scene(
        world=world,
        check=vhosts.sound(front, port),
        healthy=lambda probe: said(vhosts.writes(probe, port, second_port), _unasked(probe)),
        truth=Truth(
            (host, "resolver", "dns", "nsswitch", "nsswitch.conf", "baseline", "glibc", front,
             second),
            ("dns-failure", "bad-config"), rf"nsswitch|{names[0]}|{names[1]}",
            rf"nsswitch|hosts:\s+files|myhostname|{names[0]}|{names[1]}|name resolution|not known",
        ),
        inject=lines(f"cat > {ORDER} <<'END'\n{new}END\n", *tiers.old_lines(log, did)),
        fix=(f"sed -i 's/^hosts:.*/hosts: files dns myhostname/' {ORDER}",),
        wrong={
            "restarting": ["supervisorctl restart all; sleep 0.5"],
            "one of the names goes into the hosts file": [
                f"printf '{address}\\t{names[0]}\\n' >> /etc/hosts",
            ],
            "addresses in the settings": [
                f"sed -i 's/{name}/{address}/' {vhosts.conf_of(site)}"
                for name, site in zip(names, (front, second), strict=True)
            ] + [f"supervisorctl restart {front} {second}; sleep 0.5"],
        },
        stays=(*kept, zone, *map(vhosts.conf_of, (front, store, second, other))),
        runs=("knotd.py",),
        harm=lambda probe: said(vhosts.writes(probe, other_port)),
    )  # fmt: skip


def _resolver(address: str, server: str) -> tuple[tiers.Part, str]:
    """What this machine asks for names, and where it is told whom to ask."""
    code, conf = "/opt/coredns/coredns.py", "/etc/coredns/Corefile"
    text = (
        f".:53 {{\n    bind {address}\n    errors\n    cache 30\n    reload\n"
        f"    forward . {server}\n}}\n"
    )
    return tiers.Part(
        Program(name="coredns", command=f"python3 {code} -conf {conf}",
                needs=("knotd",), about=f"names for this machine, at {address}; {conf}"),
        {code: File(COREDNS, age=tiers.MONTH), conf: File(text, age=tiers.MONTH)},
    ), conf  # fmt: skip


def moved_authority(pick: Pick) -> Scene:
    """As `lost-forwarder`: who has the zone moved, and CoreDNS still asks where it was; a Corefile,
    a configuration of Knot, a zone as BIND has it, and apps of a web shop with .env files."""
    (front, store, other), (port, inner, other_port) = pick.services(3), pick.ports(3)
    origin, host = pick.choice(("shop.lan", "dc4.internal", "store.home.arpa")), pick.host()
    stub, old, new, address = (
        f"127.{n}.{pick.size(1, 200)}.{pick.size(2, 250)}" for n in (53, 60, 71, 90)
    )
    name, settings, start = f"{store}.{origin}", "/etc/knot/knot.conf", "/opt/knot/sbin/knotd"
    knot, zone = _knot(old, origin, f"ns IN A {old}\n{store} IN A {address}\n")
    about = f"has the zone {origin}; {settings}, {zone}"
    knot = replace(knot, program=replace(knot.program, command=start, about=about))
    text = f"#!/bin/sh\nlisten=$(sed -n 's/^ *listen: *//p' {settings})\n"
    resolver, conf = _resolver(stub, old)
    kept, back = webshop.records(store, pick), {"BACKEND_URL": f"http://{name}:{inner}"}
    world = tiers.joined(
        [knot, resolver, webshop.app(front, port, back, needs=(store, "coredns")),
         webshop.app(store, inner, address=address), webshop.app(other, other_port)],
        files={
            **kept, **webshop.weeks_ago(front, pick), **webshop.weeks_ago(other, pick),
            start: File(f"{text}exec python3 {KNOT} $listen {origin} {zone}\n", mode=0o755,
                        age=tiers.MONTH),
            settings: File(f"server:\n    identity: {host}\n    listen: {old}\n\nzone:\n"
                           f"  - domain: {origin}\n    file: {zone}\n", age=tiers.MONTH),
            "/etc/resolv.conf": File(f"nameserver {stub}\noptions timeout:2 attempts:1\n",
                                     age=tiers.MONTH),
        },
        hostname=host,
    )  # fmt: skip
    did = {17: f"knotd: listens at {new} from now on, {old} goes to the telephones"}

    def healthy(probe: Probe) -> list[str]:
        found = probe.run([PYTHON, "-c", ASK, stub, name]).stdout.strip()
        return said(
            webshop.serves(probe, port), "" if found == address else f"{name} at {stub}: {found}"
        )

    return Scene(
        world=world,
        check=webshop.up(front, port),
        healthy=healthy,
        truth=Truth(
            ("coredns", "dns", "resolver", "knotd", host), ("dns-failure", "bad-config"),
            rf"{conf}|Corefile|coredns|{old}|{new}|forward", rf"{old}|{new}|forward \.|coredns",
        ),
        inject=lines(f"sed -i 's/listen: .*/listen: {new}/' {settings}",
                     f"sed -i 's/{old}/{new}/' {zone}", "supervisorctl restart knotd",
                     *tiers.old_lines("/var/log/operators.log", did)),
        fix=(f"sed -i 's/forward . .*/forward . {new}/' {conf}", "supervisorctl restart coredns"),
        wrong={
            "restarting": ["supervisorctl restart all; sleep 0.5"],
            "an address in the settings": [
                f"sed -i 's/{name}/{address}/' {webshop.env_of(front)}",
                f"supervisorctl restart {front}; sleep 0.5"],
            "a line in the hosts file": [f"printf '{address}\\t{name}\\n' >> /etc/hosts"],
        },
        stays=(*kept, *map(webshop.env_of, (front, store, other))),
        runs=("knotd.py", "coredns.py"),
        harm=lambda probe: said(webshop.serves(probe, other_port)),
    )  # fmt: skip
