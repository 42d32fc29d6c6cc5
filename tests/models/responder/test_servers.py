"""Who answers for names, and ways between machines: over what commands printed once."""

import subprocess

import pytest

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules import lookup, names, network, servers, wires
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.models.responder.test_rules_reach import best, case

HOST = "vault.site.test"
KNOWS, UNKNOWN = (f" 12 34 81 8{code} 00 01 00 0{count} 00 00 00 00\n" for code, count in
                  ((0, 1), (3, 0)))  # fmt: skip
ASKED = "==> /etc/resolv.conf <==\nnameserver 10.9.0.3\nnameserver 10.9.0.53\n"
CONF = f'{{"backend": "http://{HOST}:6100"}}'


def seen(machine: Case, *more: Seen) -> Case:
    return Case(machine.brief, [*machine.observed, *more])


def test_who_is_asked_first_and_says_nothing_is_taken_out() -> None:
    late = Seen(f"time getent hosts {HOST}", f"10.9.0.7 {HOST}\n\nreal\t0m5.013s\n")
    told = Seen(servers.DATAGRAMS, "")
    machine = seen(case("ERROR vault: deadline exceeded", CONF, {probes.NAMES: ASKED}), late, told)
    wants = [want for idea in lookup.tardy(machine) for want in idea.wants]
    assert wants == [probes.asked("10.9.0.3", HOST), probes.asked("10.9.0.53", HOST)]
    both = Seen(wants[0], "", 124), Seen(wants[1], KNOWS)
    fix = " ".join(best(lookup.tardy, seen(machine, *both)).fix)
    assert r"10\.9\.0\.3" in fix
    assert r"10\.9\.0\.53" not in fix
    neither = [Seen(want, "", 124) for want in wants]
    assert not any(idea.fix for idea in lookup.tardy(seen(machine, *neither)))


def test_a_check_that_ran_out_of_time_tells_that_somebody_is_late() -> None:
    machine = case("INFO ready", CONF, {probes.NAMES: ASKED})
    check = BriefCheck(command="curl -m 3 http://127.0.0.1:7000/up", exit=28)
    told = Brief("inc-1", "till", check, machine.brief.services)
    assert not list(lookup.tardy(machine))
    assert list(lookup.tardy(Case(told, machine.observed)))


def test_a_server_of_which_people_tell_is_asked_as_well() -> None:
    told = (BriefService("till", ("vault",)),
            BriefService("ns", about="name server at 10.9.0.54 (rack 2)"))  # fmt: skip
    machine = case("x", CONF, {probes.NAMES: ASKED})
    machine = Case(Brief("inc-1", "till", services=told), machine.observed)
    assert probes.asked("10.9.0.54", HOST) in servers.looks(machine, HOST)


def test_what_a_name_server_was_asked_for_is_missed_by_nobody() -> None:
    line = f"no such name: {HOST}"
    machine = case(line, "{}", {})
    assert names.unresolved(machine, "till") == line
    told = BriefService("till", about="answers for names: DNS")
    machine = Case(Brief("inc-1", "till", services=(told,)), machine.observed)
    assert not names.unresolved(machine, "till")


@pytest.mark.parametrize(
    ("output", "code", "known"),
    [(KNOWS, 0, True), (UNKNOWN, 0, False), ("", 124, False), ("refused: no", None, None)],
)
def test_what_a_server_says(output: str, code: int | None, known: bool | None) -> None:
    machine = seen(case("x", CONF, {}), Seen(probes.asked("10.9.0.53", HOST), output, code))
    assert servers.answers(machine, "10.9.0.53", HOST) is known


def test_a_question_is_one() -> None:
    command = probes.asked("127.0.0.1", HOST).replace("3<>/dev/udp/127.0.0.1/53", "3>&1")
    head = command.replace("head -c 12 <&3 | od -An -tx1; ", "")
    sent = subprocess.run(["bash", "-c", head], capture_output=True, check=True).stdout
    asked = b"\x05vault\x04site\x04test\x00\x00\x01\x00\x01"
    assert sent == b"\x124\x01\x00\x00\x01" + 6 * b"\x00" + asked


@pytest.mark.parametrize(
    "line",
    [
        f"{HOST} could not be resolved (110: Operation timed out)",
        f"ping: {HOST}: Name or service not known",
        f"java.net.UnknownHostException: {HOST}",
        f"error resolving {HOST}: i/o timeout",
        f"dns lookup of {HOST} failed",
    ],
)
def test_names_are_found_in_what_is_said_of_them(line: str) -> None:
    assert names.NO_NAME.search(line)
    assert HOST in names.hosts(case(line, "{}", {}), "till", line)


NODE = "/opt/bin/on-node far "
GATE = "/opt/bin/on-node gate "
ENTRY = """\
==> /etc/supervisor/conf.d/till.conf <==
[program:till]
command=python3 /opt/till/main.py /opt/till/conf/app.json

==> /etc/supervisor/conf.d/vault.conf <==
[program:vault]
command=/opt/bin/on-node far python3 /opt/vault/vault.py --listen=10.8.0.7:6100
"""
HERE = "br0 UP 10.9.0.1/24\n10.9.0.0/24 dev br0\n10.8.0.0/24 via 10.9.0.9 dev br0\n"
FAR = "eth0 UP 10.8.0.7/24\n10.8.0.0/24 dev eth0 proto kernel scope link\n"
BOTH = "lo UNKNOWN 127.0.0.1/8\neth0 UP 10.9.0.9/24 10.8.0.1/24\n10.9.0.0/24 dev eth0\n"
NEAR = "4: veth1@if2: <UP> mtu 1500 master br0\\    link/ether 52:28:65:75:59:64 link-netns gate\n"


