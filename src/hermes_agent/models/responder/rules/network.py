"""Two machines that do not reach each other: links, routes, rules and queues, here and there."""

import ipaddress
import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from hermes_agent.models.responder.rules import queues, wires
from hermes_agent.models.responder.rules.ideas import ACT, Idea, lines
from hermes_agent.models.responder.rules.sysctls import DECLARED, as_declared
from hermes_agent.models.responder.rules.wires import Cut, covers
from hermes_agent.models.responder.view import needed, probes
from hermes_agent.models.responder.view.case import Case

_CUT_OFF = re.compile(
    r"no route to host|network is unreachable|host is down|timed? ?out|unreachable|"
    r"connect\w* (?:was )?(?:refused|reset)|\[Errno 1[01]\d\]|\[Errno 22\]|invalid argument|"
    r"ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|i/o timeout|deadline|not permitted|"
    r"could not connect|cannot connect|can't connect|failed to connect|\b50[234]\b",
    re.IGNORECASE,
)
_SLOW = re.compile(r"timed? ?out|too slow|slow|deadline|took \d|latency", re.IGNORECASE)
_TOLD = re.compile(r"addr|inet|ip=|ip:|\bip\b|local", re.IGNORECASE)
QUEUES = "tc qdisc show"
SURE = 0.8
"""From which score on what is in the way is not looked for any further."""
MOST = 4
"""How many may be in the way at once."""
PREVENT = ("change firewalls and routes by review only", "probe paths between machines")


class Place(Struct, frozen=True):
    """A machine whose network can be looked at, and what was seen there."""

    at: str
    """What commands begin with that run there; empty for this one."""
    links: str
    near: str
    saved: str
    policy: str

    @property
    def node(self) -> str:
        return self.at.split()[-1] if self.at else ""

    @property
    def own(self) -> list[str]:
        """Its addresses."""
        return [one.partition("/")[0] for _, one, _ in wires.addresses(self.links)]


