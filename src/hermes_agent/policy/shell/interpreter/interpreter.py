"""Follows a parsed text the way the shell would, over all branches, and notes what it does."""

import re
from collections.abc import Callable

from msgspec.structs import replace

from hermes_agent.core.effects import Access, Operation, PathAccess
from hermes_agent.policy.shell.interpreter.collector import OperationCollector, host_of, places_of
from hermes_agent.policy.shell.interpreter.expand import Expander, hides_code
from hermes_agent.policy.shell.interpreter.state import (
    NUMBER,
    ExpandedWord,
    ShellContext,
    State,
    Stdin,
    Value,
)
from hermes_agent.policy.shell.parser.commands import ShellParser
from hermes_agent.policy.shell.parser.syntax import (
    Branches,
    Chain,
    Command,
    Compound,
    Coprocess,
    Function,
    Group,
    Literal,
    Loop,
    Pipeline,
    Quoted,
    Redirection,
    Script,
    Simple,
    TestExpression,
    UnreadableShell,
)
from hermes_agent.policy.shell.parser.words import ParseBudget
from hermes_agent.policy.shell.programs.dangerous_variables import changes_what_runs
from hermes_agent.policy.shell.programs.embedded_languages import named_files

_MAX_STEPS = 20_000
_MAX_DEPTH = 40
_MAX_ROUNDS = 32
_LEAVING = frozenset({"exit", "return", "break", "continue"})
_COMPARES = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_GLOB = re.compile(r"[*?[]")
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>", "<>", ">&"})


class Redirected:
    """What the redirections of one command touch, until the program that they belong to is
    noted."""

    def __init__(self) -> None:
        self.places: list[PathAccess] = []
        self.hosts: list[str] = []
        self.stdin: Stdin | None = None
        self.stdout = False
        """Whether the output goes elsewhere."""

    def take(self) -> tuple[list[PathAccess], list[str]]:
        taken = (self.places, self.hosts)
        self.places, self.hosts = [], []
        return taken


