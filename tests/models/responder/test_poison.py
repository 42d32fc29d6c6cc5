"""A worker that ends on one piece of its work, over what commands printed once."""

import subprocess
from pathlib import Path

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rules import poison
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

CONFIG, SPOOL = "/etc/mail/mail.toml", "/var/spool/mail-out"
PROGRAMS = f"""\
==> /etc/supervisor/conf.d/mail.conf <==
[program:mail]
command=python3 /srv/mail/mail.py {CONFIG}
stdout_logfile=/var/log/mail.out
"""
WELL = "2026-11-15 20:02:10 INFO taking m-17.json\n2026-11-15 20:02:11 INFO taking m-18.json\n"
ENDS = "ValueError: invalid literal for int() with base 10: 'abcd'\n"


def found(
    said: str, *there: str, state: str = "FATAL     Exited too quickly", aside: str = ""
) -> list[Idea]:
    rows = "".join(f"50 1794772000.0 root {path}\n" for path in there)
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: f"mail                             {state}\n",
        probes.PROGRAMS: PROGRAMS,
        probes.SUPERVISOR_LOG: "",
        probes.show(CONFIG): f'spool = "{SPOOL}"\n',
        probes.tail("/var/log/mail.out"): said,
    }
    seen = [Seen(command, text) for command, text in shown.items()]
    brief = Brief("inc-1", service="mail")
    wanted = [want for idea in poison.choked(Case(brief, seen)) for want in idea.wants]
    laid = poison.put_by([SPOOL])
    case = Case(brief, [*seen, *(Seen(x, aside if x == laid else rows) for x in wanted)])
    return [idea for idea in poison.choked(case) if idea.fix]


def test_the_piece_it_came_to_last_is_put_aside_and_kept() -> None:
    (idea,) = found(WELL + ENDS, f"{SPOOL}/in/m-18.json")
    assert idea.locus == f"{SPOOL}/in/m-18.json"
    assert idea.fix[0].startswith("mv -T ")
    assert idea.undo


def test_a_piece_that_was_done_or_is_not_to_blame_stays() -> None:
    assert not found(WELL + ENDS, f"{SPOOL}/done/m-18.json")
    assert not found(WELL + ENDS, f"{SPOOL}/in/m-17.json"), "it went on after that one"
    refused = "ConnectionRefusedError: [Errno 111] Connection refused\n"
    assert not found(WELL + refused, f"{SPOOL}/in/m-18.json")
    assert not found(WELL, f"{SPOOL}/in/m-18.json", state="RUNNING   pid 7, uptime 0:00:09")


def test_one_that_lives_must_have_come_to_it_time_after_time() -> None:
    up = "RUNNING   pid 7, uptime 1:00:09"
    again = (WELL.splitlines(keepends=True)[1] + f"2026-11-15 20:02:12 ERROR {ENDS}") * 3
    assert not found(WELL + ENDS, f"{SPOOL}/in/m-18.json", state=up)
    assert found(again, f"{SPOOL}/in/m-18.json", state=up)


def test_what_it_does_not_name_is_known_by_what_it_cannot_take() -> None:
    (idea,) = found(ENDS, f"{SPOOL}/in/m-18.json")
    assert idea.locus == f"{SPOOL}/in/m-18.json"
    assert not found(ENDS, f"{SPOOL}/in/m-18.json", f"{SPOOL}/in/m-19.json")


def test_after_two_pieces_that_did_not_help_it_is_handed_over() -> None:
    one, two = (f"/var/tmp/var-spool-mail-out-in-{name}.json.replaced\n" for name in ("x", "y"))
    for said in (WELL + ENDS, ENDS):
        assert found(said, f"{SPOOL}/in/m-18.json", aside=one)
        assert not found(said, f"{SPOOL}/in/m-18.json", aside=one + two)


def test_who_asks_for_something_does_not_say_what_is_moved() -> None:
    asked = "2026-11-15 20:02:11 INFO 10.0.0.7 GET /files/m-18.json\n"
    assert not found(asked + ENDS.replace("'abcd'", "abcd"), f"{SPOOL}/in/m-18.json")


def test_what_was_put_aside_is_counted_by_its_folder(tmp_path: Path) -> None:
    for name in ("srv-a[b]-in-x.replaced", "srv-a[b]-y.replaced.~1~", "srv-ab-x.replaced", "z"):
        (tmp_path / name).write_text("")
    look = poison.put_by(["/srv/a[b]"]).replace("/var/tmp", str(tmp_path))
    shown = subprocess.run(["bash", "-c", look], capture_output=True, text=True, check=True)
    assert len(shown.stdout.splitlines()) == 2
