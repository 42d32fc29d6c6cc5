import os
from pathlib import Path

import pytest

from hermes_agent.core.errors import UsageError
from hermes_agent.policy.files.loader import Policies, together
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.operations import recorded
from hermes_agent.policy.path_resolvers import finish
from tests.support.policies import effect_of

LS = effect_of("ls")


class Files:
    """Policy files of a user and of Hermes, in two folders."""

    def __init__(self, folder: Path) -> None:
        self.own = folder / "home" / "policies"
        self.bundled = folder / "bundled"
        self.own.mkdir(parents=True)
        self.bundled.mkdir()
        self.bundle("always", "- {id: calls, match: {kind: call}, then: allow}")
        self.bundle("plain", "- {id: ls, match: {program: ls}, then: allow}", "profile: plain")

    def bundle(self, name: str, rules: str, *header: str) -> None:
        self._write(self.bundled, name, rules, *header)

    def write(self, name: str, rules: str, *header: str) -> None:
        self._write(self.own, name, rules, *header)

    def _write(self, folder: Path, name: str, rules: str, *header: str) -> None:
        lines = ["version: 1", *header, "rules:", *(f"  {line}" for line in rules.splitlines())]
        (folder / f"{name}.yaml").write_text("\n".join(lines))

    def policies(self) -> Policies:
        own = Policies.of_home(self.own.parent, Path("/home/user"))
        return Policies(own.folder, own.homes, self.bundled)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def decided(policies: Policies, profile: str = "plain") -> str:
    verdict = finish(policies.gate(profile).judge(LS, recorded(())))
    return f"{verdict.action} {verdict.rule}"


def names(policies: Policies, profile: str) -> list[str]:
    return [rule.name for rule in policies.rules(profile).rules]


def test_the_rules_stand_in_the_order_of_their_files(files: Files) -> None:
    one = "- {id: r, match: {program: ls}, then: ask}"
    files.write("b-all", one)
    files.write("a-mine", one, "profile: mine", "extends: plain")
    files.write("c-plain", one, "profile: plain")
    files.write("d-other", one, "profile: other")
    policies = files.policies()
    assert names(policies, "mine") == [
        "a-mine/r",
        "b-all/r",
        "c-plain/r",
        "plain/ls",
        "always/calls",
    ]
    assert names(policies, "plain") == ["b-all/r", "c-plain/r", "plain/ls", "always/calls"]
    assert names(policies, "other") == ["b-all/r", "d-other/r", "always/calls"]
    assert set(policies.load().profiles) == {"plain", "mine", "other"}


def test_an_own_rule_goes_before_those_of_hermes_and_a_deny_of_always_binds(files: Files) -> None:
    files.bundle("strict", "- {id: asks, match: {program: ls}, then: ask}", "profile: strict")
    assert decided(files.policies(), "strict") == "ask strict/asks"
    files.write("mine", "- {id: ls, match: {program: ls}, then: allow}")
    assert decided(files.policies(), "strict") == "allow mine/ls"
    files.bundle("always", "- {id: no, match: {program: ls}, then: deny}")
    assert decided(files.policies(), "strict") == "deny always/no"


def test_a_changed_file_counts_at_once_for_an_open_gate(files: Files) -> None:
    gate = files.policies().gate("plain")
    assert finish(gate.judge(LS, recorded(()))).action == "allow"
    files.write("mine", "- {id: no, match: {program: ls}, then: deny}")
    assert finish(gate.judge(LS, recorded(()))).rule == "mine/no"
    files.write("mine", "- {id: hmm, match: {program: ls}, then: ask}")
    assert finish(gate.judge(LS, recorded(()))).rule == "mine/hmm"
    (files.own / "mine.yaml").unlink()
    assert finish(gate.judge(LS, recorded(()))).action == "allow"


def test_unchanged_files_are_not_read_again(files: Files) -> None:
    files.write("mine", "- {id: a, then: ask}")
    old = files.policies()
    policies = Policies(old.folder, old.homes, files.bundled, clock=lambda: 2**62)
    assert policies.load() is policies.load()
    assert policies.rules("plain") is policies.rules("plain")


def test_a_broken_file_denies_everything_and_says_where_until_it_is_mended(files: Files) -> None:
    gate = files.policies().gate("plain")
    files.write("mine", "- {id: no, match: {progam: ls}, then: deny}", "profile: other")
    verdict = finish(gate.judge(LS, recorded(())))
    assert verdict.action == "deny"
    assert f"{files.own / 'mine.yaml'}:4:" in verdict.reason
    assert "no key 'progam'" in verdict.reason
    assert decided(files.policies()).startswith("deny")
    files.write("mine", "- {id: no, match: {program: ls}, then: ask}", "profile: other")
    assert finish(gate.judge(LS, recorded(()))).action == "allow"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 5000, b"version: 1\nrules: 3\n"])
def test_any_file_that_cannot_be_used_denies(files: Files, content: bytes) -> None:
    (files.own / "x.yml").write_bytes(content)
    assert decided(files.policies()).startswith("deny")


def test_a_file_that_cannot_be_read_denies(files: Files) -> None:
    (files.own / "gone.yaml").symlink_to(files.own / "nothing")
    assert decided(files.policies()).startswith("deny")
    (files.own / "gone.yaml").unlink()
    (files.own / "folder.yaml").mkdir()
    assert decided(files.policies()).startswith("deny")


