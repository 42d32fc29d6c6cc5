"""Rules for what is between two machines, and for what a database does with statements, over what
commands printed."""

from hermes_agent.models.responder.brief import Brief, BriefCheck
from hermes_agent.models.responder.rules import (
    cascade,
    database,
    lookup,
    network,
    pool,
    postgres,
    statement,
    wires,
)
from hermes_agent.models.responder.view import needed, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.models.responder.test_rules_reach import ENTRIES, best, case

TO = '{"backend": "http://10.9.0.7:6100"}'
CUT = "ERROR connect to 10.9.0.7:6100: No route to host"
HERE = "lo UNKNOWN 127.0.0.1/8\nbr0 UP 10.9.0.1/24 fe80::1/64\n"
BRIDGE = "2: br0: <BROADCAST,UP> mtu 1500 state UP\\    link/ether 02:00:00:00:00:01 brd ff:ff\n"
PORT = (
    "3: veth0@if2: <BROADCAST,UP> mtu 1500 master br0 state UP\\    link/ether 02:00:00:00:00:03 "
    "brd ff:ff link-netns annex\n"
)


def on_node(machine: Case, **looks: str) -> Case:
    """The same, with `vault` on a node of its own."""
    entries = ENTRIES.replace(
        "command=python3 /opt/vault", "command=on-node annex python3 /opt/vault"
    )
    far = {"LINKS": probes.LINKS, "NEAR": wires.NEAR, "SAVED": wires.SAVED}
    more = [Seen(probes.PROGRAMS, entries.replace("127.0.0.1:6100", "10.9.0.7:6100"))]
    for name, text in looks.items():
        command = "; ".join(f"on-node annex {one}" for one in far[name].split("; "))
        more.append(Seen(command, text))
    return Case(machine.brief, [*machine.observed, *more])


def test_a_neighbour_that_somebody_wrote_down_wrongly_is_forgotten() -> None:
    near = "10.9.0.7 dev br0 lladdr 02:aa:aa:aa:aa:aa PERMANENT \n"
    machine = case(CUT, TO, {probes.LINKS: HERE, wires.NEAR: BRIDGE + PORT + near})
    idea = best(network.network, machine)
    assert idea.fix == ("ip neigh del 10.9.0.7 dev br0",)
    assert "nud permanent" in idea.undo
    reached = near.replace("PERMANENT", "REACHABLE")
    machine = case(CUT, TO, {probes.LINKS: HERE, wires.NEAR: BRIDGE + PORT + reached})
    assert not [one for one in network.network(machine) if one.fix]


def test_an_address_that_was_lost_is_the_one_that_others_remember() -> None:
    bare = {probes.LINKS: HERE.replace(" 10.9.0.1/24", ""), wires.NEAR: BRIDGE + PORT}
    machine = on_node(
        case(CUT, TO, bare),
        LINKS="lo UNKNOWN 127.0.0.1/8\neth0@if3 UP 10.9.0.7/24\n",
        NEAR="10.9.0.1 dev eth0 lladdr 02:00:00:00:00:01 STALE\n",
    )
    assert best(network.network, machine).fix == ("ip addr add 10.9.0.1/24 dev br0",)


def test_an_address_of_another_machine_is_taken_away_here() -> None:
    both = HERE.replace("127.0.0.1/8", "127.0.0.1/8 10.9.0.7/32")
    machine = on_node(
        case("ERROR 10.9.0.7:6100: connection refused", TO,
             {probes.LINKS: both, wires.NEAR: BRIDGE + PORT}),
        LINKS="lo UNKNOWN 127.0.0.1/8\neth0@if3 UP 10.9.0.7/24\n",
    )  # fmt: skip
    assert best(network.network, machine).fix == ("ip addr del 10.9.0.7/32 dev lo",)


def test_a_port_that_left_its_bridge_is_joined_again() -> None:
    out = PORT.replace(" master br0", "")
    machine = case(CUT, TO, {probes.LINKS: HERE, wires.NEAR: BRIDGE + out})
    assert best(network.network, machine).fix == ("ip link set veth0 master br0",)


def test_of_rules_the_one_that_counted_is_at_fault() -> None:
    saved = (
        "*filter\n:INPUT ACCEPT [9:90]\n[0:0] -A INPUT -p tcp -m tcp --dport 6100 -j DROP\n"
        "[7:420] -A OUTPUT -m owner --uid-owner 33 -j REJECT\nCOMMIT\n"
    )
    machine = case(CUT, TO, {probes.LINKS: HERE, wires.NEAR: "", wires.SAVED: saved})
    assert best(network.network, machine).fix == (
        "iptables -D OUTPUT -m owner --uid-owner 33 -j REJECT",
    )


def test_what_runs_on_a_node_is_known_by_its_command() -> None:
    assert needed.node_of(on_node(case(CUT, TO, {})), "vault") == "on-node annex "
    assert needed.node_of(on_node(case(CUT, TO, {})), "till") == ""


