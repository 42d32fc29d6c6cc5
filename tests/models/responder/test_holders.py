"""Sessions that are begun again by whoever is behind them, and limits of whoever has too many."""

from collections.abc import Mapping

from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rules import database, holders, pool, postgres, prepared
from hermes_agent.models.responder.rules.ideas import ACT, Idea, ranked
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

ENTRIES = """\
==> /etc/supervisor/conf.d/till.conf <==
[program:till]
command=python3 /opt/till/main.py /opt/till/.env
stdout_logfile=/var/log/supervisor/till.log

==> /etc/supervisor/conf.d/fill.conf <==
[program:fill]
command=bash /opt/fill/run.sh
{0}
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544    8000 supervisord -n
      7       1 app      Sl     0  0.1 23328    7000 python3 /opt/till/main.py /opt/till/.env
      8       1 app      Sl     0  0.1 23328      60 bash /opt/fill/run.sh
     90       1 kim      S      0  0.1 13328     500 bash /home/kim/again.sh
     91      90 kim      S      0  0.1 13328       9 psql -f /home/kim/again.sql
"""
PLACE = ("127.0.0.1", 5433, "shop", "")
ASKED = postgres.psql(PLACE, postgres._QUERY, "postgres")
WAITS = "41|app|till|4001|active|2|{0}|update bookings set paid = true|Lock:relation"
HOLDS = "52|app|{0}|4002|active|{1}||lock table bookings|Timeout:PgSleep"
SAID = "ERROR: canceling statement due to statement timeout"


def case(sessions: str, entry: str = "", seen: Mapping[str, str] | None = None) -> Case:
    usual = {
        probes.STATUS: "till   RUNNING   pid 7, uptime 1:56\nfill   RUNNING   pid 8, uptime 0:60",
        probes.PROGRAMS: ENTRIES.format(entry),
        probes.PROCESSES: PROCESSES,
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.show("/opt/till/.env"): "DATABASE_URL=postgresql://127.0.0.1:5433/shop\n",
        probes.LOGS: f"==> /var/log/supervisor/till.log <==\n{SAID}",
        ASKED: sessions,
        **(seen or {}),
    }
    brief = Brief("inc-1", service="till", services=(BriefService("till"), BriefService("fill")))
    return Case(brief, [Seen(*one) for one in usual.items()])


def blocked(sessions: str, entry: str = "", seen: Mapping[str, str] | None = None) -> list[Idea]:
    return ranked(database.database(case(sessions, entry, seen)))


def test_a_job_that_begins_its_transaction_again_is_stopped_before_that_is_ended() -> None:
    again = f"{WAITS.format(52)}\n{HOLDS.format('fill', 9)}"
    best = blocked(again, "autostart=false")[0]
    assert best.fix[0] == "supervisorctl stop fill"
    assert "pg_terminate_backend(pid)" in best.fix[-1]
    first = f"{WAITS.format(52)}\n{HOLDS.format('fill', 59)}"
    assert "pg_terminate_backend(52)" in blocked(first, "autostart=false")[0].fix[0]


def test_what_is_to_run_all_the_time_is_not_stopped() -> None:
    again = f"{WAITS.format(52)}\n{HOLDS.format('fill', 9)}"
    assert not any("stop" in one for idea in blocked(again) for one in idea.fix)


def test_a_loop_of_somebody_is_ended_with_what_it_began() -> None:
    wires = 'ESTAB 0 0 127.0.0.1:4002 127.0.0.1:5433 users:(("psql",pid=91,fd=3))'
    again = f"{WAITS.format(52)}\n{HOLDS.format('psql', 8)}"
    best = blocked(again, "", {probes.CONNECTIONS: wires})[0]
    assert best.fix[0] == "kill 90"


def test_what_the_clock_began_is_nobodys_and_waited_for_with_the_next_minute() -> None:
    wires = 'ESTAB 0 0 127.0.0.1:4002 127.0.0.1:5433 users:(("psql",pid=95,fd=3))'
    cron = PROCESSES + (
        "      9       1 root     S      0  0.1 13328    7000 /usr/sbin/cron -f\n"
        "     95       9 root     S      0  0.1 13328       9 psql -f /opt/nightly.sql\n"
    )
    rows = "till  RUNNING  pid 7, uptime 1:56\ncron  RUNNING  pid 9, uptime 1:56"
    seen = {probes.CONNECTIONS: wires, probes.PROCESSES: cron, probes.STATUS: rows}
    machine = case(f"{WAITS.format(52)}\n{HOLDS.format('psql', 8)}", "", seen)
    (session,) = postgres.sessions(HOLDS.format("psql", 8))
    assert holders.owner(machine, PLACE, [session]) == ""
    best = ranked(database.database(machine))[0]
    assert "date +%-S" in best.proof
    assert not any("cron" in one for one in best.fix)


