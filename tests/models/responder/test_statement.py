"""What a database was told beside its tables: a standby that is not there, settings of roles and of
databases."""

from hermes_agent.models.responder.rules import statement
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.models.responder.test_rules_between import BOOKS, PLACE, asked
from tests.models.responder.test_rules_reach import CONF, best

WAITS = "52|till|till|5002|active|1||insert into notes values (1)|IPC:SyncRep\n"
LATE = "ERROR vault timed out"
READ_ONLY = "ERROR: cannot execute INSERT in a read-only transaction"
IDLE = "51|kim|sync|5001|idle|300|||\n"


def mended(machine: Case) -> list[Idea]:
    return [one for one in statement.statements(machine) if one.fix]


def test_a_standby_that_was_named_by_a_statement_is_named_no_more_and_can_be_again() -> None:
    inside = "file|synchronous_standby_names|far|/var/lib/pg/postgresql.auto.conf\n"
    idea = best(statement.statements, asked(LATE, "", f"{WAITS}\n\n{WAITS}", inside))
    assert idea.category == "slow-dependency"
    assert "alter system reset synchronous_standby_names" in idea.fix[0]
    assert "pg_reload_conf" in idea.fix[-1]
    assert "far" in idea.undo


def test_before_it_is_known_who_named_the_standby_nothing_is_done() -> None:
    machine = asked(LATE, "", f"{WAITS}\n\n{WAITS}")
    idea = max(statement.statements(machine), key=lambda one: one.score)
    assert "a standby that is not there" in idea.claim
    assert idea.wants == (statement.inside(PLACE, "postgres"),)
    assert not mended(machine)


def test_one_who_waits_for_another_or_was_at_it_long_before_is_not_late() -> None:
    held = WAITS.replace("|1||insert", "|1|51|insert")
    long = WAITS.replace("|till|till|", "|kim|report|").replace("active|1|", "active|900|")
    for row in (held, long):
        found = statement.statements(asked(LATE, "", f"{row}\n\n{row}"))
        assert "slow-dependency" not in [one.category for one in found]


def test_a_setting_of_a_role_in_one_database_is_reset_there_and_who_asks_it_connects_anew() -> None:
    inside = "set|till|books|default_transaction_read_only=on\n"
    machine = asked(READ_ONLY, IDLE, "", inside)
    [idea] = mended(machine)
    reset = "alter role till in database books reset default_transaction_read_only"
    assert reset in idea.fix[0]
    assert "set default_transaction_read_only = off" in idea.fix[0]
    assert idea.fix[1:] == ("supervisorctl restart till",)
    assert "default_transaction_read_only = " in idea.undo


def test_a_setting_that_does_not_fit_what_is_said_is_left_alone() -> None:
    for row in (
        "set|kim||work_mem=64kB",
        "set|kim; drop table x||default_transaction_read_only=on",
    ):
        assert not mended(asked(READ_ONLY, IDLE, "", f"{row}\n"))


def test_settings_are_not_looked_at_for_what_no_database_says() -> None:
    machine = asked("the disk is mounted read only, giving up", IDLE, "")
    assert not list(statement.statements(machine))


def test_a_small_table_needs_no_index() -> None:
    row = "52|till|till|5002|active|1||select * from notes where owner = $1|\n"
    inside = "index|notes|{}|CREATE UNIQUE INDEX notes_pkey ON public.notes USING btree (id)\n"
    small = asked(LATE, "", f"{row}\n\n{row}", inside.format(500))
    assert not mended(small)
    never_counted = asked(LATE, "", f"{row}\n\n{row}", inside.format(-1))
    assert not mended(never_counted)


def test_services_that_do_not_ask_the_database_are_not_started_anew() -> None:
    inside = "set|till||default_transaction_read_only=on\n"
    machine = asked(READ_ONLY, IDLE, "", inside)
    other = BOOKS.replace("port=5433", "port=5999")
    moved = Case(machine.brief, [*machine.observed, Seen(f"cat {CONF}", other)])
    assert all("restart" not in command for one in mended(moved) for command in one.fix)
