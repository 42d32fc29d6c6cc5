"""The policy for manifests: rules and exceptions. A user's file goes on top of the shipped one; all
its problems are reported at once."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.core.errors import UsageError
from hermes_agent.policy.files.reader import PolicyReader
from hermes_agent.policy.yaml_nodes import BadYaml, Node, parse
from hermes_drift.manifests.expressions import trouble
from hermes_drift.manifests.objects import POD_AT
from hermes_drift.manifests.rules import BUILT_IN, About, RuleParameters

SHIPPED = Path(__file__).with_name("policy.yaml")
Level = Literal["error", "warning", "off"]
LEVELS: tuple[str, ...] = get_args(Level)
_MATCHES = ("namespace", "name", "kind", "container", "image", "annotation")
_RULE = ("level", "want", "allow", "kinds", "why", "fix", "except", "ignorable")
_OWN = ("id", "about", "must", "message", "level", "kinds", "why", "fix", "except", "ignorable")


class Exempt(Struct, frozen=True):
    """An exception. Every given key must match, by any of its globs."""

    rules: tuple[str, ...]
    reason: str
    where: str
    """File and line."""
    namespace: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    container: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    annotation: tuple[str, ...] = ()
    """A name, or NAME=VALUE."""


class ManifestRule(Struct, frozen=True):
    id: str
    level: Level = "error"
    parameters: RuleParameters = RuleParameters()
    kinds: tuple[str, ...] = ()
    """Kinds of workloads it is for; empty for all."""
    why: str = ""
    fix: str = ""
    ignorable: bool = True
    """Whether an annotation in the manifest can waive it."""
    about: About = "object"
    must: str = ""
    """Of a user's own rule: a CEL expression that must be true."""
    message: str = ""


class Policy(Struct, frozen=True):
    title: str
    path: str
    rules: dict[str, ManifestRule]
    exempts: tuple[Exempt, ...] = ()


def load(path: Path | None = None) -> Policy:
    """The shipped policy, or a file on top of it."""
    return _shipped() if path is None else _read(path, _shipped())


@lru_cache(1)
def _shipped() -> Policy:
    return _read(SHIPPED, Policy("", "", {}))


def _read(path: Path, base: Policy) -> Policy:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(
            f"cannot read the policy {path}: {reason}", "name a YAML file with --policy"
        ) from None
    try:
        root = parse(str(path), text)
    except BadYaml as bad:
        raise UsageError(str(bad.problem), bad.problem.hint) from None
    reader = _ManifestPolicyReader(str(path), base)
    policy = base if root is None else reader.policy(root)
    if reader.problems:
        first = reader.problems[0]
        others = "".join(f"\n{problem}" for problem in reader.problems[1:])
        raise UsageError(f"{first}{others}", first.hint or "see docs/guides/manifests.md")
    return policy


