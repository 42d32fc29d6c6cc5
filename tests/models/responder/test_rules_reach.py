"""Rules for names, ways, pools, locked files and those left behind, over what commands printed."""

from collections.abc import Mapping

from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rules import (
    cascade,
    database,
    last,
    names,
    network,
    pool,
    postgres,
    servers,
)
from hermes_agent.models.responder.rules.ideas import Idea, Rule, ranked
from hermes_agent.models.responder.view import needed, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

ENTRIES = """\
==> /etc/supervisor/conf.d/till.conf <==
[program:till]
command=python3 /opt/till/main.py /opt/till/conf/app.json
stdout_logfile=/var/log/supervisor/till.log

==> /etc/supervisor/conf.d/vault.conf <==
[program:vault]
command=python3 /opt/vault/vault.py --listen=127.0.0.1:6100
stdout_logfile=/var/log/supervisor/vault.log
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544    8000 supervisord -n
      7       1 app      Sl     0  0.1 23328    7000 python3 /opt/till/main.py
      8       1 app      Sl     0  0.1 23328    {0} python3 /opt/vault/vault.py
     66       1 root     S      0  0.1 13328     600 python3 /home/kim/copy.py /data/till.db
"""
LISTENERS = 'LISTEN 0 64 127.0.0.1:6100 0.0.0.0:* users:(("python3",pid=8,fd=3))'
CONF = "/opt/till/conf/app.json"


def case(said: str, settings: str, seen: Mapping[str, str], age: int = 7000) -> Case:
    """`till`, which needs `vault`; `said` is the last line of its log."""
    usual = {
        probes.STATUS: "till   RUNNING   pid 7, uptime 1:56\nvault   RUNNING   pid 8, uptime 0:10",
        probes.PROGRAMS: ENTRIES,
        probes.PROCESSES: PROCESSES.format(age),
        probes.LISTENERS: LISTENERS,
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.show(CONF): settings,
        probes.LOGS: f"==> /var/log/supervisor/till.log <==\n{said}",
        probes.NAMES: "==> /etc/resolv.conf <==\nnameserver 127.0.0.9\n",
    }
    brief = Brief(
        "inc-1", service="till", services=(BriefService("till", ("vault",)), BriefService("vault"))
    )
    return Case(brief, [Seen(command, text) for command, text in {**usual, **seen}.items()])


def best(rule: Rule, machine: Case) -> Idea:
    return ranked(one for one in rule(machine) if one.fix)[0]


def test_what_a_service_reaches_for_is_found_in_any_settings() -> None:
    settings = (
        '{"db": {"host": "db.lan", "port": 5433}, "api": "http://10.1.2.3:81/x", '
        '"cache": "redis://u:p@memo:6380/0", "listen": "0.0.0.0:8080"}'
    )
    found = {(one.host, one.port) for one in needed.targets(case("", settings, {}), "till")}
    assert {("db.lan", 5433), ("10.1.2.3", 81), ("memo", 6380)} <= found
    assert ("0.0.0.0", 8080) not in found


def test_a_record_that_leads_astray_is_set_right_where_it_stands() -> None:
    name = "vault.site.test"
    machine = case(
        f"ERROR till: http://{name}:6100 failed: connection refused",
        f'{{"backend": "http://{name}:6100"}}',
        {
            probes.resolved(name): f"127.4.4.4 {name}",
            probes.mentions(name): f"/srv/zones/site:3:{name} 127.4.4.4",
            servers.DATAGRAMS: "UNCONN 0 0 127.0.0.9:53 0.0.0.0:*",
        },
    )
    idea = best(names.names, machine)
    assert idea.category == "dns-failure"
    assert any("127.0.0.1" in one and "/srv/zones/site" in one for one in idea.fix)


def test_a_resolver_that_nobody_answers_is_replaced_by_one_who_does() -> None:
    name = "vault.site.test"
    machine = case(
        f"ERROR till: lookup {name} on 127.0.0.9:53: server misbehaving",
        f'{{"backend": "http://{name}:6100"}}',
        {servers.DATAGRAMS: "UNCONN 0 0 127.0.0.77:53 0.0.0.0:*", servers.WRITTEN: ""},
    )
    failed = Seen(probes.resolved(name), "", 2)
    silent = Seen(probes.asked("127.0.0.9", name), "", 124)
    knows = Seen(probes.asked("127.0.0.77", name), " 12 34 81 80 00 01 00 01 00 00 00 00\n")
    machine = Case(machine.brief, [*machine.observed, failed, silent, knows])
    assert "nameserver 127.0.0.77" in " ".join(best(names.names, machine).fix)


