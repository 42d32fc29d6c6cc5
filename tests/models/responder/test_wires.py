"""What keeps one machine from another, as tools of the network show it, and how it is put back."""

import pytest

from hermes_agent.models.responder.rules import queues, wires
from hermes_agent.models.responder.rules.ideas import ACT
from hermes_agent.models.responder.rules.sysctls import as_declared
from hermes_agent.models.responder.rules.wires import Cut

LOOP = "1: lo: <LOOPBACK,UP> mtu 65536 state UNKNOWN\\    link/loopback 00:00:00:00:00:00 brd 0\n"
ETH = "2: eth0@if9: <BROADCAST,UP> mtu 1500 state UP\\    link/ether 02:00:00:00:00:02 brd ff:ff\n"
TO = "10.9.0.7"
MAC = "02:00:00:00:00:07"


def done(cuts: list[Cut]) -> list[tuple[str, str]]:
    return [(one.fix, one.undo) for one in cuts]


def test_a_link_with_smaller_packets_than_the_others_gets_theirs() -> None:
    small = ETH.replace("mtu 1500", "mtu 600")
    assert done(list(wires.narrowed(LOOP + small, 1500))) == [
        ("ip link set eth0 mtu 1500", "ip link set eth0 mtu 600")
    ]
    assert not list(wires.narrowed(LOOP + ETH, 1500))


def test_a_link_that_does_not_ask_who_is_where_asks_again() -> None:
    silent = ETH.replace("BROADCAST,UP", "BROADCAST,NOARP,UP")
    assert done(list(wires.narrowed(silent, 1500))) == [
        ("ip link set eth0 arp on", "ip link set eth0 arp off")
    ]


def test_a_queue_that_loses_much_is_taken_away_and_one_that_only_waits_is_not() -> None:
    loses = "qdisc netem 8001: dev eth0 root refcnt 2 limit 1000 loss 90%"
    assert done(list(queues.lossy(loses))) == [
        ("tc qdisc del dev eth0 root", "tc qdisc add dev eth0 root netem limit 1000 loss 90%")
    ]
    assert list(queues.lossy(loses.replace("loss 90%", "loss random 40%")))
    assert list(queues.lossy("qdisc blackhole 8001: dev eth0 root"))
    for well in ("loss 2%", "delay 20ms"):
        assert not list(queues.lossy(loses.replace("loss 90%", well)))
    assert not list(queues.lossy("qdisc noqueue 0: dev eth0 root refcnt 2"))


def test_rules_below_those_for_addresses_are_known_by_the_tool_that_lists_them() -> None:
    rule = f"-A INPUT -j DROP -d {TO}"
    listed = f"= arptables\n*filter\n:INPUT ACCEPT\n{rule}\n= ebtables\n-A FORWARD -j DROP\n"
    assert done(list(wires.below(listed, TO))) == [
        (f"arptables -D INPUT -j DROP -d {TO}", f"arptables {rule}"),
        ("ebtables -D FORWARD -j DROP", "ebtables -A FORWARD -j DROP"),
    ]
    assert len(list(wires.below(listed, "10.9.0.8"))) == 1


@pytest.mark.parametrize("odd", ["; rm -rf /", "$(reboot)", "`reboot`", "> /etc/passwd", "& x"])
def test_a_rule_with_letters_that_a_shell_heeds_is_left_alone(odd: str) -> None:
    row = f'-A INPUT -d {TO} -m comment --comment "x{odd}" -j DROP'
    assert not list(wires.below(f"= ebtables\n{row}", TO))
    assert not list(wires.filtered(f"*filter\n{row}", TO, 6100, far=False))


def test_of_the_rules_of_a_table_only_those_that_are_for_it_count() -> None:
    saved = (
        "*nat\n:PREROUTING ACCEPT [0:0]\n"
        f"[3:180] -A OUTPUT -d {TO}/32 -p tcp -m tcp --dport 6000:6200 -j REDIRECT --to-ports 9\n"
        "COMMIT\n*filter\n:INPUT ACCEPT [1:1]\n"
        f"[0:0] -A INPUT -s {TO}/32 -p tcp -m multiport --dports 22,80 -j DROP\n"
        f"[0:0] -A INPUT ! -s {TO} -i lo -j DROP\nCOMMIT\n"
    )
    found = list(wires.filtered(saved, TO, 6100, far=False))
    assert [one.fix.split(" -d ")[0] for one in found] == ["iptables -t nat -D OUTPUT"]
    assert "turns it away" in found[0].claim