def test_a_file_whose_rights_were_mended_is_read(files: Files) -> None:
    files.write("mine", "- {id: hmm, match: {program: ls}, then: ask}")
    path = files.own / "mine.yaml"
    policies = files.policies()
    path.chmod(0)
    assert decided(policies).startswith("ask" if os.geteuid() == 0 else "deny")
    path.chmod(0o600)
    assert decided(policies) == "ask mine/hmm"


def test_two_changes_within_a_moment_are_both_seen(files: Files) -> None:
    policies = files.policies()
    for name in ("aaa", "bbb", "ccc", "ddd"):
        files.write("mine", f"- {{id: {name}, match: {{program: ls}}, then: ask}}")
        assert decided(policies) == f"ask mine/{name}"


def test_a_folder_that_is_a_file_denies(files: Files) -> None:
    files.own.rmdir()
    files.own.write_text("not a folder")
    assert decided(files.policies()).startswith("deny")


def test_a_home_without_policies_is_in_order(files: Files) -> None:
    files.own.rmdir()
    assert decided(files.policies()) == "allow plain/ls"


def test_an_installation_without_what_always_holds_denies(files: Files) -> None:
    (files.bundled / "always.yaml").unlink()
    assert decided(files.policies()).startswith("deny")


def test_other_files_in_the_folder_are_left_alone(files: Files) -> None:
    (files.own / "notes.txt").write_text("[[[")
    (files.own / ".mine.yaml.swp").write_text("[[[")
    (files.own / ".hidden.yaml").write_text("[[[")
    assert decided(files.policies()) == "allow plain/ls"


def test_a_profile_that_there_is_not_is_named_with_those_that_are(files: Files) -> None:
    with pytest.raises(UsageError) as trouble:
        files.policies().gate("carefull")
    assert "'carefull'" in trouble.value.message
    assert "plain" in trouble.value.hint


def test_a_profile_that_goes_away_denies(files: Files) -> None:
    files.write("mine", "- {id: ls, match: {program: ls}, then: allow}", "profile: mine")
    gate = files.policies().gate("mine")
    (files.own / "mine.yaml").unlink()
    verdict = finish(gate.judge(LS, recorded(())))
    assert verdict.action == "deny"
    assert "no policy called 'mine'" in verdict.reason


MISFITS = [
    ([["profile: a", "extends: plane"]], "not a profile", "did you mean 'plain'?"),
    ([["profile: a", "extends: nowhere"]], "not a profile", "available: plain"),
    ([["profile: a", "extends: a"]], "'a' extends itself", "remove"),
    ([["profile: b", "extends: a"], ["profile: a", "extends: b"]], "a extends b extends a", "one"),
    ([["profile: b"], ["profile: a", "extends: plain"], ["profile: a", "extends: b"]],
     "another file makes 'a' extend 'plain'", "write extends: plain"),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "message", "hint"), MISFITS)
def test_profiles_that_do_not_go_together_are_told_with_their_line(
    files: Files, headers: list[list[str]], message: str, hint: str
) -> None:
    for number, header in enumerate(headers):
        files.write(f"f{number}", "- {id: a, then: ask}", *header)
    problem = files.policies().load().problems[-1]
    assert message in problem.message
    assert hint in problem.hint
    assert (problem.path, problem.line) == (str(files.own / f"f{len(headers) - 1}.yaml"), 3)


@pytest.mark.parametrize(("headers", "message", "hint"), MISFITS)
def test_a_file_that_is_not_in_force_is_judged_together_with_those_that_are(
    files: Files, tmp_path: Path, headers: list[list[str]], message: str, hint: str
) -> None:
    rules = "- {id: a, then: ask}"
    for number, header in enumerate(headers):
        files.write(f"f{number}", rules, *header)
    draft = (files.own / f"f{len(headers) - 1}.yaml").rename(tmp_path / "draft.yaml")
    loaded = files.policies().load()
    file, problems = read_file("draft", str(draft), draft.read_text())
    assert problems == ()
    problem = together(loaded, [file]).problems[-1]
    assert message in problem.message
    assert hint in problem.hint


def test_a_file_takes_the_place_of_the_one_of_its_name(files: Files, tmp_path: Path) -> None:
    files.write("a", "- {id: a, then: ask}", "profile: a")
    files.write("b", "- {id: b, then: ask}", "profile: b", "extends: a")
    loaded = files.policies().load()
    path = str(tmp_path / "a.yaml")
    same, _ = read_file("a", path, "version: 1\nprofile: a\n")
    assert together(loaded, [same]).problems == ()
    assert together(loaded, [same]).own[0].path == path
    other, _ = read_file("a", path, "version: 1\nprofile: aa\n")
    (problem,) = together(loaded, [other]).problems
    assert str(problem).startswith(f"{files.own / 'b.yaml'}:3:10: it extends 'a'")


def test_a_name_that_hermes_has_taken_is_refused(files: Files) -> None:
    files.write("plain", "- {id: a, then: ask}")
    (problem,) = files.policies().load().problems
    assert "Hermes has one called 'plain'" in problem.message


def test_the_tests_of_hermes_are_read_only_when_wanted(files: Files) -> None:
    path = files.bundled / "plain.yaml"
    path.write_text(f"{path.read_text()}\ntests:\n  - {{run: ls, expect: allow}}\n")
    assert [len(file.tests) for file in files.policies().load().bundled] == [0, 0]
    own = files.policies()
    loaded = Policies(own.folder, own.homes, files.bundled, tests=True).load()
    assert [len(file.tests) for file in loaded.bundled] == [0, 1]