def test_a_narrower_route_that_leads_elsewhere_is_taken_away() -> None:
    links = (
        "br0 UP 10.9.0.1/24\nlab0 UP 172.30.9.1/24\nbr0 DOWN aa:bb <NO-CARRIER,BROADCAST,UP>\n"
        "10.9.0.0/24 dev br0 proto kernel scope link src 10.9.0.1\n10.9.0.7 dev lab0 scope link\n"
    )
    machine = case(
        'level=error msg="dial tcp 10.9.0.7:6100: i/o timeout"',
        '{"backend": "http://10.9.0.7:6100"}',
        {probes.LINKS: links, "ip route get 10.9.0.7": "10.9.0.7 dev lab0 src 172.30.9.1"},
    )
    idea = best(network.network, machine)
    assert idea.fix == ("ip route del 10.9.0.7 dev lab0 scope link",)
    assert idea.undo == "ip route add 10.9.0.7 dev lab0 scope link"


def test_rules_for_other_ports_and_networks_are_left_alone() -> None:
    rules = (
        "-A OUT -p tcp -m tcp --dport 25 -j DROP\n-A OUT -d 192.0.2.0/24 -j DROP\n"
        "-A OUT -d 10.9.0.0/24 -p tcp -m tcp --dport 6000:6999 -j REJECT\n"
    )
    machine = case(
        "ERROR connect to 10.9.0.7:6100: connection refused",
        '{"backend": "http://10.9.0.7:6100"}', {probes.RULES: rules},
    )  # fmt: skip
    fixes = [one.fix for one in network.network(machine) if one.fix]
    assert fixes == [("iptables -D OUT -d 10.9.0.0/24 -p tcp -m tcp --dport 6000:6999 -j REJECT",)]


def test_who_has_all_connections_is_found_by_them() -> None:
    row = 'ESTAB 0 0 127.0.0.1:4000{0} 127.0.0.1:6100 users:(("python3",pid=66,fd={0}))'
    machine = case(
        '{"level": "error", "msg": "kv://127.0.0.1:6100: ERR max number of clients reached"}',
        '{"backend": "kv://127.0.0.1:6100"}',
        {probes.CONNECTIONS: "\n".join(row.format(n) for n in range(8))},
    )
    idea = best(pool.crowded, machine)
    assert idea.category == "pool-exhausted"
    assert idea.fix[0] == "kill 66"


def test_who_holds_a_locked_file_is_found_and_ended() -> None:
    machine = case(
        "sqlite3.OperationalError: database is locked",
        '{"backend": "sqlite:/data/till.db", "path": "/data/till.db"}',
        {
            probes.holders("/data/till.db*"): "/proc/66/fd/3 /data/till.db",
            pool.LOCKS: "1: POSIX  ADVISORY  WRITE 66 00:2f:9 1073741824 1073741824",
        },
    )
    idea = best(pool.locked, machine)
    assert (idea.category, idea.fix[0]) == ("database-lock", "kill 66")


def test_those_left_behind_are_started_anew_once_what_fell_runs() -> None:
    log = "2026-11-15 20:02:50,1 WARN exited: vault (terminated by SIGKILL; not expected)"
    said = "ERROR till: vault: [Errno 32] Broken pipe"
    settings = '{"backend": "kv://127.0.0.1:6100"}'
    machine = case(said, settings, {probes.SUPERVISOR_LOG: log}, age=20)
    idea = best(cascade.left_behind, machine)
    assert (idea.category, idea.component) == ("cascading-failure", "vault")
    assert idea.fix == ("supervisorctl restart till",)
    together = case(said, settings, {probes.SUPERVISOR_LOG: log})
    assert not list(cascade.left_behind(together))


def test_who_gave_up_on_what_fell_is_known_though_nobody_asks_for_it() -> None:
    settings = '{"backend": "kv://127.0.0.1:6100"}'
    down = "vault  RUNNING  pid 9, uptime 0:10:00\ntill  FATAL  Exited too quickly\n"
    machine = case("ERROR till: refused", settings, {probes.STATUS: down})
    assert cascade.fell_with(machine, "vault") == ["till"]
    stopped = down.replace("FATAL  Exited too quickly", "STOPPED  Not started")
    assert cascade.fell_with(case("", settings, {probes.STATUS: stopped}), "vault") == []
    assert cascade.fell_with(machine, "till") == []