def test_who_only_calls_itself_like_a_job_does_not_have_that_stopped() -> None:
    wires = 'ESTAB 0 0 127.0.0.1:4002 127.0.0.1:5433 users:(("psql",pid=91,fd=3))'
    again = f"{WAITS.format(52)}\n{HOLDS.format('fill', 9)}"
    found = blocked(again, "autostart=false", {probes.CONNECTIONS: wires})
    assert not any("stop" in one for idea in found for one in idea.fix)


def test_who_is_at_work_is_not_ended_and_what_is_left_of_one_who_went_is() -> None:
    held = postgres.psql(PLACE, database._LOCKS, "postgres")
    locks = {held: "52|fill|active|AccessExclusiveLock|bookings|3/7\n"}

    def ended(state: str, event: str, query: str, wires: str = "") -> bool:
        row = f"52|app|fill|4002|{state}|90||{query}|{event}"
        seen = {**locks, probes.CONNECTIONS: wires}
        found = blocked(f"{WAITS.format(52)}\n{row}", "", seen)
        return any("52" in one or "restart fill" in one for idea in found for one in idea.fix)

    for query in ("create index on bookings (at)", "VACUUM FULL bookings", "alter table b add x"):
        assert not ended("active", "IO:DataFileRead", query)
        assert ended("idle in transaction", "Client:ClientRead", query)
        assert ended("active", "Timeout:PgSleep", query)
    update, left = "update bookings set paid = true", "127.0.0.1:5433 127.0.0.1:4002 "
    assert not ended("active", "IO:DataFileRead", update, f"ESTAB 0 0 {left}")
    assert ended("active", "IO:DataFileRead", update, f"CLOSE-WAIT 1 0 {left}")


def test_a_change_of_a_table_that_waits_for_one_at_work_gives_way() -> None:
    reads = "52|app|copy|4002|active|90||select count(*) from bookings|IO:DataFileRead"
    change = "60|app|migrate|4009|active|9|52|ALTER TABLE bookings ADD COLUMN x text|Lock:relation"
    best = blocked(f"{reads}\n{change}")[0]
    assert "pg_cancel_backend(60)" in best.fix[0]


def test_looks_at_a_database_wait_for_no_lock() -> None:
    assert "lock_timeout" in ASKED
    assert "lock_timeout" not in postgres.psql(PLACE, "alter table bookings disable trigger t")


def test_what_a_session_calls_itself_is_no_more_than_one_column() -> None:
    assert "translate(application_name, '|', ' ')" in postgres._QUERY


def test_it_is_not_mended_while_the_same_is_begun_again() -> None:
    (session,) = postgres.sessions(HOLDS.format("o'neil", 9))
    look = holders.gone(PLACE, "postgres", session)
    assert look.startswith("sleep ")
    assert look.endswith('" = 0')
    again = f"{WAITS.format(52)}\n{HOLDS.format('fill', 9)}"
    assert all(one.proof for one in blocked(again) if "pg_terminate" in " ".join(one.fix))


def test_who_has_all_connections_gets_its_own_limit_back_and_no_other_line() -> None:
    own = "/opt/fill/.env"
    entry = f"command=bash /opt/fill/run.sh {own}"
    text = "1c1\n< LISTEN=80\n---\n> LISTEN=81\n6c6\n< WORKERS=2\n---\n> WORKERS=9"
    seen = {probes.copies(own): f"==> lines <==\n20 {own}\n==> {own}.orig <==\n{text}\n"}
    ideas = ranked(pool.resized(case("", entry, seen), "fill", "FATAL: too many clients"))
    best = next(one for one in ideas if one.fix)
    assert best.score >= ACT
    assert "WORKERS=2" in best.fix[1]
    assert not any("LISTEN" in one or "cp /" in one for one in best.fix)


