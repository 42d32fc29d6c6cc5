"""Reads `runbook.yaml`: commands and what each must result in.

when:                                   # it is for this case only if all of these hold
  - run: systemctl is-failed {{unit}}
define: |                               # shell functions, put before every command
  said() { journalctl -u {{unit}} -n 50 --no-pager; }
steps:
  - name: restart it
    run: systemctl restart {{unit}}
    timeout: 60
    expect: {exit: 0, no_output: error}
    verify: {run: systemctl is-active {{unit}}}
verify:                                 # must hold at the end; if it does before, all is done
  - run: curl -s localhost:8080/health
    expect: {output: '"status": *"ok"'}
"""

import math
import re
import shlex
from collections.abc import Callable, Mapping

from hermes_agent.core.errors import UsageError
from hermes_agent.core.skills import Check, Expectation, Runbook, RunStep
from hermes_agent.core.text.patterns import matches
from hermes_agent.learning.skills.template import PLACEHOLDER, SERVICE_FACTS, within
from hermes_agent.policy.files.reader import PolicyReader
from hermes_agent.policy.files.rule_lint import near
from hermes_agent.policy.files.schema import PolicyProblem
from hermes_agent.policy.yaml_nodes import BadYaml, Node, parse, scalar

_NAME = "runbook.yaml"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_CODE = 255
_CHECK = ("run", "expect", "timeout")
_STEP = (*_CHECK, "verify", "name")
_RUNBOOK = ("steps", "when", "verify", "define")
_EXPECT = ("exit", "output", "no_output")


def load(text: str, values: Mapping[str, str], facts: Mapping[str, str] | None = None) -> Runbook:
    """The runbook with its placeholders filled: values are quoted, facts are shell text. Raises a
    `UsageError` with the place of an error."""
    for name, value in values.items():
        if _CONTROL.search(value):
            raise UsageError(
                f"the value of {name} contains a line break or another control character",
                "write it as one line of text",
            )
    try:
        root = parse(_NAME, text)
    except BadYaml as bad:
        lines = text.splitlines()[bad.problem.line - 1 : bad.problem.line]
        braces = any("{{" in line for line in lines)
        raise _error(bad.problem, "quote values that contain {{…}}" if braces else "") from None
    if root is None or root.is_null:
        raise UsageError("the runbook is empty", "it needs steps: a list of commands to run")
    reader = _Reader(values, facts or {})
    runbook = reader.runbook(root)
    if reader.problems:
        raise _error(reader.problems[0])
    return runbook


def _error(problem: PolicyProblem, hint: str = "") -> UsageError:
    place = f"line {problem.line}, column {problem.column}"
    return UsageError(f"{place}: {problem.message}", hint or problem.hint)


class _Reader(PolicyReader):
    def __init__(self, values: Mapping[str, str], facts: Mapping[str, str]) -> None:
        super().__init__(_NAME)
        self._values = values
        self._facts = facts

    def runbook(self, node: Node) -> Runbook:
        given = self.mapping(node, "a runbook", _RUNBOOK)
        define = self._command(given["define"], "define") if "define" in given else ""
        if node.pairs is not None and "steps" not in given:
            self.wrong(node, "a runbook needs steps", "steps: a list of commands to run")
        steps = self.sequence(given["steps"], "steps") if "steps" in given else ()
        if "steps" in given and given["steps"].items == []:
            self.wrong(given["steps"], "there are no steps", "name at least one command to run")
        return Runbook(
            tuple(self._step(step) for step in steps),
            self._checks(given, "when"),
            self._checks(given, "verify"),
            define.rstrip("\n") + "\n" if define else "",
        )

    def _checks(self, given: Mapping[str, Node], name: str) -> tuple[Check, ...]:
        if name not in given:
            return ()
        nodes = self.sequence(given[name], name)
        return tuple(self._check(node, f"a check of {name}") for node in nodes)

    def _check(self, node: Node, what: str) -> Check:
        given = self.mapping(node, what, _CHECK)
        return Check(self._run(node, given, what), self._expect(given), self._timeout(given))

    def _step(self, node: Node) -> RunStep:
        given = self.mapping(node, "a step", _STEP)
        name = self.string(given["name"], "name") if "name" in given else ""
        return RunStep(
            self._run(node, given, "a step"),
            self._expect(given),
            self._timeout(given),
            self._check(given["verify"], "the check of a step") if "verify" in given else None,
            self._filled(given["name"], name, str) if name else "",
        )

    def _run(self, node: Node, given: Mapping[str, Node], what: str) -> str:
        if "run" not in given:
            if node.pairs is not None:
                self.wrong(node, f"{what} needs a command", "run: the command")
            return ""
        return self._command(given["run"], "run")

    def _command(self, node: Node, what: str) -> str:
        text = self.string(node, what)
        if not text.strip():
            self.wrong(node, "the command is empty", "write the command to run")
        for found in PLACEHOLDER.finditer(text):
            inside = within(text, found.start())
            if inside and found[1] in self._values:
                hint = "values are quoted automatically: write it as a separate word"
                self.wrong(node, f"{found[0]} is within {inside}", hint)
        return self._filled(node, text, shlex.quote)

    def _expect(self, given: Mapping[str, Node]) -> Expectation:
        if "expect" not in given:
            return Expectation()
        said = self.mapping(given["expect"], "expect", _EXPECT)
        code = self._code(said["exit"]) if "exit" in said else 0
        return Expectation(code, self._pattern(said, "output"), self._pattern(said, "no_output"))

    def _code(self, node: Node) -> int | None:
        value = scalar(node) if node.text is not None else ""
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_CODE:
            self.wrong(node, "exit must be a code from 0 to 255, or null where any will do")
            return 0
        return value

    def _timeout(self, given: Mapping[str, Node]) -> float | None:
        if "timeout" not in given:
            return None
        node = given["timeout"]
        value = scalar(node) if node.text is not None else None
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
        if not 0 < number < math.inf:
            self.wrong(node, "timeout must be a number of seconds above 0")
            return None
        return float(number)

    def _pattern(self, said: Mapping[str, Node], name: str) -> str:
        if name not in said:
            return ""
        node = said[name]
        filled = self._filled(node, self.string(node, name), re.escape)
        try:
            matches(filled, "")
        except UsageError as error:
            self.wrong(node, f"{name}: {error.message}", error.hint)
        return filled

    def _filled(self, node: Node, text: str, quoted: Callable[[str], str]) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] in self._values:
                return quoted(self._values[found[1]])
            if found[1] in self._facts:
                plain = quoted is shlex.quote
                return self._facts[found[1]] if plain else quoted(self._facts[found[1]])
            known = tuple(self._values)
            if found[1] in SERVICE_FACTS:
                hint = "it is filled in for skills with hermes-incident, during an incident"
                self.wrong(node, f"nothing is known of {found[0]} here", hint)
                return ""
            hint = near(found[1], known) if known else "the skill declares no parameters"
            self.wrong(node, f"no parameter is called {found[1]!r}", hint)
            return ""

        return PLACEHOLDER.sub(value, text)