def network(case: Case) -> Iterator[Idea]:
    """Two machines do not reach each other."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _CUT_OFF.search(x)), "")
        if not spoken and service == case.brief.service and _CUT_OFF.search(case.symptom):
            spoken = case.symptom
        far = _far(case, service) if spoken else []
        for one in far:
            if one.port or not any(each.host == one.host and each.port for each in far):
                yield from _between(case, service, one, spoken)


def _far(case: Case, service: str) -> list[needed.Target]:
    """What it reaches for on other machines, by address or by a name that leads to one."""
    found = []
    for one in needed.targets(case, service):
        answer = case.look(probes.resolved(one.host)) if one.named else None
        led = answer.output.split(maxsplit=1)[:1] if answer is not None and answer.ok else []
        there = needed.Target(led[0], one.port, one.url) if led else one
        found += [there] if there.far else []
    return list(dict.fromkeys(found))


def _between(case: Case, service: str, to: needed.Target, spoken: str) -> Iterator[Idea]:
    """What stands in the way, here and on other nodes that can be looked at from here."""
    at_all = ("", *_nodes(case))
    looks = (probes.LINKS, wires.NEAR, wires.SAVED)
    everywhere = [_at(at, look) for at in at_all for look in looks]
    wants = case.missing([*everywhere, _route(to.host), DECLARED])
    places = [_place(case, at) for at in at_all]
    found = [(place, cut) for place in places for cut in _cuts(case, place, places, to)]
    for place, cut in found:
        yield Idea(
            "network-partition", service,
            f"{service} does not reach {to.where}: {cut.claim}", cut.score,
            f"{to.where}: {cut.line.strip()}", lines(cut.line, spoken), wants,
            _each(place, cut.fix), "; ".join(_each(place, cut.undo)), PREVENT,
        )  # fmt: skip
    every = {_each(place, cut.fix): (place, cut) for place, cut in found if cut.score >= ACT}
    if 1 < len(every) <= MOST:
        each = [cut for _, cut in every.values()]
        undo = "; ".join(one for place, cut in every.values() for one in _each(place, cut.undo))
        yield Idea(
            "network-partition", service,
            f"{service} does not reach {to.where}: {', and '.join(cut.claim for cut in each)}",
            min(cut.score for cut in each) - 0.02, f"{to.where}: {each[0].line.strip()}",
            lines(*(cut.line for cut in each), spoken), wants,
            tuple(one for fix in every for one in fix), undo, PREVENT,
        )  # fmt: skip
    if not any(cut.score >= SURE for _, cut in found):
        more = case.missing([*(_at(at, wires.POLICY) for at in at_all), _written(to.host)])
        yield Idea(
            "network-partition", service, f"{service} does not reach {to.where}",
            0.6 if wants or more else 0.5, to.where, lines(spoken), wants or more,
        )  # fmt: skip


def _each(place: Place, commands: str) -> tuple[str, ...]:
    """Commands that belong together, as they are run at a place."""
    return tuple(f"{place.at}{one}" for one in commands.split(" && "))


def _place(case: Case, at: str) -> Place:
    looks = (probes.LINKS, wires.NEAR, wires.SAVED, wires.POLICY)
    links, near, saved, policy = (case.text(_at(at, look)) for look in looks)
    return Place(at, links, near, saved or case.text(_at(at, probes.RULES)), policy)


def _cuts(case: Case, place: Place, places: list[Place], to: needed.Target) -> Iterator[Cut]:
    far, others = bool(place.at), [one for one in places if one is not place]
    wanted = [to.host] if not far else [one for each in others for one in each.own]
    yield from wires.set_down(place.links)
    yield from wires.barred(place.links, wanted)
    for address in dict.fromkeys(wanted):
        chosen = case.text(_route(address)) if not far else ""
        yield from wires.elsewhere(place.links, chosen, address)
    every = [one for each in places for one in each.own]
    yield from wires.filtered(place.saved, to.host, to.port, far=far, others=every if far else ())
    yield from wires.sent_off(place.policy, to.host)
    macs = [link.mac for one in others for link in wires.links(one.near) if link.mac]
    for address in dict.fromkeys(wanted):
        yield from wires.neighbours(place.near, address, macs)
        yield from wires.below(place.near, address)
        if any(address in one.own for one in others) and not address.startswith("127."):
            yield from wires.doubled(place.links, address)
    home = next((d for d, own, _ in wires.addresses(place.links) if covers(own, to.host)), "")
    yield from wires.unjoined(place.near, "", home)
    usual = max((x.mtu for one in places for x in wires.links(one.near) if x.mac), default=0)
    yield from wires.narrowed(place.near, usual)
    yield from queues.lossy(place.near)
    hops = re.findall(r"\bvia (\S+)", "\n".join([case.text(_route(to.host)), *_ways(places)]))
    declared = case.text(DECLARED)
    handed = re.sub(r"(?m)^.*ip_forward.*$", "", place.near)
    kernel = [*wires.unhanded(place.near, place.own, hops, to.host, declared),
              *wires.unset(handed, declared)]  # fmt: skip
    yield from kernel if far else (as_declared(cut, declared) for cut in kernel)
    if any(one in hops for one in place.own) and _is_told(case, to):
        yield from wires.shut(place.saved, to.host, to.port)
    yield from _unaddressed(case, place, others, to)
    yield from _unrouted(case, place, others, to)


def _is_told(case: Case, to: needed.Target) -> bool:
    """Whether settings name a machine: what a log says opens no way through a firewall."""
    told = [f"{case.settings(name)} {case.command(name)}" for name in case.services]
    return any(re.search(rf"(?<![\d.]){re.escape(to.host)}(?![\d.])", one) for one in told)


def _ways(places: list[Place]) -> list[str]:
    return [line for one in places for line in one.links.splitlines() if " via " in line]


def _unaddressed(case: Case, place: Place, others: list[Place], to: needed.Target) -> Iterator[Cut]:
    """A machine without the address by which others know it, or with one that is all alone."""
    free = wires.devices(place.links)
    taken = [device for device, _, _ in wires.addresses(place.links)]
    if place.at:
        known = _should_have(case, place, others, to)
    else:
        if any(covers(own, to.host) for _, own, _ in wires.addresses(place.links)):
            return
        known = _known_as(case, place, others, to)
    macs = {one.mac: one.name for one in wires.links(place.near)}
    seen = [row for one in others for row in _seen_at(one.near)]
    ports = wires.links(place.near)
    masters = [one.master for one in ports if one.master]
    bare = [one for one in free if one not in taken] if taken != free else free
    likely = [one for one in masters if one in bare]
    likely += [one for one in bare if one not in _joined(place)] or free
    for address, length, line in known:
        told = next((macs[mac] for host, mac in seen if host == address and mac in macs), "")
        told = next(
            (x.master for x in wires.links(place.near) if x.name == told and x.master), told
        )
        device = likely[0] if likely else told
        if not device:
            continue
        whole = f"{address}/{length}"
        yield Cut(
            f"{device} has not the address {whole}", line,
            f"ip addr add {whole} dev {wires.quoted(device)}",
            f"ip addr del {whole} dev {wires.quoted(device)}", 0.88 if told or place.at else 0.84,
        )  # fmt: skip


def _should_have(
    case: Case, place: Place, others: list[Place], to: needed.Target
) -> list[tuple[str, str, str]]:
    """The address of a node that others look for there: it is gone, or its network is so narrow
    that they are not in it."""
    length = _length(others, to.host)
    if any(to.host in one.own for one in others) or not _lives(case, place, to) or not length:
        return []
    rows = [(own, line) for _, own, line in wires.addresses(place.links) if own[:4] != "127."]
    held = [own for own, _ in rows if own.startswith(f"{to.host}/")]
    theirs = [one for each in others for one in each.own if covers(f"{to.host}/{length}", one)]
    if held and all(any(covers(own, one) for own, _ in rows) for one in theirs):
        return []
    bare = next((x for x in place.links.splitlines() if not x.startswith("lo ")), "")
    return [(to.host, length, rows[0][1] if rows else bare)]


def _known_as(
    case: Case, place: Place, others: list[Place], to: needed.Target
) -> list[tuple[str, str, str]]:
    """Addresses that this machine should have in the network of another: with their length, and
    where that is told. Others remember it, a file has it, or it has it with too short a length."""
    length = next((own for one in others for _, own, _ in wires.addresses(one.links)
                   if own.startswith(f"{to.host}/")), "/24").partition("/")[2]  # fmt: skip
    wide = f"{to.host}/{length}"
    theirs = {each for one in others for each in one.own} | {to.host}
    found = [
        (own.partition("/")[0], length, line)
        for _, own, line in wires.addresses(place.links)
        if covers(wide, own.partition("/")[0])
    ]
    macs = {one.mac for one in wires.links(place.near) if one.mac}
    for one in others:
        for line in one.near.splitlines():
            row = re.match(r"(\S+) dev \S+ lladdr (\S+)", line)
            if row and row[2] in macs and covers(wide, row[1]):
                found.append((row[1], length, line))
    for _, text in _rows(case.text(_written(to.host))):
        if text.lstrip().startswith("#") or not _TOLD.search(text) or " via " in text:
            continue
        for one in wires.ADDRESS.findall(text.partition("#")[0]):
            address, _, own = one.partition("/")
            if address not in theirs and covers(wide, address) and not address.endswith(".0"):
                found.append((address, own or length, text))
    return list({one[0]: one for one in reversed(found)}.values())[::-1]


def _unrouted(case: Case, place: Place, others: list[Place], to: needed.Target) -> Iterator[Cut]:
    """A way there, or the way back, that is not there or leads through another machine: it is
    written down, or a machine between the two is known."""
    own = [one for _, one, _ in wires.addresses(place.links)]
    for address in _reached(case, place, others, to):
        if any(covers(one, address) for one in own):
            continue
        ways = [(net, hop, line, 0.84) for net, hop, line in _told_ways(case, to, address)]
        if not wires.leads(place.links, address):
            ways += [(*way, 0.82) for way in _handing(others, own, address)]
        for network, hop, line, score in ways:
            held = [row for row in place.links.splitlines() if row.startswith(f"{network} ")]
            if any(f"via {hop} " in f"{row} " for row in held):
                continue
            if not any(covers(one, hop) for one in own):
                continue
            before = wires.quoted(held[0]) if held else ""
            yield Cut(
                f"the way to {network} does not lead over {hop}"
                + (f" on {place.node}" if place.at else ""), line.strip(),
                f"ip route replace {network} via {hop}",
                f"ip route replace {before}" if before else f"ip route del {network} via {hop}",
                score,
            )  # fmt: skip


def _reached(case: Case, place: Place, others: list[Place], to: needed.Target) -> list[str]:
    """Whom a machine must reach: here what is asked, there whoever asks, in between both."""
    if not place.at:
        return [to.host]
    here = next((one for one in others if not one.at), place)
    chosen = case.text(_route(to.host))
    told = re.search(r"\bsrc (\S+)", chosen)
    asking = [told[1]] if told else [one for one in here.own if not one.startswith("127.")]
    if to.host in place.own:
        return asking
    hops = re.findall(r"\bvia (\S+)", f"{chosen}\n{here.links}")
    return [to.host, *asking] if set(hops) & set(place.own) else []


def _told_ways(case: Case, to: needed.Target, address: str) -> Iterator[tuple[str, str, str]]:
    """Ways to an address that files tell of."""
    for path, text in _rows(case.text(_written(to.host))):
        if path.startswith("/home/"):
            continue  # whoever lives there does not say which way all goes
        plain = text.partition("#")[0]
        row = re.search(r"(\d[\d.]+/\d+|\bdefault)\b.*?\b(?:via|gw|gateway)\W+(\d[\d.]+)", plain)
        if row and (row[1] == "default" or covers(row[1], address)):
            yield row[1], row[2], text


def _handing(others: list[Place], own: list[str], address: str) -> Iterator[tuple[str, str, str]]:
    """Machines with an address beside one of these, and one in the network of another."""
    for one in others:
        every = [(each, line) for _, each, line in wires.addresses(one.links)]
        near = [
            plain
            for each, _ in every
            if (plain := each.partition("/")[0])[:4] != "127."
            and any(covers(x, plain) for x in own)
        ]
        there = [(each, line) for each, line in every if covers(each, address)]
        if near and there and len(every) > 2 and address not in one.own:
            network = str(ipaddress.ip_network(there[0][0], strict=False))
            yield network, near[0], there[0][1]


def _lives(case: Case, place: Place, to: needed.Target) -> bool:
    """Whether who should answer there runs on this node."""
    mine = [name for name in case.services if needed.node_of(case, name) == place.at]
    told = [f"{case.settings(name)} {case.command(name)}" for name in mine]
    return any(to.port in case.ports(name) for name in mine) or any(to.host in x for x in told)


def _length(others: list[Place], address: str) -> str:
    every = [own for one in others for _, own, _ in wires.addresses(one.links)]
    return next((own.partition("/")[2] for own in every if covers(own, address)), "")


def _joined(place: Place) -> list[str]:
    """Devices that are ports of a bridge: those have no address."""
    return [one.name for one in wires.links(place.near) if one.master]


def _seen_at(near: str) -> list[tuple[str, str]]:
    return re.findall(r"(?m)^(\S+) dev \S+ lladdr (\S+)", near)


def _written(address: str) -> str:
    """Where files tell of the network in which an address is."""
    return probes.mentions(f"{address.rpartition('.')[0]}.")


def _rows(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if row := re.match(r"(/[^:]+):\d+:(.*)$", line):
            yield row[1], row[2]


def thin(case: Case) -> Iterator[Idea]:
    """A link that lets hardly anything through."""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _SLOW.search(x)), "")
        every = [one for one in needed.targets(case, service) if one.port]
        far = [one for one in every if one.far] or every
        if not spoken or not far:
            continue
        for at in ("", *_nodes(case)):
            wants, where = case.missing((f"{at}{QUEUES}",)), far[0].where
            if wants:
                yield Idea("slow-dependency", service, f"the link to {where} may be thin", 0.5,
                           where, lines(spoken), wants)  # fmt: skip
            for line in case.text(f"{at}{QUEUES}").splitlines():
                cut = queues.throttled(line)
                if cut is not None and (far[0].far or " dev lo " in line):
                    ends = {needed.node_of(case, name) for name in case.definitions}
                    between = at not in ("", *ends)  # what goes over it may be for many
                    yield Idea(
                        "slow-dependency", "network", cut.claim,
                        min(cut.score, 0.66) if between else cut.score, f"to {where}: {line}",
                        lines(line, spoken), (), _each(_place(case, at), cut.fix),
                        f"{at}{cut.undo}", ("change queues of links by review only",),
                    )  # fmt: skip


def _nodes(case: Case) -> list[str]:
    """What commands begin with that run in the network of another node."""
    found = [one for name in case.definitions if (one := needed.node_of(case, name))]
    into = re.sub(r"\S+ $", "", found[0]) if found else "ip netns exec "
    seen = [one.node for one in wires.links(case.text(wires.NEAR)) if one.node]
    found += [f"{into}{shlex.quote(name)} " for name in seen]
    return list(dict.fromkeys(found))


def _at(node: str, commands: str) -> str:
    """Commands as they are run on a node, each of them."""
    return "; ".join(f"{node}{one}" for one in commands.split("; "))


def _route(address: str) -> str:
    return f"ip route get {address}"


RULES = (network, thin)
