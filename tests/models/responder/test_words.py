"""The same trouble in other words: what a line says is understood in whatever way it is put."""

import re

import pytest

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rules import absent, complaints, entry, permission, port, state
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        (port._TAKEN, "[ERROR] Connection in use: ('127.0.0.1', 8000)"),
        (port._TAKEN, "unable to create listening socket for address '127.0.0.1:9000'"),
        (permission._DENIED.pattern, "Access to the path '/x/y' is denied."),
        (permission._DENIED.pattern, "couldn't open /x/y for writing"),
        (permission._OPEN.pattern, "bad owner or permissions on /x/key"),
        (permission._OPEN.pattern, "the seal /x/key can be read by anybody"),
        (permission._OPEN.pattern, "file mode 0644 of /x/key is too loose"),
        (absent._ABSENT.pattern, "could not find /x/y"),
        (absent._ABSENT.pattern, "there is no /x/y"),
        (state._DAMAGED.pattern, "checkpoint /x/y.dat: short read"),
        (entry._OPTION.pattern, "stray argument --turbo"),
        (entry._OPTION.pattern, "--turbo: not an option"),
    ],
)
def test_a_rule_knows_its_trouble_in_other_words(rule: str, line: str) -> None:
    assert re.search(rule, line, re.IGNORECASE)


@pytest.mark.parametrize(
    "line",
    [
        "required key STORE_DSN missing value", "STORE_DSN environment variable is empty",
        "no STORE_DSN in the environment", "please set STORE_DSN first", "STORE_DSN not set",
    ],
)  # fmt: skip
def test_a_variable_that_is_missed_is_heard_of(line: str) -> None:
    found = complaints.read(line)
    assert found is not None
    assert (found.kind, found.name) == ("missing", "STORE_DSN")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("workers = 'many': not an integer", "workers"),
        ('workers: expected integer, found "many"', "workers"),
        ('strconv.Atoi: parsing "many": invalid syntax', ""),
        ("cannot parse 'many' as a duration", ""),
    ],
)
def test_a_value_that_is_not_taken_is_heard_of(line: str, name: str) -> None:
    found = complaints.read(line)
    assert found is not None
    assert (found.kind, found.name, found.value) == ("invalid", name, "many")


def test_the_last_words_of_what_does_not_come_up_are_trouble_however_they_are_put() -> None:
    log = "/var/log/supervisor/shop.log"

    def troubles(status: str, *said: str) -> list[str]:
        seen = {
            probes.STATUS: status, probes.tail(log): "\n".join(said),
            probes.PROGRAMS: f"==> /a.conf <==\n[program:shop]\ncommand=x\nstdout_logfile={log}\n",
        }  # fmt: skip
        case = Case(Brief("i", service="shop"), [Seen(one, out) for one, out in seen.items()])
        return case.troubles("shop")

    words = "no door to be had at 7001"
    assert troubles("shop  FATAL  Exited too quickly\n", "INFO opens", words) == [words]
    assert not troubles("shop  RUNNING  pid 4, uptime 0:10:00\n", "INFO opens", words)