class _ManifestPolicyReader(PolicyReader):
    def __init__(self, path: str, base: Policy) -> None:
        super().__init__(path)
        self._base = base
        self._exempts: list[Exempt] = []
        self._rules = dict(base.rules)

    def policy(self, root: Node) -> Policy:
        given = self.mapping(root, "a policy", ("title", "extends", "rules", "own", "except"))
        base = self._base
        if "extends" in given:
            chosen = self.choice(given["extends"], "`extends`", ("shipped", "nothing"))
            if chosen == "nothing":
                base = Policy("", "", {})
                self._rules = {}
        title = self._text(given, "title", base.title)
        if "rules" in given:
            for key, value in given["rules"].pairs or self._no_mapping(given["rules"]):
                self._built_in(key, value)
        for item in self._listed(given, "own"):
            self._own(item)
        for item in self._listed(given, "except"):
            self._exempt(item)
        return Policy(title, self.path, self._rules, (*self._exempts, *base.exempts))

    def _text(self, given: dict[str, Node], key: str, default: str) -> str:
        return self.string(given[key], f"`{key}`") if key in given else default

    def _listed(self, given: dict[str, Node], key: str) -> Sequence[Node]:
        return self.sequence(given[key], f"`{key}`") if key in given else ()

    def _no_mapping(self, node: Node) -> tuple[()]:
        self.mapping(node, "`rules`", ())
        return ()

    def _built_in(self, key: Node, value: Node) -> None:
        id = key.text or ""
        if id not in BUILT_IN:
            from hermes_agent.policy.files.rule_lint import near

            self.wrong(key, f"no rule called {id!r}", near(id, tuple(BUILT_IN)))
            return
        given = self.mapping(value, f"the rule {id}", _RULE)
        rule = self._rules.get(id, ManifestRule(id, about=BUILT_IN[id].about))
        parameters = rule.parameters
        for name in ("want", "allow"):
            if name in given:
                node = given[name]
                texts = () if node.items == [] else self.strings(node, f"`{name}`")
                parameters = replace(parameters, **{name: texts})
        self._add(replace(rule, parameters=parameters), given)

    def _own(self, node: Node) -> None:
        given = self.mapping(node, "a custom rule", _OWN)
        for name in ("id", "must", "message"):
            if name not in given:
                self.wrong(node, f"a custom rule needs `{name}`")
                return
        id = self.string(given["id"], "`id`")
        if id in BUILT_IN or id in self._rules:
            self.wrong(given["id"], f"there is already a rule called {id!r}", "choose another name")
        about: About = "object"
        if "about" in given:
            chosen = self.choice(given["about"], "`about`", get_args(About))
            about = next((one for one in get_args(About) if one == chosen), about)
        must = self.string(given["must"], "`must`")
        if (wrong := trouble(must, about)) is not None:
            self.wrong(given["must"], f"`must` is not a valid expression: {wrong}")
        message = self.string(given["message"], "`message`")
        self._add(ManifestRule(id, about=about, must=must, message=message), given)

    def _add(self, rule: ManifestRule, given: dict[str, Node]) -> None:
        """Add a rule, with the keys that all rules share."""
        level, kinds = rule.level, rule.kinds
        if "level" in given:
            word = self.choice(given["level"], "`level`", LEVELS)
            level = next((one for one in get_args(Level) if one == word), level)
        if "kinds" in given:
            kinds = self.strings(given["kinds"], "`kinds`")
            self._check_spelling(given["kinds"], kinds)
        why, fix = self._text(given, "why", rule.why), self._text(given, "fix", rule.fix)
        ignorable = rule.ignorable
        if "ignorable" in given:
            ignorable = self.boolean(given["ignorable"], "`ignorable`")
        self._rules[rule.id] = replace(
            rule, level=level, kinds=kinds, why=why, fix=fix, ignorable=ignorable
        )
        for item in self._listed(given, "except"):
            self._exempt(item, rule.id)

    def _check_spelling(self, node: Node, kinds: Sequence[str]) -> None:
        """Any kind can be named, but hardly one that looks like a known one."""
        for word in kinds:
            close = get_close_matches(word, POD_AT, 1, 0.85)
            if close and word not in POD_AT:
                self.wrong(node, f"`kinds` cannot be {word!r}", f"did you mean {close[0]!r}?")

    def _exempt(self, node: Node, rule: str = "") -> None:
        keys = ("reason", *_MATCHES) if rule else ("rules", "reason", *_MATCHES)
        given = self.mapping(node, "an exception", keys)
        if "reason" not in given:
            self.wrong(node, "an exception needs a `reason`", "say why the rule does not apply")
            return
        if not rule and "rules" not in given:
            self.wrong(node, "an exception needs `rules`", "list them, or move it under its rule")
            return
        if not given.keys() & set(_MATCHES):
            self.wrong(node, "this exception matches everything", "set the rule's level to off")
            return
        known = tuple(self._rules)
        names = (rule,) if rule else self.choices(given["rules"], "`rules`", known)
        reason = self.string(given["reason"], "`reason`")
        globs = {key: self.strings(given[key], f"`{key}`") for key in _MATCHES if key in given}
        self._exempts.append(Exempt(names, reason, f"{self.path}:{node.line}", **globs))