def test_of_several_limits_each_gets_its_line_back_and_no_other_does() -> None:
    own = "/opt/fill/.env"
    text = (
        "1,3c1,3\n< KEY=old\n< WORKERS=2\n< MAX_CONN=5\n---\n> KEY=new\n> WORKERS=9\n> MAX_CONN=90"
    )
    seen = {probes.copies(own): f"==> lines <==\n20 {own}\n==> {own}.orig <==\n{text}\n"}
    machine = case("", f"command=bash /opt/fill/run.sh {own}", seen)
    best = next(one for one in pool.resized(machine, "fill", "too many clients") if one.fix)
    assert [one.split()[0] for one in best.fix[:3]] == ["cp", "sed", "sed"]
    assert not any("KEY" in one or one.startswith("cp /") for one in best.fix)


def test_what_a_line_names_of_another_service_has_that_not_started_anew() -> None:
    def restarted(path: str) -> bool:
        look = probes.holders(f"{path}*")
        seen = {
            probes.LOGS: f"==> /var/log/supervisor/till.log <==\nERROR database is locked: {path}",
            look: f"/proc/8/fd/3 {path}\n",
            pool.LOCKS: "1: POSIX  ADVISORY  WRITE 8 00:1f:77 0 EOF\n",
        }
        return any("restart fill" in one for i in pool.locked(case("", "", seen)) for one in i.fix)

    assert restarted("/data/till.db")
    assert not restarted("/opt/fill/fill.db")


HAS = "app|shop|{0}|{1}Lock|{2}|{3}|{4}"
"""A row of what a prepared transaction has, and what others want."""


def ends(*rows: str, said: str = "", gid: str = "order-7") -> list[str]:
    """How prepared transactions are ended."""
    held = postgres.psql(PLACE, database._LOCKS, "postgres")
    look = prepared.looks(case(""), PLACE, "postgres")
    seen = {held: "", look: "\n".join(rows), prepared.told(gid): said}
    fixes = [one for idea in blocked("", "", seen) for one in idea.fix if "prepared" in one]
    return [one.partition("-c ")[2] for one in fixes]


def test_only_a_prepared_transaction_that_others_wait_for_is_ended_and_not_at_once() -> None:
    way = HAS.format(60, "ShareRowExclusive", "bookings", "RowExclusiveLock", "order-7")
    mild = HAS.format(90, "RowExclusive", "bookings", "RowExclusiveLock", "tonight-3")
    (only,) = ends(way, mild)
    assert "rollback prepared" in only
    assert "order-7" in only
    assert not ends(HAS.format(3, "ShareRowExclusive", "bookings", "RowExclusiveLock", "order-7"))
    assert not ends(mild)
    row = HAS.format(60, "Exclusive", "transactionid", "ShareLock", "order-7")
    assert len(ends(row, mild)) == 1


def test_a_prepared_transaction_is_ended_as_its_coordinator_decided() -> None:
    way = HAS.format(60, "Exclusive", "transactionid", "ShareLock", "order-7")
    assert "rollback" in ends(way, said="order-7: branch 2 refused, rolled back")[0]
    assert "commit prepared" in ends(way, said="order-7: decision is to commit")[0]
    for said in ("order-7: goes on tonight", "order-7: commit failed",
                 "order-7: committed\norder-7: rolled back"):  # fmt: skip
        assert not ends(way, said=said)


def test_work_that_must_not_be_ended_is_handed_over() -> None:
    sessions = f"{WAITS.format(52)}\n{HOLDS.format('fill', 9)}"
    machine = case(sessions, "autostart=false")
    told = BriefService("fill", (), "the report of the year; must not be interrupted")
    brief = Brief("inc-1", service="till", services=(BriefService("till"), told))
    found = ranked(database.database(Case(brief, machine.observed)))
    assert found[0].evidence
    assert not any(idea.fix for idea in found if "52" in idea.locus)


