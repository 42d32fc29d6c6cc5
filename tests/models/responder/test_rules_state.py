"""Files in which services keep something and which are damaged, over what commands printed once."""

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rules.config import configuration
from hermes_agent.models.responder.rules.ideas import Idea, Rule
from hermes_agent.models.responder.rules.state import beside, damaged, ends
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

CONFIG, KEPT = "/etc/office/desk.cfg", "/srv/office/books/desk.xml"
PROGRAMS = f"""\
==> /etc/supervisor/conf.d/desk.conf <==
[program:desk]
command=python3 /opt/office/desk/desk.py {CONFIG}
stdout_logfile=/var/log/desk.out

==> /etc/supervisor/conf.d/till.conf <==
[program:till]
command=python3 /opt/office/till/desk.py /etc/office/till.cfg
"""
WRECK = f"20 1794772990.0 root {KEPT}\n"


def found(
    rule: Rule,
    copies: str = "",
    key: str = "Register",
    why: str = "no element found",
    torn: str = "",
) -> list[Idea]:
    said = f"2026-11-15 20:03:10 emerg: cannot parse register {KEPT}: {why}: line 2"
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "desk      FATAL     Exited too quickly\ntill      RUNNING   pid 9\n",
        probes.PROGRAMS: PROGRAMS,
        probes.show(CONFIG): f"ServerName desk\n{key} {KEPT}\n",
        probes.tail("/var/log/desk.out"): f"{said}\n",
        ends(KEPT): torn,
        beside(KEPT): f"{WRECK}{copies}3\n",
        probes.rows(KEPT): f"-rw-r--r-- 1 root root 20 2026-11-15 20:03:10.0 +0000 {KEPT}\n",
    }
    machine = Case(Brief("inc-1", service="desk"), [Seen(k, text) for k, text in shown.items()])
    return list(rule(machine))


def test_the_last_of_all_copies_is_put_in_wherever_it_was_put_away() -> None:
    ideas = found(
        damaged,
        "70 1785000000.0 root /var/backups/office/desk.xml.1\n"
        "70 1794700000.0 root /var/backups/office/desk.xml\n",
    )
    assert f"cp /var/backups/office/desk.xml {KEPT}" in ideas[0].fix


def test_what_another_keeps_and_what_was_taken_of_the_wreck_are_no_copies() -> None:
    assert not any(one.fix for one in found(
        damaged,
        "70 1794700000.0 root /var/backups/till/desk.xml\n"
        "20 1794772991.0 root /var/backups/office/desk.xml\n",
    ))  # fmt: skip
    packed = found(damaged, "70 1794700000.0 root /var/backups/office/desk.xml.1.gz\n")
    assert f"zcat /var/backups/office/desk.xml.1.gz > {KEPT}" in packed[0].fix


def test_what_it_writes_itself_is_not_taken_for_settings() -> None:
    assert all(KEPT not in one.locus for one in found(configuration))
    assert any(KEPT in one.locus for one in found(configuration, key="ConfigFile"))


def test_a_line_that_was_not_ended_goes_and_a_lock_is_no_copy() -> None:
    told = f"the last line of {KEPT} was not ended, after 9 lines\n"
    lock = f"9 1794772991.0 root {KEPT}.lck\n"
    (idea,) = found(damaged, lock, why="JSONDecodeError: Unterminated string", torn=told)
    assert idea.fix[1] == f"sed -i '$d' {KEPT}"
    assert not any(one.fix for one in found(damaged, lock, why="JSONDecodeError: Unterminated"))
