"""The network of a machine as its tools show it, and what in it keeps one machine from another: a
way to take each of them away, and to put it back."""

import ipaddress
import re
import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

NEAR = (
    "ip -o link; ip neigh; bridge link; tc qdisc show; echo = arptables; "
    "arptables-save 2>/dev/null; echo = ebtables; ebtables-save 2>/dev/null; echo = routing; "
    "sysctl -a -r '^net.ipv4.(ip_forward|conf.[^.]*.(forwarding|rp_filter|arp_ignore))$'"
)
SAVED = "iptables-save -c"
POLICY = "ip rule; ip route show table all"
ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?")
_STATE = r"(?:UP|DOWN|UNKNOWN|LOWERLAYERDOWN)"
_SAFE = re.compile(r"-A [\w./:,!\"'()=+@#|%*? -]*")
_BARRED = ("blackhole", "unreachable", "prohibit", "throw")
_STEADY = ("PERMANENT", "NOARP")


class Cut(Struct, frozen=True):
    """What is in the way."""

    claim: str
    line: str
    fix: str
    undo: str
    score: float = 0.9


class Link(Struct, frozen=True):
    name: str
    flags: tuple[str, ...]
    mtu: int
    master: str
    mac: str
    node: str
    """The network of which node is at its other end, where that is told."""
    line: str


class Rule(Struct, frozen=True):
    """A rule of a firewall."""

    table: str
    line: str
    packets: int | None = None
    """How many it was for; None where nobody counted."""


def links(near: str) -> list[Link]:
    """`ip -o link`."""
    found = []
    for line in near.splitlines():
        row = re.match(r"\d+: ([^:@\s]+)(?:@\S+)?: <([A-Z0-9_,-]*)>(.*)$", line)
        if not row or "link/" not in line:
            continue
        mtu, master = re.search(r"\bmtu (\d+)", row[3]), re.search(r"\bmaster (\S+)", row[3])
        mac, node = re.search(r"link/ether (\S+)", line), re.search(r"link-netns (\S+)", line)
        found.append(
            Link(row[1], tuple(row[2].split(",")), int(mtu[1]) if mtu else 0,
                 master[1] if master else "", mac[1] if mac else "", node[1] if node else "", line)
        )  # fmt: skip
    return found


def addresses(text: str) -> list[tuple[str, str, str]]:
    """Device, address with its length, and line of `ip -br addr`."""
    found = []
    for line in text.splitlines():
        if row := re.match(rf"([^@\s]+)(?:@\S+)?\s+{_STATE}\s+(.*)$", line):
            found += [(row[1], one, line) for one in ADDRESS.findall(row[2]) if "/" in one]
    return found


def devices(text: str) -> list[str]:
    """Those that `ip -br addr` lists, but for the one that leads nowhere."""
    rows = re.findall(rf"(?m)^([^@\s]+)(?:@\S+)?\s+{_STATE}\s", text)
    return [one for one in dict.fromkeys(rows) if one != "lo"]


def rules(text: str) -> list[Rule]:
    """`iptables-save -c`, or `iptables -S`."""
    found, table = list[Rule](), "filter"
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif row := re.match(r"(?:\[(\d+):\d+\] )?(-[AP] .*)$", line):
            found.append(Rule(table, row[2], int(row[1]) if row[1] else None))
        elif row := re.match(r":(\S+) (ACCEPT|DROP) \[(\d+):", line):
            found.append(Rule(table, f"-P {row[1]} {row[2]}", int(row[3])))
    return found


def set_down(text: str) -> Iterator[Cut]:
    """Interfaces that somebody set down; those that only have no carrier are not meant."""
    for line in text.splitlines():
        words, flags = line.split(), re.search(r"<([A-Z,_0-9-]*)>", line)
        if len(words) > 1 and words[1] == "DOWN" and flags and "UP" not in flags[1].split(","):
            own = shlex.quote(words[0].partition("@")[0])
            yield Cut(f"{own} is down", line, f"ip link set {own} up", f"ip link set {own} down")


def barred(text: str, wanted: Sequence[str]) -> Iterator[Cut]:
    """Routes that lead nowhere on purpose, to where somebody should be reached."""
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or words[0] not in _BARRED:
            continue
        if words[1] == "default" or any(covers(words[1], one) for one in wanted):
            kind, to = words[0], shlex.quote(words[1])
            yield Cut(f"a {kind} route", line, f"ip route del {kind} {to}",
                      f"ip route add {kind} {to}")  # fmt: skip


