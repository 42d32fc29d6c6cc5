"""Follows a program by its line in the table."""

from hermes_agent.policy.shell.interpreter.state import ExpandedWord
from hermes_agent.policy.shell.programs import argument_roles
from hermes_agent.policy.shell.programs.call import ProgramCall


def follow(call: ProgramCall) -> None:
    """Work out the roles of the words, note the program, and go on with what it runs."""
    reading = call.reading
    found = reading.spec
    for option, role, field in reading.values:
        argument_roles.apply(call, role, field, option)
    for role, field in reading.operands:
        argument_roles.apply(call, role, field, "")
    stdin = call.run.around.stdin
    if (
        found.input
        and stdin is not None
        and not any(r == found.input for _, r, _ in reading.values)
    ):
        text = ExpandedWord(stdin.text or "", dynamic=stdin.text is None)
        argument_roles.apply(call, found.input, text, "<")
    runs = reading.rest is not None and bool(reading.rest)
    if runs and (reading.unlisted or reading.unsure):
        words = " ".join([*reading.unlisted, *(field.text for field in reading.unsure)])
        call.unknown(ExpandedWord(words), f"where the command of {call.name} starts")
    elif reading.unlisted and found.closed:
        words = " ".join(reading.unlisted)
        call.unknown(ExpandedWord(words), f"not a known option of {call.name}")
    elif reading.unsure and found.risky:
        call.unknown(reading.unsure[0], f"may be an option of {call.name}")
    if not (runs and found.bare and not call.places and not call.hosts):
        call.note()
    for step in call.later:
        step()
    if runs and reading.rest is not None:
        argument_roles.go_on(call, reading.rest)