def test_who_ended_after_what_it_needs_fell_with_it_and_who_ended_before_was_done() -> None:
    settings = '{"backend": "kv://127.0.0.1:6100"}'
    down = "vault  EXITED  Nov 15 08:02 PM\ntill  EXITED  Nov 15 08:02 PM\n"
    root = "2026-11-15 20:02:50,1 WARN exited: vault (terminated by SIGKILL; not expected)\n"
    for second, fell in (("51", ["till"]), ("49", [])):
        log = f"{root}2026-11-15 20:02:{second},3 WARN exited: till (exit status 1; not expected)\n"
        machine = case("", settings, {probes.STATUS: down, probes.SUPERVISOR_LOG: log})
        assert cascade.fell_with(machine, "vault") == fell
        done = {probes.SUPERVISOR_LOG: log.replace("1; not expected", "0; expected")}
        assert cascade.fell_with(case("", settings, {probes.STATUS: down, **done}), "vault") == []


def test_the_name_of_the_machine_itself_may_be_lost_too() -> None:
    said = 'ERROR could not translate host name "localhost" to address: Name or service not known'
    machine = case(said, '{"backend": "kv://localhost:6100"}', {})
    assert "localhost" in names.hosts(machine, "till", said)
    assert "db" in names.hosts(machine, "till", 'could not translate host name "db" to address')


def test_databases_are_found_however_their_place_is_written() -> None:
    places = {
        "postgresql+psycopg://me:pw@db1:5544/sales": ("db1", 5544, "sales", "me"),
        "host=db2 port=5545 dbname=stock user=me": ("db2", 5545, "stock", "me"),
        "127.0.0.1:5546/items app": ("127.0.0.1", 5546, "items", "app"),
        "psql -h /run -p 5547 -U root books": ("/run", 5547, "books", "root"),
    }
    for text, place in places.items():
        assert list(postgres.written(text)) == [place]


def test_whoever_waits_before_others_stops_waiting_and_not_whoever_works() -> None:
    settings = '{"database": "host=127.0.0.1 port=5433 dbname=books user=till"}'
    asked = next(database.database(case("ERROR statement timeout", settings, {})))
    rows = (
        "41|kim|yearly|5001|active|900||select sum(amount) from orders join lines using (id)\n"
        "42|kim|change|5002|active|60|41|alter table orders add column note text\n"
        "43|till|till|5003|active|2|42|insert into orders values (1)\n"
    )
    machine = case("ERROR statement timeout", settings, {asked.wants[0]: rows})
    chosen = best(database.database, machine)
    assert "pg_cancel_backend(42)" in chosen.fix[0]
    at_rest = rows.replace("yearly|5001|active", "yearly|5001|idle in transaction")
    machine = case("ERROR statement timeout", settings, {asked.wants[0]: at_rest})
    assert "pg_terminate_backend(41)" in best(database.database, machine).fix[0]


def test_where_many_work_at_once_nothing_is_started_anew_on_the_off_chance() -> None:
    said = "==> /var/log/supervisor/vault.log <==\n2026-11-15 20:03:11 ERROR something is odd"
    seen = {probes.LOGS: f"==> /var/log/supervisor/till.log <==\nERROR 500\n\n{said}"}
    anew = {idea.component for idea in last.anew(case("", "{}", seen))}
    assert anew == {"till", "vault"}
    store = ENTRIES.replace("python3 /opt/vault/vault.py", "/usr/lib/postgresql/15/bin/postgres")
    anew = {idea.component for idea in last.anew(case("", "{}", {**seen, probes.PROGRAMS: store}))}
    assert anew == {"till"}


def test_a_mark_that_settings_name_is_one_whatever_it_is_called() -> None:
    mark = "/run/till/ejected"
    look = "60 1794772900 app\n{}"

    def fixed(said: str, text: str) -> list[Idea]:
        machine = case(said, f'{{"tuning": {{"gate": "{mark}"}}}}',
                       {cascade.mark(mark): look.format(text)})  # fmt: skip
        return [one for one in cascade.resting(machine) if one.fix]

    (idea,) = fixed(f"E1116 serving: turned off by {mark}: error", '{"last": "connect: refused"}')
    assert idea.fix[0].startswith(f"mv -T --backup=numbered {mark} ")
    assert not fixed(f"E1116 serving: turned off by {mark}: error", "people count the shelves")
    assert not fixed(f"E1116 error: {mark}: invalid JSON, cannot read", '{"last": "refused"}')