def test_whom_those_wait_for_who_have_all_connections_is_started_anew() -> None:
    sessions = "\n".join(
        f"{500 + n}|app|nightly|{4100 + n}|idle|11||COPY x TO STDOUT|Client:ClientRead"
        for n in range(5)
    )
    clients = PROCESSES + "".join(
        f"    {200 + n}       1 app      S      0  0.1 13328       9 psql -q\n"
        f"    {300 + n}     {200 + n} app      S      0  0.1 13328       9 curl --data-binary @-\n"
        for n in range(5)
    )
    wires = "".join(
        f'ESTAB 0 0 127.0.0.1:{4100 + n} 127.0.0.1:5433 users:(("psql",pid={200 + n},fd=3))\n'
        f'ESTAB 0 0 127.0.0.1:{4200 + n} 127.0.0.1:7009 users:(("curl",pid={300 + n},fd=3))\n'
        for n in range(5)
    )
    heard = 'LISTEN 6 64 127.0.0.1:7009 0.0.0.0:* users:(("bash",pid=8,fd=3))\n'
    full = "FATAL: remaining connection slots are reserved"

    def restarted(answer: str) -> bool:
        seen = {probes.PROCESSES: clients, probes.CONNECTIONS: wires, probes.LISTENERS: heard,
                probes.LOGS: f"==> /var/log/supervisor/till.log <==\n{full}",
                probes.timed("http://127.0.0.1:7009/"): answer}  # fmt: skip
        best = next(one for one in blocked(sessions, "", seen) if one.fix)
        return best.component == "fill" and "restart fill" in best.fix[0] and best.score >= ACT

    assert restarted("000 after 8.0 s from 127.0.0.1:7009")
    assert not restarted("404 after 0.01 s from 127.0.0.1:7009")


def test_a_limit_whose_former_line_was_left_beside_it_is_set_as_it_was() -> None:
    told = "# spring.pool-size=8\nspring.pool-size=0\nspring.name=till\n"
    seen = {probes.show("/opt/till/.env"): told, probes.copies("/opt/till/.env"): "",
            probes.copies("/etc/supervisor/conf.d/till.conf"): ""}  # fmt: skip
    said = "Connection is not available, request timed out after 1500ms"
    best = next(one for one in pool.resized(case("", "", seen), "till", said) if one.fix)
    assert "spring.pool-size=8" in best.fix[1]
    assert best.score >= ACT


IDLE = "52|app|fill|4002|idle in transaction|40||lock table bookings|Client:ClientRead"
CALLS = """\
ESTAB 0 0 127.0.0.1:4002 127.0.0.1:5433 users:(("python3",pid=8,fd=3))
ESTAB 0 0 127.0.0.1:4009 127.0.0.1:7400 users:(("python3",pid=8,fd=4))
"""
GATE = """\
==> /etc/supervisor/conf.d/gate.conf <==
[program:gate]
command=python3 /opt/gate/main.py
"""


def asking(answer: str | None) -> list[Idea]:
    """One holds a table and is connected to another, who answers so."""
    status = "till   RUNNING   pid 7, uptime 1:56\nfill   RUNNING   pid 8, uptime 0:60\n"
    look = probes.timed("http://127.0.0.1:7400/")
    seen = {
        probes.STATUS: f"{status}gate   RUNNING   pid 9, uptime 2:00",
        probes.PROGRAMS: ENTRIES.format("") + GATE,
        probes.PROCESSES: PROCESSES
        + "      9       1 app      Sl     0  0.1 13328    7000 python3 /opt/gate/main.py\n",
        probes.LISTENERS: 'LISTEN 0 5 127.0.0.1:7400 0.0.0.0:* users:(("python3",pid=9,fd=3))',
        probes.CONNECTIONS: CALLS,
        **({look: answer} if answer is not None else {}),
    }
    return blocked(f"{WAITS.format(52)}\n{IDLE}", "", seen)


def test_who_holds_a_lock_may_wait_for_another_who_is_asked_before_it_is_ended() -> None:
    wants = {want for one in blocked(f"{WAITS.format(52)}\n{IDLE}") for want in one.wants}
    assert probes.CONNECTIONS in wants
    best = asking(None)[0]
    assert best.wants == (probes.timed("http://127.0.0.1:7400/"),)


def test_who_does_not_answer_one_that_holds_a_lock_is_started_anew() -> None:
    best = asking("000 after 8.003 s from 127.0.0.1:7400")[0]
    assert best.fix == ("supervisorctl restart gate",)
    assert best.component == "gate"


def test_where_it_answers_the_transaction_is_ended_and_its_client_must_be_back() -> None:
    for answer in ("200 after 0.01 s from 127.0.0.1:7400", "000 after 0.02 s from :0"):
        best = asking(answer)[0]
        assert "pg_terminate_backend(52)" in best.fix[0]
        assert "application_name = '\"'\"'fill'\"'\"' and usename" in best.proof
        assert best.proof.endswith("!= 0")
    alone = blocked(f"{WAITS.format(52)}\n{IDLE}", "", {probes.CONNECTIONS: CALLS[:70]})[0]
    assert "pg_terminate_backend(52)" in alone.fix[0]
    assert "!= 0" not in alone.proof