def test_a_chain_that_is_closed_lets_through_only_what_is_asked_for() -> None:
    closed = "*filter\n:OUTPUT DROP [5:300]\nCOMMIT\n"
    rule = f"OUTPUT -d {TO} -p tcp --dport 6100 -j ACCEPT"
    assert done(list(wires.filtered(closed, TO, 6100, far=False))) == [
        (f"iptables -I {rule}", f"iptables -D {rule}")
    ]
    unused = closed.replace("[5:300]", "[0:0]")
    assert not list(wires.filtered(unused, TO, 6100, far=False))


def test_routes_and_rules_for_routes_that_lead_nowhere_are_taken_away() -> None:
    routes = f"default via 10.9.0.1 dev eth0\nblackhole {TO}\nunreachable 10.8.0.0/16\n"
    assert done(list(wires.barred(routes, [TO]))) == [
        (f"ip route del blackhole {TO}", f"ip route add blackhole {TO}")
    ]
    rules = f"0:\tfrom all lookup local\n90:\tfrom all to {TO} lookup 66\n32766:\tfrom all\n"
    assert [one.fix for one in wires.sent_off(rules, TO)] == [
        f"ip rule del pref 90 from all to {TO} lookup 66"
    ]
    assert not list(wires.sent_off(rules, "10.9.0.8"))


def test_a_narrower_route_past_the_network_in_which_it_is_leads_astray() -> None:
    text = (
        "eth0@if9 UP 10.9.0.1/24\nveth1 UP 10.7.0.1/24\n"
        f"10.9.0.0/24 dev eth0 proto kernel scope link\n{TO} dev veth1 scope link linkdown\n"
    )
    found = list(wires.elsewhere(text, f"{TO} dev veth1 src 10.7.0.1", TO))
    assert [one.fix for one in found] == [f"ip route del {TO} dev veth1 scope link"]
    assert found[0].score > next(wires.elsewhere(text, f"{TO} dev eth0", TO)).score


def test_an_interface_that_somebody_set_down_is_set_up_and_one_without_a_cable_is_not() -> None:
    text = "eth0@if9 DOWN 02:00 <BROADCAST,MULTICAST>\neth1 DOWN 02:01 <NO-CARRIER,BROADCAST,UP>\n"
    assert done(list(wires.set_down(text))) == [("ip link set eth0 up", "ip link set eth0 down")]


def test_a_neighbour_is_only_wrong_where_it_is_known_who_is_there() -> None:
    row = f"{TO} dev eth0 lladdr 02:aa:aa:aa:aa:aa STALE"
    assert not list(wires.neighbours(row, TO, []))
    assert [one.fix for one in wires.neighbours(row, TO, [MAC])] == [f"ip neigh del {TO} dev eth0"]
    right = f"{TO} dev eth0 lladdr {MAC} PERMANENT"
    assert not list(wires.neighbours(right, TO, [MAC]))


def test_a_port_of_a_bridge_that_hands_nothing_on_is_opened_and_can_be_shut_again() -> None:
    port = "3: veth0@if2: <BROADCAST,UP> mtu 1500 master br0 state {} priority 32 cost 2"
    assert done(list(wires.unjoined(port.format("disabled"), "annex", "br0"))) == [
        ("bridge link set dev veth0 state 3", "bridge link set dev veth0 state 0")
    ]
    assert not list(wires.unjoined(port.format("forwarding"), "annex", "br0"))


def test_a_machine_over_which_others_go_hands_on_again_and_others_are_left_alone() -> None:
    off, own, hops = "= routing\nnet.ipv4.ip_forward = 0", ["10.1.0.254", "10.9.0.254"], [
        "10.1.0.254", "10.9.0.254",
    ]  # fmt: skip
    assert done(list(wires.unhanded(off, own, hops, TO))) == [
        ("sysctl -w net.ipv4.ip_forward=1", "sysctl -w net.ipv4.ip_forward=0")
    ]
    assert not list(wires.unhanded(off.replace("0", "1"), own, hops, TO))
    assert not list(wires.unhanded(off, ["10.1.0.3"], hops, TO))
    assert not list(wires.unhanded(off, [*own, TO], hops, TO))