def back(far: str) -> list[Idea]:
    def at(node: str, look: str) -> str:
        return "; ".join(f"{node}{one}" for one in look.split("; "))

    machine = case(
        "ERROR vault 10.8.0.7:6100: connect ETIMEDOUT", '{"backend": "http://10.8.0.7:6100"}',
        {probes.PROGRAMS: ENTRY, probes.LINKS: HERE, wires.NEAR: NEAR,
         at(NODE, probes.LINKS): far, at(GATE, probes.LINKS): BOTH,
         "ip route get 10.8.0.7": "10.8.0.7 via 10.9.0.9 dev br0 src 10.9.0.1"},
    )  # fmt: skip
    return [idea for idea in network.network(machine) if any("route" in fix for fix in idea.fix)]


def test_who_is_reached_and_knows_no_way_back_is_told_it() -> None:
    (idea,) = back(FAR)
    assert idea.fix == (f"{NODE}ip route replace 10.9.0.0/24 via 10.8.0.1",)
    assert idea.undo == f"{NODE}ip route del 10.9.0.0/24 via 10.8.0.1"
    assert not back(f"{FAR}10.9.0.0/24 via 10.8.0.1 dev eth0\n")
    assert not back(f"{FAR}default via 10.8.0.254 dev eth0\n")


def test_a_resolver_whose_file_leads_nowhere_gets_one_where_it_leads() -> None:
    line = f"ERROR {HOST}: Temporary failure in name resolution"
    written = "/run/resolvconf/resolv.conf\n dns-nameservers 10.9.0.53\n dns-search site.test\n"
    shown = {probes.NAMES: "", servers.WRITTEN: written, servers.DATAGRAMS: "",
             probes.asked("10.9.0.53", HOST): KNOWS}  # fmt: skip
    machine = seen(case(line, CONF, shown), Seen(probes.resolved(HOST), "", 2))
    fixes = [idea.fix for idea in names.names(machine) if idea.fix]
    assert fixes[0][1:] == (
        "mkdir -p /run/resolvconf",
        "printf 'nameserver 10.9.0.53\\nsearch site.test\\n' >> /etc/resolv.conf",
    )


def test_two_rows_of_the_file_of_names_that_are_one_are_parted() -> None:
    line = f"ERROR {HOST}: Name or service not known"
    torn = f"10.9.0.7\t{HOST}10.9.0.8  other.site.test\n"
    shown = {probes.NAMES: f"==> /etc/hosts <==\n{torn}"}
    machine = seen(case(line, CONF, shown), Seen(probes.resolved(HOST), "", 2))
    edit = best(lookup.glued, machine).fix[1].replace("/etc/hosts", "")
    text = subprocess.run(
        ["bash", "-c", edit.replace("-i ", "")], input=torn, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    assert text == f"10.9.0.7\t{HOST}\n10.9.0.8  other.site.test\n"
    whole = {probes.NAMES: f"==> /etc/hosts <==\n10.9.0.7\t{HOST}\n10.9.0.8  other.site.test\n"}
    machine = seen(case(line, CONF, whole), Seen(probes.resolved(HOST), "", 2))
    assert not list(lookup.glued(machine))


def test_a_domain_that_a_name_server_is_started_with_completes_a_name() -> None:
    told = "==> /etc/resolv.conf <==\nnameserver 10.9.0.53\nsearch old.test\n"
    shown = {probes.NAMES: told, servers.WRITTEN: "/etc/resolv.conf\n", servers.DATAGRAMS: ""}
    machine = case("ERROR vault: Name or service not known", '{"b": "http://vault:6100"}', shown)
    services = (*machine.brief.services, BriefService("ns", about="name server of site.test, here"))
    machine = Case(Brief("inc-1", "till", services=services), machine.observed)
    looked = Seen(probes.resolved("vault"), "", 2), Seen(probes.mentions("vault."), "")
    machine = seen(machine, *looked)
    [ask] = [want for idea in lookup.searched(machine) for want in idea.wants]
    assert ask == probes.asked("10.9.0.53", "vault.site.test")
    assert "search site.test" in best(lookup.searched, seen(machine, Seen(ask, KNOWS))).fix[1]
    assert not any(idea.fix for idea in lookup.searched(seen(machine, Seen(ask, UNKNOWN))))


@pytest.mark.parametrize(("here", "proof"), [(False, ""), (True, servers.knows("10.9.0.3", HOST))])
def test_who_only_goes_round_a_server_of_this_machine_has_to_prove_that_it_knows_the_name(
    here: bool, proof: str
) -> None:
    row = 'UNCONN 0 0 10.9.0.3:53 0.0.0.0:* users:(("python3",pid=8,fd=3))\n'
    said = {
        probes.NAMES: ASKED,
        servers.DATAGRAMS: row if here else "",
        servers.WRITTEN: "/etc/resolv.conf\n",
        probes.asked("10.9.0.3", HOST): UNKNOWN,
        probes.asked("10.9.0.53", HOST): KNOWS,
    }
    machine = case(f"ERROR could not resolve host: {HOST}", CONF, said)
    ideas = names._other_server(machine, "till", f"{HOST} is not resolved", HOST, ("x",))
    assert [(idea.fix[-1], idea.proof) for idea in ideas] == [
        ("sed -i '1i nameserver 10.9.0.53' /etc/resolv.conf", proof)
    ]


@pytest.mark.parametrize(("said", "code"), [(KNOWS, 0), (UNKNOWN, 1), ("", 1)])
def test_the_proof_is_an_address(said: str, code: int) -> None:
    asked = probes.asked("10.9.0.3", HOST)
    look = servers.knows("10.9.0.3", HOST).replace(asked, f"printf '{said}'")
    assert subprocess.run(["bash", "-c", look], check=False).returncode == code