def leads(text: str, address: str) -> bool:
    """Whether any route leads to an address."""
    rows = [line.split() for line in text.splitlines() if " dev " in line or " via " in line]
    return any(row[0] == "default" or covers(row[0], address) for row in rows)


def elsewhere(text: str, chosen: str, address: str) -> Iterator[Cut]:
    """A narrower route leads away from the network in which the address is."""
    used = re.search(r"\bdev (\S+)", chosen)
    home = [device for device, own, _ in addresses(text) if covers(own, address)]
    for line in text.splitlines():
        to = line.split()[0] if line.split() else ""
        if not ADDRESS.fullmatch(to) or not covers(to, address) or "proto kernel" in line:
            continue
        device = re.search(r"\bdev (\S+)", line)
        if home and ((device and device[1] not in home) or " via " in line):
            sure = used is not None and device is not None and used[1] == device[1]
            plain = quoted(re.sub(r"\blinkdown\b|\bonlink\b", "", line))
            yield Cut(f"the route {to} leads elsewhere", line, f"ip route del {plain}",
                      f"ip route add {plain}", 0.88 if sure else 0.7)  # fmt: skip


def filtered(
    text: str, host: str, port: int, *, far: bool, others: Sequence[str] = ()
) -> Iterator[Cut]:
    """Rules of a firewall that drop or turn away what is meant for it, or what comes from `others`.
    One that was for nothing yet is hardly it; one that was for something may be it, whatever it
    goes by, unless it is the last word of a chain that lets some through: that stays."""
    every = rules(text)
    for one, target in _turning(every):
        rule = parted(one.line) if _SAFE.fullmatch(one.line) else ""
        if not rule:
            continue
        named = re.findall(r"(?<!! )-[sd] (\S+)", one.line)
        ports = re.findall(r"--[ds]ports? ([\d:,]+)", one.line)
        bound = bool(re.search(r" -[io] (?!lo\b)\S+", one.line))
        fits = not named or any(covers(each, x) for each in named for x in (host, *others))
        fits = fits and (not ports or any(_has_port(each, port) for each in ports))
        if not fits or not (named or ports or bound or one.packets):
            continue
        if not named and not ports and _is_last_word(one, every):
            continue
        score = 0.9 if named or ports else 0.72
        if one.packets is not None:
            score = (0.92 if named or ports else 0.86) if one.packets else 0.62
        option = f"-t {quoted(one.table)} " if one.table != "filter" else ""
        word = "turns it away" if target in ("DNAT", "REDIRECT") else "drops it"
        chain, at = one.line.split()[1], _of_chain(one, every).index(one) + 1
        yield Cut(f"a firewall rule {word} ({one.line})", one.line,
                  f"iptables {option}-D {rule.removeprefix('-A ')}",
                  f"iptables {option}{rule.replace(f'-A {chain}', f'-I {chain} {at}', 1)}",
                  score)  # fmt: skip
    for one in every:
        closed = re.fullmatch(r"-P (INPUT|OUTPUT) DROP", one.line)
        if one.line.startswith("-A ") and _is_last_word(one, every):
            closed = re.fullmatch(
                r"-A (INPUT|OUTPUT)(?: -[io] \S+)? -j (?:DROP|REJECT)\b.*", one.line
            )
        if closed and one.table == "filter" and port and one.packets != 0:
            chain, side = closed[1], "-d" if closed[1] == "OUTPUT" else "-s"
            theirs = [x for x in others if x != host and not x.startswith("127.")]
            whom = ",".join(theirs) if far else host
            end = "d" if far == (chain == "INPUT") else "s"
            rule = f"{chain} {f'{side} {whom} ' if whom else ''}-p tcp --{end}port {port}"
            yield Cut(f"{chain} lets through only what is named", one.line,
                      f"iptables -I {rule} -j ACCEPT", f"iptables -D {rule} -j ACCEPT",
                      0.75)  # fmt: skip


def _turning(every: Sequence[Rule]) -> Iterator[tuple[Rule, str]]:
    """Rules that turn something away, with how. Where one is for all that comes to a chain, it is
    those that send some there: others may be sent there by right."""
    for one in every:
        target = re.search(r" -j (DROP|REJECT|DNAT|REDIRECT|TARPIT)\b", one.line)
        if not target:
            continue
        chain = re.escape(one.line.split()[1])
        sent = [x for x in every if re.search(rf" -[jg] {chain}$", x.line) and x.table == one.table]
        telling = [x for x in sent if re.search(r"(?<!! )-[sd] |--[ds]ports? ", x.line)]
        plain = re.search(r" -[sd] |--[ds]ports? ", one.line) is None
        plain = plain and not _lets_some(one, every)
        for each in telling if plain and telling == sent and sent else [one]:
            yield each, target[1]