PLACE = ("127.0.0.1", 5433, "books", "till")
BOOKS = '{"database": "host=127.0.0.1 port=5433 dbname=books user=till"}'


def asked(said: str, rows: str, watched: str, inside: str = "") -> Case:
    """`till`, whose database was asked, and watched while the check asked it."""
    first = case(said, BOOKS, {})
    brief = Brief(
        "inc-1", service="till", services=first.brief.services,
        check=BriefCheck("answers", "curl -m 2 http://127.0.0.1:8080/", "timed out", 28, False),
    )  # fmt: skip
    empty = Case(brief, first.observed)
    look = postgres.watching(empty, PLACE, "postgres")
    question = postgres.asked(empty, PLACE)[0][0]
    more = [Seen(question, rows), Seen(look, watched)]
    if inside:
        more.append(Seen(statement.inside(PLACE, "postgres"), inside))
    return Case(brief, [*first.observed, *more])


def test_who_waits_only_while_the_check_asks_is_seen() -> None:
    idle = "51|kim|sync|5001|idle|300||select pg_advisory_lock(7)|Client:ClientRead\n"
    waits = "52|till|till|5002|active|0|51|insert into notes values (1)|Lock:advisory\n"
    machine = asked("ERROR statement timeout", idle, f"{idle}\n\n{idle}{waits}\n")
    idea = best(database.database, machine)
    assert "pg_terminate_backend(51)" in idea.fix[0]
    assert "sync" in idea.locus


def test_a_trigger_that_takes_its_time_is_switched_off_and_can_be_on_again() -> None:
    row = "52|till|till|5002|active|1||insert into notes values (1)|Timeout:PgSleep\n"
    inside = (
        "trigger|notes|audit|O|begin perform pg_sleep(2); return new; end\n"
        "trigger|notes|in_order|O|begin return new; end\n"
    )
    machine = asked("ERROR vault timed out", "", f"{row}\n\n{row}", inside)
    idea = best(statement.statements, machine)
    assert idea.fix[0].endswith("'alter table notes disable trigger audit'")
    assert "enable trigger audit" in idea.undo


def test_a_search_without_an_index_gets_one() -> None:
    row = "52|till|till|5002|active|1||select * from notes where owner = $1|\n"
    inside = "index|notes|900000|CREATE UNIQUE INDEX notes_pkey ON public.notes USING btree (id)\n"
    machine = asked("ERROR vault timed out", "", f"{row}\n\n{row}", inside)
    idea = best(statement.statements, machine)
    assert "on notes (owner)" in idea.fix[0]


def test_a_setting_of_a_role_that_fits_what_is_said_is_reset() -> None:
    inside = "set|till||default_transaction_read_only=on\nset|kim||work_mem=64MB\n"
    said = "ERROR: cannot execute INSERT in a read-only transaction"
    machine = asked(said, "51|kim|sync|5001|idle|300|||\n", "", inside)
    fixes = [one.fix[0] for one in statement.statements(machine) if one.fix]
    assert len(fixes) == 1
    assert "alter role till reset default_transaction_read_only" in fixes[0]


NOTE = "/var/opt/till/RESTING"


def test_a_note_of_giving_up_is_moved_aside_and_one_of_people_is_not() -> None:
    said = f"ERROR in maintenance: {NOTE} is there"
    failed = "40 1794772900 app\nsince 20:01: vault failed: connection refused\n"
    machine = case(said, TO, {cascade.mark(NOTE): failed})
    idea = best(cascade.resting, machine)
    assert idea.category == "cascading-failure"
    assert idea.fix[0].startswith(f"mv -T --backup=numbered {NOTE} ")
    planned = "40 1794772900 root\nkim moves the shelves today, until six\n"
    machine = case(said, TO, {cascade.mark(NOTE): planned})
    assert not [one for one in cascade.resting(machine) if one.fix]


def test_a_server_that_works_for_those_who_went_is_started_anew() -> None:
    machine = case(
        "ERROR http://127.0.0.1:6100: 503 all slots are in use",
        '{"backend": "http://127.0.0.1:6100"}', {probes.CONNECTIONS: ""},
    )  # fmt: skip
    idea = best(pool.crowded, machine)
    assert (idea.category, idea.fix) == ("pool-exhausted", ("supervisorctl restart vault",))


def test_files_by_which_names_go_are_made_readable_again() -> None:
    name = "vault.site.test"
    machine = case(
        f"ERROR {name}: Temporary failure in name resolution", f'{{"backend": "http://{name}"}}',
        {
            probes.resolved(name): f"127.4.4.4 {name}",
            lookup.READ: "-rw------- 1 root root 60 Nov 15 20:00 /etc/resolv.conf\n"
            "-rw-r--r-- 1 root root 60 Nov 15 20:00 /etc/hosts\n",
        },
    )  # fmt: skip
    idea = best(lookup.unread, machine)
    assert idea.fix[0] == "chmod o+r /etc/resolv.conf"
