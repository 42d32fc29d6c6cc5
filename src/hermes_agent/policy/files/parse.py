"""Parses and checks policy files; every problem is reported with its line."""

import re
from typing import Any, Literal, get_args

from hermes_agent.core.effects import (
    Access,
    Action,
    Actor,
    ApprovalRequirement,
    Origin,
)
from hermes_agent.policy.files.reader import PolicyReader
from hermes_agent.policy.files.rule_lint import (
    CHECKED,
    PLACES,
    SESSIONS,
    near,
    pattern_trouble,
    rule_trouble,
)
from hermes_agent.policy.files.schema import (
    PolicyFile,
    PolicyProblem,
    PolicyRule,
    PolicyTest,
    Rewrite,
    RuleAction,
    RuleConfinement,
    RuleMatch,
)
from hermes_agent.policy.yaml_nodes import BadYaml, Node, parse

VERSION = 1
KINDS: tuple[str, ...] = ("call", "program", "path", "host", "unknown")
ACCESSES: tuple[str, ...] = get_args(Access)
ACTIONS: tuple[Action, ...] = get_args(Action)
ORIGINS: tuple[Origin, ...] = get_args(Origin)
CONFINEMENTS: tuple[RuleConfinement, ...] = get_args(RuleConfinement)

_HEADER = (
    "version", "name", "description", "profile", "extends", "otherwise", "rules", "tests",
)  # fmt: skip
_RULE = ("id", "match", "when", "then", "reason", "secrets", "exact", "confine")
_CASE = (
    "run", "call", "input", "expect", "rule", "becomes", "profile", "terminal", "place", "folder",
    "as", "at", "files", "origin",
)  # fmt: skip
_CASE_TEXTS = ("call", "rule", "becomes", "profile", "terminal", "place", "folder", "origin")
_CHOICES = {"kind": KINDS, "access": ACCESSES, "session": SESSIONS, "origin": ORIGINS}
_BOOLEANS = ("confined", "unknown", "computed")
_FOLDERS = ("inside", "outside")
_WORDS = re.compile(r"\b(?:and|or|not)\b")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_SIGNS = {"and": "&&", "or": "||", "not": "!"}


def read_file(name: str, path: str, text: str) -> tuple[PolicyFile, tuple[PolicyProblem, ...]]:
    """The file as far as it could be parsed, and all its problems."""
    nothing = PolicyFile(name, path)
    try:
        root = parse(path, text)
    except BadYaml as bad:
        return nothing, (bad.problem,)
    if root is None or root.is_null:
        return nothing, (
            PolicyProblem(path, 1, 1, "it is empty", f"start it with version: {VERSION}"),
        )
    reader = _FileReader(path)
    return reader.file(name, root), tuple(reader.problems)


def _at(node: Node | None) -> tuple[int, int]:
    return (node.line, node.column) if node is not None else (1, 1)