def _is_last_word(rule: Rule, every: Sequence[Rule]) -> bool:
    """Whether a rule is for all that those before it did not let through."""
    return _of_chain(rule, every)[-1] is rule and _lets_some(rule, every)


def _lets_some(rule: Rule, every: Sequence[Rule]) -> bool:
    """Whether rules before it let some through: the way into its chain is no mistake then."""
    own = _of_chain(rule, every)
    return any(re.search(r" -j (?:ACCEPT|RETURN)\b", one.line) for one in own[: own.index(rule)])


def _of_chain(rule: Rule, every: Sequence[Rule]) -> list[Rule]:
    chain = rule.line.split()[1]
    return [one for one in every if one.table == rule.table and one.line.startswith(f"-A {chain} ")]


def quoted(text: str) -> str:
    """Words as a shell takes them, each for itself."""
    return " ".join(map(shlex.quote, text.split()))


def parted(rule: str) -> str:
    """A rule as a shell takes it, with what it has in quotes; empty where it cannot be read."""
    try:
        return " ".join(map(shlex.quote, shlex.split(rule)))
    except ValueError:
        return ""


def sent_off(text: str, address: str) -> Iterator[Cut]:
    """Rules that send it to another table of routes, or nowhere."""
    for line in text.splitlines():
        row = re.match(r"(\d+):\s+(from .*)$", line)
        if not row or row[1] in ("0", "32766", "32767"):
            continue
        to = re.search(r"\bto (\S+)", row[2])
        if to is None or covers(to[1], address):
            rule = f"pref {row[1]} {quoted(row[2])}"
            yield Cut(f"a rule for routes applies ({line.strip()})", line, f"ip rule del {rule}",
                      f"ip rule add {rule}", 0.84 if to else 0.66)  # fmt: skip


def unhanded(
    near: str, own: Sequence[str], hops: Sequence[str], host: str, declared: str = ""
) -> Iterator[Cut]:
    """A machine over which others go does not hand on what is not for itself. `hops` are those
    over which the way to the host leads, the surest first. Where files say that it is to hand on
    nothing, that comes last."""
    off = re.search(r"(?m)^net\.ipv4\.ip_forward ?= ?0\s*$", near)
    hop = next((one for one in hops if one in own), "")
    meant = re.search(r"(?m)ipv4[./]ip_forward\s*=\s*0\s*$", declared)
    if off and hop and host not in own:
        setting = "sysctl -w net.ipv4.ip_forward"
        yield Cut(f"{hop}, over which it is reached, hands nothing on", off[0].strip(),
                  f"{setting}=1", f"{setting}=0",
                  0.55 if meant else 0.9 if hop == hops[0] else 0.7)  # fmt: skip


def unset(near: str, declared: str) -> Iterator[Cut]:
    """A setting of the kernel that is another than files say, or that keeps it from saying where
    it is."""
    told = {
        re.sub(r"/", ".", row[1]): row[2]
        for row in re.finditer(r"(?m)(?:^|:)\s*-?(net[./][\w./-]+)\s*=\s*(\d+)\s*$", declared)
    }
    for row in re.finditer(r"(?m)^(net\.ipv4\.[\w.-]+) ?= ?(\d+)\s*$", near):
        key, value = row[1], row[2]
        wanted = told.get(key, "0" if key.endswith(".arp_ignore") and value == "8" else value)
        if wanted != value:
            yield Cut(f"{key} is {value}, not {wanted}", row[0].strip(),
                      f"sysctl -w {key}={wanted}", f"sysctl -w {key}={value}", 0.8)  # fmt: skip


def shut(text: str, host: str, port: int) -> Iterator[Cut]:
    """A machine in between hands on only what is named."""
    closed = [one for one in rules(text) if one.line == "-P FORWARD DROP" and one.packets]
    if closed and port:
        both = (
            f"FORWARD -d {host} -p tcp --dport {port}",
            f"FORWARD -s {host} -p tcp --sport {port}",
        )
        yield Cut("FORWARD lets through only what is named", closed[0].line,
                  " && ".join(f"iptables -I {one} -j ACCEPT" for one in both),
                  " && ".join(f"iptables -D {one} -j ACCEPT" for one in both), 0.75)  # fmt: skip