class ShellInterpreter:
    """One reading of one text. What follows simple commands, what dispatches to programs, and what
    knows their names is handed in."""

    def __init__(
        self, simple: "RunSimple", dispatch: "Dispatch", is_known: Callable[[str], bool]
    ) -> None:
        self.note = OperationCollector()
        self.budget = ParseBudget()
        self.steps = 0
        self.depth = 0
        self.calling: list[Command] = []
        self.inputs: dict[str, list[PathAccess]] = {}
        """By descriptor: what is opened there to be read."""
        self.outputs: set[str] = set()
        """Descriptors that somebody writes to."""
        self.run_simple = simple
        self.dispatch = dispatch
        self.is_known = is_known

    def descend(self) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnreadableShell("nested too deeply")

    def text(self, text: str, state: State, around: ShellContext) -> str | None:
        """Follow shell text that stands in a string."""
        try:
            script = ShellParser(text, self.budget, nested=True, bash=around.bash).whole()
        except UnreadableShell as problem:
            self.note.unknown(text, f"not understood: {problem}", around)
            state.forget()
            return None
        return self.script(script, state, around)

    def unknown(self, text: str, reason: str, around: ShellContext, program: str = "") -> None:
        self.note.unknown(text, reason, around, program)

    def substitute(self, body: Script, state: State, around: ShellContext) -> str | None:
        return self.script(body, state.copy(), around)

    def script(self, script: Script, state: State, around: ShellContext) -> str | None:
        """Follow the commands one after the other; what they print together, when known."""
        self.descend()
        output: str | None = ""
        for command, background in script.items:
            printed = self.command(command, state.copy() if background else state, around)
            state.settle()
            output = None if output is None or printed is None else output + printed
        self.depth -= 1
        return output

    def command(self, command: Command, state: State, around: ShellContext) -> str | None:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise UnreadableShell("too complex to follow")
        if isinstance(command, Simple):
            return self.run_simple(self, command, state, around)
        if isinstance(command, Pipeline):
            return self.pipeline(command, state, around)
        if isinstance(command, Chain):
            self.chain(command, state, around)
            return None
        if isinstance(command, Function):
            self.define(command, state, around)
            return ""
        if isinstance(command, Coprocess):
            Expander(self, state, around).assign(command.name)
            self.command(command.body, state.copy(), around.fed(Stdin()))
            return None
        return self.compound(command, state, around)

    def pipeline(self, command: Pipeline, state: State, around: ShellContext) -> str | None:
        printed: str | None = ""
        inside = around
        for one in command.commands:
            printed = self.command(one, state.copy(), inside)
            inside = around.fed(Stdin(printed))
        return printed

    def chain(self, chain: Chain, state: State, around: ShellContext) -> None:
        self.command(chain.commands[0], state, around)
        for joint, command in zip(chain.joints, chain.commands[1:], strict=True):
            went, failed = state.outcomes()
            other = state.copy()
            other.folders, other.failed = (went if joint == "&&" else failed), ()
            self.command(command, other, around)
            then_went, then_failed = other.outcomes()
            if joint == "&&":
                went, failed = then_went, failed + then_failed
            elif leaves(command):
                failed = ()  # whoever goes on behind this did not fail
            else:
                went, failed = went + then_went, then_failed
            state.merge(other)
            state.stand(went)
            state.failed = () if set(failed) == set(state.folders) else tuple(dict.fromkeys(failed))

    def define(self, function: Function, state: State, around: ShellContext) -> None:
        """A body counts as run where it is defined: later commands may call it. One that is called
        like a program would make another thing of what a later command says."""
        if self.is_known(function.name):
            reason = "later commands would run it in place of the program"
            self.note.unknown(f"{function.name}()", reason, around, function.name)
        state.assign("FUNCNAME", None)
        state.functions[function.name] = (function.body,)
        if state.defined is not None:
            state.defined.add(function.name)
        state.unsure.discard(function.name)
        inside = state.copy()
        inside.positional = None
        self.call(function.body, inside, around)

    def call(self, body: Command, state: State, around: ShellContext) -> str | None:
        if any(body is one for one in self.calling):
            self.note.unknown("a function that calls itself", "it may never end", around)
            state.forget()
            return None
        self.calling.append(body)
        self.descend()
        output = self.command(body, state, around)
        self.depth -= 1
        self.calling.pop()
        return output

    def compound(self, command: Compound, state: State, around: ShellContext) -> str | None:
        redirected = self.redirections(command.redirections, state, around)
        places, hosts = redirected.take()
        self.note.places(places, hosts, Operation("program", via=around.via))
        if redirected.stdin is not None:
            around = around.fed(redirected.stdin)
        output: str | None = None
        if isinstance(command, Group):
            inside = state.copy() if command.subshell else state
            output = self.script(command.body, inside, around)
        elif isinstance(command, Branches):
            self.branches(command, state, around)
        elif isinstance(command, Loop):
            self.loop(command, state, around)
        else:
            self.condition(command, state, around)
            output = ""
        return None if redirected.stdout else output

    def condition(self, command: TestExpression, state: State, around: ShellContext) -> None:
        expander = Expander(self, state, around)
        before = ""
        for word, after in zip(command.words, (*command.words[1:], None), strict=True):
            if word.source.startswith("(("):
                expander.calculate(word.parts)
                continue
            expander.visit(word.parts)
            text = "".join(p.text for p in word.parts if isinstance(p, Literal | Quoted))
            counted = before in _COMPARES or (after is not None and after.source in _COMPARES)
            unsafe = counted and not expander.is_number(word.parts)
            if before in {"-v", "-R"}:
                unsafe = not (expander.joined(word.parts) or "").isidentifier()
            if unsafe or hides_code(text):
                self.unknown(word.source, "a number or a name that contains code", around, "[[")
            before = word.source

    def branches(self, command: Branches, state: State, around: ShellContext) -> None:
        expander = Expander(self, state, around)
        for word in command.words:
            expander.visit(word.parts)
        for condition in command.conditions:
            before = state.copy()
            self.script(condition, state, around)
            state.merge(before)
        ends = [state.copy()]
        for body in command.bodies:
            inside = state.copy()
            # a body of `case` may be fallen into from the one before
            inside.merge(ends[-1])
            self.script(body, inside, around)
            ends.append(inside)
        for end in ends:
            state.merge(end)

    def loop(self, loop: Loop, state: State, around: ShellContext) -> None:
        expander = Expander(self, state, around)
        expander.calculate(loop.arithmetic)
        fields: list[ExpandedWord] | None = None
        glob: str | None = None
        if loop.words is not None:
            fields = expander.fields(loop.words)
            glob = NUMBER if all(f.number or f.text.isdigit() for f in fields) else None
            if not loop.each or len(fields) > _MAX_ROUNDS or any(f.dynamic for f in fields):
                fields = None
        if changes_what_runs(loop.name, None):
            self.unknown(loop.name, f"{loop.name} changes what programs do", around)
        before = state.copy()
        if fields is None:
            self.rounds(loop, glob, state, around)
            return
        for field in fields:
            if hides_code(field.text):
                self.unknown(field.text, "a value that contains code", around)
            if field.glob:
                self.rounds(loop, field.text, state, around)
            else:
                state.assign(loop.name, field.text)
                self.script(loop.body, state, around)
        state.merge(before)

    def rounds(self, loop: Loop, glob: str | None, state: State, around: ShellContext) -> None:
        """Rounds of which nobody knows how many, for values that nobody knows, or for files that
        fit a glob."""
        for _ in range(_MAX_ROUNDS):
            moved = self.note.moved
            if loop.name:
                state.assign(loop.name, None)
                if glob is not None:
                    state.matches[loop.name] = glob
            inside = state.copy()
            if loop.condition is not None:
                self.script(loop.condition, inside, around)
            self.script(loop.body, inside, around)
            if not state.merge(inside) and moved == self.note.moved:
                return
        raise UnreadableShell("a loop changes too much")

    def redirections(
        self, redirections: tuple[Redirection, ...], state: State, around: ShellContext
    ) -> Redirected:
        found = Redirected()
        expander = Expander(self, state, around)
        for one in redirections:
            if one.body is not None:
                if one.fd in {"", "0"}:
                    found.stdin = Stdin(expander.joined(one.body))
                else:
                    expander.visit(one.body)
            elif one.operator == "<<<":
                text = expander.joined(one.target.parts)
                found.stdin = Stdin(None if text is None else text + "\n")
            else:
                self.redirect(one, expander, found)
        return found

    def redirect(self, one: Redirection, expander: Expander, found: Redirected) -> None:
        fields = expander.one(one.target)
        field = fields[0] if len(fields) == 1 else ExpandedWord(one.target.source, dynamic=True)
        number = field.text.rstrip("-")
        duplicates = one.operator in {"<&", ">&"} and not field.dynamic
        if one.fd == "1" or (not one.fd and one.operator not in {"<", "<&"}):
            found.stdout = True
        if one.fd.startswith("{"):
            expander.assign(one.fd.strip("{}"))
        if one.fd == "2" and one.operator == ">&":
            found.stdout = True  # what goes wrong is printed as well
        if one.fd == "0" or (one.operator in {"<", "<>", "<&"} and not one.fd):
            found.stdin = Stdin("" if field.text == "/dev/null" else field.content)
        if duplicates and (number.isdigit() or number == ""):
            if one.fd != "0" and (one.fd or one.operator == ">&"):
                self.outputs.add(number)
                opened = (*self.inputs.get(number, ()), *self.inputs.get("", ()))
                found.places += [replace(place, access="write") for place in opened]
            return
        if field.text.startswith(("/dev/tcp/", "/dev/udp/")):
            host = field.text.split("/")[3] if field.text.count("/") > 3 else field.text
            host = field.text if field.dynamic else host_of(ExpandedWord(host))
            # no rule about the program's own hosts is about this one
            self.note.places((), (host,), Operation("program", via=expander.around.via))
            return
        access: Access = "write" if one.operator in _WRITES else "read"
        if one.operator == "<":
            # what a descriptor was opened for does not hold who opens it once more
            descriptor = "" if one.fd.startswith("{") else one.fd or "0"
            if descriptor in {"1", "2"} | self.outputs or (self.outputs and not descriptor):
                access = "write"
            self.inputs.setdefault(descriptor, []).extend(places_of(field, access, expander.state))
        found.places += places_of(field, access, expander.state)


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

    def code(self, text: str, reason: str, program: str) -> None:
        """Code, or another word of which nothing is understood but names of files."""
        self.unknown(text, reason, program)
        words = (ExpandedWord(name, glob=bool(_GLOB.search(name))) for name in named_files(text))
        places = [one for word in words for one in places_of(word, "read", self.state)]
        like = Operation("program", program=program, via=self.around.via, reason=reason)
        self.walk.note.places(places, (), like)

    def set(
        self, name: str, value: Value, state: State | None = None, *, exported: bool = False
    ) -> None:
        """Assign a variable, and say so when it changes what runs."""
        (state or self.state).assign(name, value)
        if changes_what_runs(name, value, exported=exported):
            self.unknown(f"{name}=", f"{name} changes what programs do")
        texts = (value,) if isinstance(value, str) else value or ()
        if any(hides_code(text) for text in texts):
            self.unknown(f"{name}=", "a value that contains code")

    def inside(self, *via: str, state: State | None = None) -> "SimpleCommandRun":
        """The same command one wrapper further in."""
        return SimpleCommandRun(
            self.walk, state or self.state, self.around.through(*via), self.redirected
        )

    def words(self, fields: list[ExpandedWord], *, functions: bool = True) -> str | None:
        """Run a program with its words; what it prints, when known."""
        first = fields[0]
        if first.dynamic or first.glob or not first.text:
            text = " ".join(field.text for field in fields)
            self.unknown(text, f"which program {first.text!r} is", first.text or "''")
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


RunSimple = Callable[[ShellInterpreter, Simple, State, ShellContext], str | None]
Dispatch = Callable[[SimpleCommandRun, list[ExpandedWord]], str | None]


def leaves(command: Command) -> bool:
    """Whether nothing behind the command runs."""
    if isinstance(command, Group) and not command.subshell and command.body.items:
        return leaves(command.body.items[-1][0])
    return (
        isinstance(command, Simple) and bool(command.words)
        and command.words[0].source in _LEAVING
    )  # fmt: skip