def test_who_hands_on_only_what_is_named_is_told_of_one_more_both_ways() -> None:
    [cut] = wires.shut(":FORWARD DROP [7:420]\n", TO, 6100)
    assert cut.fix.count("-I FORWARD") == cut.undo.count("-D FORWARD") == 2
    assert not list(wires.shut(":FORWARD DROP [0:0]\n", TO, 6100))
    assert not list(wires.shut(":FORWARD ACCEPT [7:420]\n", TO, 6100))


def test_a_setting_of_the_kernel_is_what_files_say_and_nobody_hides() -> None:
    near = "net.ipv4.conf.eth0.rp_filter = 1\nnet.ipv4.conf.all.arp_ignore = 8\n"
    declared = "net.ipv4.conf.eth0.rp_filter=2\nnet.core.somaxconn = 128\n"
    strict, silent = (
        "sysctl -w net.ipv4.conf.eth0.rp_filter",
        "sysctl -w net.ipv4.conf.all.arp_ignore",
    )
    assert done(list(wires.unset(near, declared))) == [
        (f"{strict}=2", f"{strict}=1"), (f"{silent}=0", f"{silent}=8"),
    ]  # fmt: skip
    assert not list(wires.unset(near.replace("= 8", "= 1"), ""))


def test_a_setting_that_a_file_of_the_machine_declares_is_taken_from_there() -> None:
    [cut] = wires.unhanded("net.ipv4.ip_forward = 0\n", ["10.1.0.254"], ["10.1.0.254"], TO)
    declared = "/etc/sysctl.d/20-net.conf:net.ipv4.ip_forward = {}\n/etc/x:net.core.rmem_max=1\n"
    assert as_declared(cut, declared.format(1)).fix == "sysctl -p /etc/sysctl.d/20-net.conf"
    assert as_declared(cut, declared.format(0)).fix == cut.fix
    assert as_declared(cut, "").fix == cut.fix


def test_a_queue_is_put_back_as_it_was_and_one_with_classes_is_shown_before() -> None:
    thin = queues.throttled(
        "qdisc tbf 8001: dev veth0 root refcnt 2 rate 2Kbit burst 1600b lat 30s"
    )
    assert thin is not None
    assert (thin.fix, thin.undo) == (
        "tc qdisc del dev veth0 root",
        "tc qdisc add dev veth0 root handle 8001: tbf rate 2Kbit burst 1600b lat 30s",
    )
    shaped = queues.throttled("qdisc htb 1: dev eth0 root refcnt 2 r2q 10 default 0x10")
    assert shaped is not None
    assert shaped.score < thin.score
    assert shaped.fix.startswith("tc class show dev eth0 && tc filter show dev eth0 && ")
    assert queues.throttled("qdisc fq_codel 0: dev eth0 root refcnt 2 limit 10240p") is None


def test_who_is_to_hand_on_nothing_by_its_files_is_told_otherwise_last() -> None:
    off, own = "net.ipv4.ip_forward = 0\n", ["10.1.0.254"]
    [cut] = wires.unhanded(off, own, own, TO)
    [meant] = wires.unhanded(off, own, own, TO, "net.ipv4.ip_forward = 0\n")
    assert meant.score < ACT < cut.score


SHARED = """\
*filter
:scan - [0:0]
[9:540] -A INPUT -p tcp -m multiport --dports 9,7100,7777 -j scan
[4:240] -A INPUT -p tcp -m tcp --dport 23 -j scan
[13:780] -A scan -m comment --comment "ticket 44" -j DROP
"""


def test_of_a_chain_for_many_only_the_way_into_it_is_shut() -> None:
    (cut,) = wires.filtered(SHARED, "10.77.0.40", 7100, far=True)
    assert cut.fix == "iptables -D INPUT -p tcp -m multiport --dports 9,7100,7777 -j scan"
    assert cut.undo == "iptables -I INPUT 1 -p tcp -m multiport --dports 9,7100,7777 -j scan"
    (cut,) = wires.filtered(SHARED.replace("--dport 23 -j", "-j"), "10.77.0.40", 7100, far=True)
    assert cut.fix.startswith("iptables -D scan ")