class _FileReader(PolicyReader):
    def file(self, name: str, root: Node) -> PolicyFile:
        given = self.mapping(root, "a policy file", _HEADER)
        if root.pairs is not None:
            self._version(root, given.get("version"))
        rules = [self._rule(name, node) for node in self.sequence(given.get("rules"), "rules")]
        tests = [self._case(node) for node in self.sequence(given.get("tests"), "tests")]
        texts = {
            key: self.string(given[key], key) if key in given else ""
            for key in ("name", "description", "profile", "extends")
        }
        if texts["extends"] and not texts["profile"]:
            self.wrong(given["extends"], "only a profile can extend one", "add profile: NAME")
        self._unique(given.get("rules"), rules)
        return PolicyFile(
            name, self.path, texts["name"] or name, texts["description"], texts["profile"],
            texts["extends"], self._otherwise(given), tuple(rules), tuple(tests),
            _at(given.get("extends")),
        )  # fmt: skip

    def _otherwise(self, given: dict[str, Node]) -> Literal["", "ask", "deny"]:
        if "otherwise" not in given:
            return ""
        node = given["otherwise"]
        if "profile" not in given:
            self.wrong(node, "only a profile can set otherwise", "add profile: NAME")
        return "deny" if self.choice(node, "otherwise", ("ask", "deny")) == "deny" else "ask"

    def _version(self, root: Node, node: Node | None) -> None:
        if node is None or node.value() != VERSION:
            at = node or root
            self.wrong(at, f"the version must be {VERSION}", f"start with version: {VERSION}")

    def _unique(self, node: Node | None, rules: list[PolicyRule]) -> None:
        seen: set[str] = set()
        items = node.items if node is not None and node.items is not None else []
        for item, rule in zip(items, rules, strict=False):
            if rule.id and rule.id in seen:
                self.wrong(item, f"two rules have the id {rule.id!r}", "rename one")
            seen.add(rule.id)

    # rules

    def _confine(self, given: dict[str, Node], action: RuleAction) -> RuleConfinement:
        if "confine" not in given:
            return "none"
        if action != "allow":
            self.wrong(given["confine"], "confine is only valid with `then: allow`", "remove it")
        word = self.choice(given["confine"], "confine", CONFINEMENTS)
        return next((known for known in CONFINEMENTS if known == word), "read-only")

    def _rule(self, file: str, node: Node) -> PolicyRule:
        given = self.mapping(node, "a rule", _RULE)
        action, consent, rewrite = self._then(node, given.get("then"))
        match = self._match(given["match"]) if "match" in given else RuleMatch()
        self._sense(node, given, action, match, consent, rewrite)
        if action == "allow" and match == RuleMatch():
            self.wrong(node, "an allow rule must say what it allows", "add something to match")
        id = self.string(given["id"], "id") if "id" in given else ""
        if "id" not in given:
            self.wrong(node, "a rule needs an id", "a word or two, such as restart-asks")
        elif "/" in id or not id.isprintable() or " " in id:
            self.wrong(given["id"], f"the id {id!r} has spaces or slashes", "join the words with -")
        return PolicyRule(
            id=id, file=file, path=self.path, line=node.line, action=action, match=match,
            when=self._when(given["when"]) if "when" in given else "",
            consent=consent, rewrite=rewrite,
            secrets=self._only(given, "secrets", action, "allow"),
            exact=bool(self._only(given, "exact", action, "ask")),
            reason=self.string(given["reason"], "reason") if "reason" in given else "",
            confine=self._confine(given, action),
        )  # fmt: skip

    def _only(
        self, given: dict[str, Node], key: str, action: RuleAction, wanted: RuleAction
    ) -> tuple[str, ...]:
        """A key that is only valid with one action."""
        if key not in given:
            return ()
        if action != wanted:
            self.wrong(given[key], f"{key} is only valid with `then: {wanted}`", "remove it")
        if key == "exact":
            return ("exact",) if self.boolean(given[key], key) else ()
        names = self.strings(given[key], key)
        self._check_patterns(key, given[key], names, RuleMatch())
        return names

    def _sense(
        self, rule: Node, given: dict[str, Node], action: RuleAction, match: RuleMatch,
        consent: ApprovalRequirement, rewrite: Rewrite,
    ) -> None:  # fmt: skip
        pairs = given["match"].pairs or [] if "match" in given else []
        nodes = {**given, **{key.text or "": value for key, value in pairs}}
        for wrong in rule_trouble(action, match, consent, rewrite):
            self.wrong(nodes.get(wrong.key, rule), wrong.message, wrong.hint)

    def _then(
        self, rule: Node, node: Node | None
    ) -> tuple[RuleAction, ApprovalRequirement, Rewrite]:
        plain: dict[str, RuleAction] = {
            "allow": "allow", "ask": "ask", "deny": "deny", "audit": "audit", "confine": "confine",
        }  # fmt: skip
        if node is None:
            self.wrong(rule, "a rule needs a then", f"one of: {', '.join(plain)}, rewrite")
            return "deny", ApprovalRequirement(), Rewrite()
        if node.text is not None:
            word = node.text
            if word not in plain:
                hint = (
                    "write {rewrite: {add: [...]}}"
                    if word == "rewrite"
                    else near(word, tuple(plain))
                )
                self.wrong(node, f"then cannot be {word!r}", hint)
            return plain.get(word, "deny"), ApprovalRequirement(), Rewrite()
        given = self.mapping(node, "then", ("ask", "rewrite"))
        if len(given) != 1:
            self.wrong(
                node,
                "then must be exactly one action",
                "allow, deny, ask, audit, confine or rewrite",
            )
            return "deny", ApprovalRequirement(), Rewrite()
        if "ask" in given:
            return "ask", self._consent(given["ask"]), Rewrite()
        return "rewrite", ApprovalRequirement(), self._rewrite(given["rewrite"])

    def _consent(self, node: Node) -> ApprovalRequirement:
        given = self.mapping(node, "ask", ("by", "count", "within"))
        return ApprovalRequirement(
            self.strings(given["by"], "by") if "by" in given else (),
            self.count(given["count"], "count") if "count" in given else 1,
            self.duration(given["within"], "within") if "within" in given else None,
        )

    def _rewrite(self, node: Node) -> Rewrite:
        given = self.mapping(node, "rewrite", ("add", "remove", "set"))
        if node.pairs is not None and not given:
            self.wrong(node, "rewrite must say what to change", "add, remove or set")
        return Rewrite(
            self.strings(given["add"], "add") if "add" in given else (),
            self.strings(given["remove"], "remove") if "remove" in given else (),
            self.anything(given["set"], "set") if "set" in given else {},
        )

    def _when(self, node: Node) -> str:
        from hermes_agent.policy.patterns.expressions import trouble

        text = self.string(node, "when")
        if text and (found := trouble(text)) is not None:
            words = _WORDS.findall(_QUOTED.sub("", text))
            hint = (
                f"in CEL, write {', '.join(f'{_SIGNS[word]} for {word}' for word in words)}"
                if words
                else "docs/reference/policies.md lists the names"
            )
            self.wrong(node, f"when: {found}", hint)
        return text

    def _match(self, node: Node) -> RuleMatch:
        given = self.mapping(node, "match", RuleMatch.__struct_fields__)
        values: dict[str, Any] = {}
        for key, value in given.items():
            if key in _CHOICES:
                values[key] = self.choices(value, key, _CHOICES[key])
            elif key in _BOOLEANS:
                values[key] = self.boolean(value, key)
            elif key in _FOLDERS:
                values[key] = self.choice(value, key, ("workspace",))
            elif key == "time":
                values[key] = self.times(value)
            elif key == "input":
                values[key] = self._inputs(value)
            else:
                values[key] = self.strings(value, key)
        match = RuleMatch(**values)
        for key, value in given.items():
            if key in CHECKED:
                self._check_patterns(key, value, values[key], match)
        return match

    def _inputs(self, node: Node) -> dict[str, tuple[str, ...]]:
        if node.pairs is None:
            self.wrong(node, "input must be a mapping of arguments to patterns")
            return {}
        return {
            key.text or "": () if value.is_null else self.strings(value, "input")
            for key, value in node.pairs
        }

    def _check_patterns(
        self, key: str, node: Node, patterns: tuple[str, ...], match: RuleMatch
    ) -> None:
        for text in patterns:
            if (wrong := pattern_trouble(key, text, match)) is not None:
                self.wrong(node, f"{key} {text!r}: {wrong[0]}", wrong[1])

    # tests

    def _case(self, node: Node) -> PolicyTest:
        given = self.mapping(node, "a test", _CASE)
        if node.pairs is not None and ("run" in given) == ("call" in given):
            self.wrong(node, "a test needs either run or call", 'for instance run: "rm -rf build"')
        expect: Action = "deny"
        if "expect" in given:
            word = self.choice(given["expect"], "expect", ACTIONS)
            expect = next((action for action in ACTIONS if action == word), "deny")
        elif node.pairs is not None:
            self.wrong(node, "a test needs an expect", f"one of: {', '.join(ACTIONS)}")
        texts = {key: self.string(given[key], key) for key in _CASE_TEXTS if key in given}
        if "place" in given:
            self.choice(given["place"], "place", PLACES)
        if "origin" in given:
            self.choice(given["origin"], "origin", ORIGINS)
        links = self.anything(given["files"], "files") if "files" in given else {}
        return PolicyTest(
            line=node.line, expect=expect,
            run=self.string(given["run"], "run") if "run" in given else None,
            input=self.anything(given["input"], "input") if "input" in given else {},
            actor=self._actor(given["as"]) if "as" in given else Actor(),
            time=self._moment(given["at"]) if "at" in given else 0.0,
            files={str(link): str(target) for link, target in links.items()},
            **texts,
        )  # fmt: skip

    def _actor(self, node: Node) -> Actor:
        given = self.mapping(node, "as", ("actor", "source"))
        word = self.string(given["actor"], "actor") if "actor" in given else "user"
        kind, _, name = word.partition("/")
        if kind not in SESSIONS:
            self.wrong(node, f"unknown kind of actor: {kind!r}", near(kind, SESSIONS))
        source = self.string(given["source"], "source") if "source" in given else "cli"
        for known in get_args(Actor.__annotations__["kind"]):
            if known == kind:
                return Actor(known, name, source)
        return Actor(name=name, source=source)

    def _moment(self, node: Node) -> float:
        from datetime import UTC, datetime

        text = self.string(node, "at")
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.wrong(node, f"at cannot be {text!r}", "for instance 2026-03-01T23:30:00+01:00")
            return 0.0
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