def neighbours(near: str, address: str, macs: Sequence[str]) -> Iterator[Cut]:
    """It is looked for at a machine that somebody wrote down, and that is another one. `macs` are
    those of machines that were looked at."""
    for line in near.splitlines():
        row = re.match(r"(\S+) dev (\S+) lladdr (\S+)\s+.*?([A-Z]+)\s*$", line)
        if not row or row[1] != address:
            continue
        wrong = row[3] not in macs
        if row[4] not in _STEADY and not (wrong and macs):
            continue
        if row[4] in _STEADY and not wrong:
            continue
        yield Cut(
            f"{address} is looked for at {row[3]}", line,
            f"ip neigh del {address} dev {quoted(row[2])}",
            f"ip neigh replace {address} lladdr {quoted(row[3])} nud permanent "
            f"dev {quoted(row[2])}",
            0.92 if row[4] in _STEADY else 0.7,
        )  # fmt: skip


def doubled(text: str, address: str) -> Iterator[Cut]:
    """An address of another machine was given to this one, so that nothing leaves it."""
    for device, own, line in addresses(text):
        if own.partition("/")[0] == address:
            yield Cut(
                f"{address}, which is another machine's, is on {device} here, too", line,
                f"ip addr del {own} dev {quoted(device)}",
                f"ip addr add {own} dev {quoted(device)}", 0.9,
            )  # fmt: skip


def unjoined(near: str, node: str, bridge: str) -> Iterator[Cut]:
    """A link to a node that is in no bridge while others are, or does not hand anything on."""
    every = links(near)
    bridges = [one.master for one in every if one.master] + [bridge] * bool(bridge)
    for one in every:
        if one.master or not one.node or not bridges or node not in ("", one.node):
            continue
        name, into = shlex.quote(one.name), bridges[0]
        yield Cut(f"{one.name} is not in {into}", one.line,
                  f"ip link set {name} master {quoted(into)}",
                  f"ip link set {name} nomaster", 0.88)  # fmt: skip
    for line in near.splitlines():
        row = re.match(r"\d+: ([^:@\s]+)\S*: <.*\bstate (disabled|blocking|listening)\b", line)
        if row and " master " in line:
            name = shlex.quote(row[1])
            yield Cut(f"{row[1]} hands nothing on ({row[2]})", line,
                      f"bridge link set dev {name} state 3",
                      f"bridge link set dev {name} state 0", 0.88)  # fmt: skip


def narrowed(near: str, usual: int) -> Iterator[Cut]:
    """A link takes only smaller packets than the others do, or does not ask who is where."""
    for one in links(near):
        if "LOOPBACK" in one.flags or not one.mac:
            continue
        name = shlex.quote(one.name)
        if 0 < one.mtu < usual:
            yield Cut(f"{one.name} takes packets of {one.mtu} bytes, others of {usual}", one.line,
                      f"ip link set {name} mtu {usual}", f"ip link set {name} mtu {one.mtu}",
                      0.78)  # fmt: skip
        if "NOARP" in one.flags:
            yield Cut(f"{one.name} does not ask who is where", one.line,
                      f"ip link set {name} arp on", f"ip link set {name} arp off",
                      0.84)  # fmt: skip


def below(near: str, address: str) -> Iterator[Cut]:
    """Rules below those for addresses: who may ask who is where, and what a bridge hands on."""
    tool = ""
    for line in near.splitlines():
        if line.startswith("= "):
            tool = line[2:].strip()
        row = re.search(r"(?:\[\d+:\d+\] )?(-A .*-j (?:DROP|REJECT).*)$", line)
        if not row or not tool or not _SAFE.fullmatch(row[1]):
            continue
        named = ADDRESS.findall(row[1])
        if named and not any(covers(one, address) for one in named):
            continue
        rule, plain = row[1].strip(), parted(row[1])
        if plain and tool in ("arptables", "ebtables"):
            yield Cut(f"a rule of {tool} drops it ({rule})", rule, f"{tool} -D {plain[3:]}",
                      f"{tool} {plain}", 0.88)  # fmt: skip


def covers(network: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _has_port(text: str, port: int) -> bool:
    for part in text.split(","):
        low, _, high = part.partition(":")
        if low.isdigit() and int(low) <= port <= int(high if high.isdigit() else low):
            return True
    return False
