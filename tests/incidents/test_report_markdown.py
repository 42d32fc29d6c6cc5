"""A report as people read it: nothing in it steers a terminal."""

from msgspec.structs import replace

from hermes_agent.core.incidents import Diagnosis, TimelineEntry
from hermes_agent.incidents.reports.markdown import markdown
from hermes_agent.incidents.reports.report import IncidentReport, Pointer, ReportedAction

ESCAPE = "\x1b]0;owned\x07\x1b[2Jgone"


def report(state: str) -> IncidentReport:
    return IncidentReport(
        "inc-1", f"web {ESCAPE}", "P1", state, "check", "web", "", 1_000.0, 1_060.0, 60.0,
        "web", Diagnosis("web", "disk-full", ESCAPE, ESCAPE),
        (Pointer(ESCAPE, "s", 3, "call", "terminal", f"cat {ESCAPE}"),), (),
        (ReportedAction(1_010.0, f"rm {ESCAPE}", True, ESCAPE, "s", 4, "call"),), (),
        (TimelineEntry("inc-1", 1, 1_000.0, "declared", ESCAPE, {}),), (ESCAPE,),
    )  # fmt: skip


def test_what_would_steer_a_terminal_is_shown_and_not_sent() -> None:
    text = markdown(report("resolved"))
    assert "\\x1b" in text
    assert [sign for sign in text if not sign.isprintable() and sign != "\n"] == []


def test_a_false_alarm_has_no_time_to_recover() -> None:
    assert "| time to recover | 1 min |" in markdown(report("resolved"))
    assert "time to recover" not in markdown(report("closed"))


def test_a_long_command_is_shown_in_short() -> None:
    long = ReportedAction(1_010.0, f"terminal: {'x' * 900}", True, "", "s", 4, "call")
    text = markdown(replace(report("resolved"), actions=(long,)))
    (line,) = [line for line in text.splitlines() if "terminal: xxx" in line]
    assert "x … x" in line
    assert line.count("x") < 240
