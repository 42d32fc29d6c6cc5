"""A simple command on its way through wrappers."""

from hermes_agent.policy.shell.interpreter.expand import hides_code
from hermes_agent.policy.shell.interpreter.interpreter import Redirected, ShellInterpreter
from hermes_agent.policy.shell.interpreter.state import ExpandedWord, ShellContext, State, Value
from hermes_agent.policy.shell.programs.dangerous_variables import changes_what_runs


class SimpleCommandRun:
    """One simple command on its way through wrappers."""

    def __init__(
        self, walk: ShellInterpreter, state: State, around: ShellContext, redirected: Redirected
    ) -> None:
        self.walk = walk
        self.state = state
        self.around = around
        self.redirected = redirected

    def unknown(self, text: str, reason: str, program: str = "") -> None:
        self.walk.note.unknown(text, reason, self.around, program)

    def set(self, name: str, value: Value, state: State | None = None) -> None:
        """Assign a variable, and say so when it changes what runs."""
        (state or self.state).assign(name, value)
        if changes_what_runs(name, value):
            self.unknown(f"{name}=", f"{name} changes what programs do")
        texts = (value,) if isinstance(value, str) else value or ()
        if any(hides_code(text) for text in texts):
            self.unknown(f"{name}=", "a value with code in it")

    def inside(self, *via: str, state: State | None = None) -> "SimpleCommandRun":
        """The same command one wrapper further in."""
        return SimpleCommandRun(
            self.walk, state or self.state, self.around.through(*via), self.redirected
        )

    def words(self, fields: list[ExpandedWord], *, functions: bool = True) -> str | None:
        """Run a program with its words; what it prints, when known."""
        first = fields[0]
        if first.dynamic or first.glob or not first.text:
            self.unknown(
                " ".join(field.text for field in fields), f"which program {first.text!r} is"
            )
            self.state.forget()
            return None
        self.walk.descend()
        if functions and first.text in self.state.functions:
            output = self.function(fields)
        else:
            output = self.plain(fields)
        self.walk.depth -= 1
        return output

    def function(self, fields: list[ExpandedWord]) -> str | None:
        name = fields[0].text
        if name in self.state.unsure:
            self.plain(fields)
        output: str | None = None
        before = self.state.positional
        bodies = self.state.functions[name]
        for body in bodies:
            inside = self.state.copy()
            inside.positional, inside.locals = tuple(fields[1:]), {}
            output = self.walk.call(body, inside, self.around)
            inside.variables |= inside.locals  # what was local is as it was before
            inside.positional, inside.locals = before, self.state.locals
            if len(bodies) == 1 and name not in self.state.unsure:
                self.state.become(inside)
            else:
                self.state.merge(inside)
        return output if len(bodies) == 1 and name not in self.state.unsure else None

    def plain(self, fields: list[ExpandedWord]) -> str | None:
        """Run a program or one of the shell's own commands, whatever functions there are."""
        return self.walk.dispatch(self, fields)
