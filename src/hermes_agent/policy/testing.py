"""Runs the tests in policy files, with made-up effects: without disk or terminal."""

from collections.abc import Mapping
from typing import Any, cast, get_args

from msgspec import Struct

from hermes_agent.core.effects import Access, Action, Actor, Effect, Origin, paths_in
from hermes_agent.core.text.addresses import host_of
from hermes_agent.policy.files.loader import LoadedPolicies
from hermes_agent.policy.files.schema import PolicyFile, PolicyTest
from hermes_agent.policy.gate import Judged, RuleGate
from hermes_agent.policy.operations import KnownFolders
from hermes_agent.policy.path_resolvers import by_words, finish
from hermes_agent.policy.ruleset import RuleSet

WORKSPACE = "/workspace"
HOMES = KnownFolders("/home/user", "/home/user/.hermes")
PROFILE = "careful"
"""What a file is tested with when it belongs to no profile."""


_SOMEBODY = Actor()


class Touches(Struct, frozen=True):
    """What the gate knows of a tool."""

    capabilities: tuple[str, ...] = ()
    paths: Mapping[str, Access] = {}
    """Which arguments are paths, and what is done there."""
    command: str = ""
    """The argument that is shell text, if any."""
    hosts: tuple[str, ...] = ()
    """Which arguments are hosts."""


TERMINAL = Touches(("process",), {}, "command")
"""Of the tool that runs commands."""


class PolicyTestOutcome(Struct, frozen=True):
    file: PolicyFile
    case: PolicyTest
    profile: str
    got: Action
    rule: str
    reason: str
    became: str

    @property
    def passed(self) -> bool:
        case = self.case
        return (
            self.got == case.expect
            and case.rule in ("", self.rule, self.rule.partition("/")[2])
            and case.becomes in ("", self.became)
        )


def make_effect(
    tool: str,
    input: dict[str, Any],
    tools: Mapping[str, Touches],
    *,
    workspace: str,
    folder: str = "",
    terminal: str = "local",
    place: str = "local",
    actor: Actor = _SOMEBODY,
    time: float = 0.0,
    origin: str = "",
) -> Effect:
    """The effect of a call, as the agent would hand it to the gate."""
    touches = tools.get(tool, Touches())
    command = input.get(touches.command) if touches.command else None
    return Effect(
        id="test", tool=tool, input=input, session="test", workspace=workspace, folder=folder,
        terminal=terminal, terminal_kind=place, capabilities=touches.capabilities,
        command=str(command) if command is not None else None,
        paths=tuple(
            (access, path)
            for name, access in touches.paths.items()
            if name in input
            for path in paths_in(input[name])
        ),
        hosts=tuple(host_of(str(input[name])) for name in touches.hosts if input.get(name)),
        origin=_origin(origin, tool in tools), actor=actor, time=time,
    )  # fmt: skip


def _origin(named: str, known: bool) -> Origin:
    """The named origin; otherwise built in if the tool is known, else a program's."""
    for origin in get_args(Origin):
        if origin == named:
            return cast(Origin, origin)
    return "builtin" if known else "program"


def run_tests(
    loaded: LoadedPolicies, file: PolicyFile, tools: Mapping[str, Touches]
) -> list[PolicyTestOutcome]:
    """Every test of a file, against the file, its profile and what always holds. `tools` are the
    built-in ones that its tests call."""
    rules: dict[str, RuleSet] = {}
    outcomes = []
    for case in file.tests:
        profile = case.profile or file.profile or PROFILE
        if profile not in rules:
            rules[profile] = _beside(loaded, file, profile).rules(profile)
        judged = _judged(rules[profile], case, tools)
        verdict = judged.verdict
        facts = (verdict.action, verdict.rule, verdict.reason, judged.command or "")
        outcomes.append(PolicyTestOutcome(file, case, profile, *facts))
    return outcomes


def _beside(loaded: LoadedPolicies, file: PolicyFile, profile: str) -> LoadedPolicies:
    """The file with its profile and those it extends, and none of the user's other files."""
    if any(file.path == known.path for known in loaded.bundled):
        return LoadedPolicies((), loaded.bundled, ())
    chain = LoadedPolicies((file, *loaded.own), loaded.bundled, ()).chain(profile)
    own = [known for known in loaded.own if known.profile in chain and known.path != file.path]
    mine = file if file.profile in ("", *chain) else None
    return LoadedPolicies((*([mine] if mine else []), *own), loaded.bundled, ())


def _judged(rules: RuleSet, case: PolicyTest, tools: Mapping[str, Touches]) -> Judged:
    tool, input = case.call, case.input
    if case.run is not None:
        tool, input = "terminal", {TERMINAL.command: case.run}
    effect = make_effect(
        tool, input, {"terminal": TERMINAL, **tools}, workspace=WORKSPACE,
        folder=case.folder, terminal=case.terminal,
        place=case.place, actor=case.actor, time=case.time, origin=case.origin,
    )  # fmt: skip
    gate = RuleGate(lambda: rules, HOMES)
    return finish(gate.consider(effect, by_words(WORKSPACE, case.files)))
