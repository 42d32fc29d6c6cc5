"""The tests that policy files carry: those of Hermes pass, and a failing one is seen."""

from pathlib import Path
from textwrap import dedent

import pytest

from hermes_agent.policy.files.loader import BUNDLED, Policies
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.path_resolvers import by_words, finish, on_disk
from hermes_agent.policy.testing import PolicyTestOutcome, Touches, run_tests
from hermes_agent.runtime.tools.builtin import load_tools

TOOLS = {
    tool.name: Touches(tuple(tool.capabilities), dict(tool.paths), "", tuple(tool.hosts))
    for tool in load_tools()
}
TOOLS.pop("terminal")


@pytest.fixture
def policies(tmp_path: Path) -> Policies:
    return Policies.of_home(tmp_path, Path("/home/user"), tests=True)


def outcomes(policies: Policies, text: str) -> list[PolicyTestOutcome]:
    file, problems = read_file("mine", "mine.yaml", dedent(text))
    assert problems == ()
    return run_tests(policies.load(), file, TOOLS)


def test_every_bundled_file_is_in_order_and_carries_tests(policies: Policies) -> None:
    loaded = policies.load()
    assert loaded.problems == ()
    assert {file.name for file in loaded.bundled} == {path.stem for path in BUNDLED.iterdir()}
    assert [file.name for file in loaded.bundled if not file.tests] == []
    assert [file.name for file in loaded.bundled if not file.description] == []


@pytest.mark.parametrize("name", sorted(path.stem for path in BUNDLED.iterdir()))
def test_the_tests_of_every_bundled_file_pass(policies: Policies, name: str) -> None:
    loaded = policies.load()
    (file,) = (file for file in loaded.bundled if file.name == name)
    failed = [
        (outcome.case.line, outcome.case.run or outcome.case.call, outcome.got, outcome.rule)
        for outcome in run_tests(loaded, file, TOOLS)
        if not outcome.passed
    ]
    assert failed == []


def test_a_test_fails_by_its_verdict_its_rule_or_its_rewrite(policies: Policies) -> None:
    text = """
    version: 1
    rules:
      - {id: dry, match: {program: kubectl, verb: delete, no_flag: --dry-run},
         then: {rewrite: {add: --dry-run}}}
      - {id: k, match: {program: kubectl}, then: allow}
    tests:
      - {run: kubectl get pods, expect: allow}
      - {run: kubectl get pods, expect: ask}
      - {run: kubectl get pods, expect: allow, rule: k}
      - {run: kubectl get pods, expect: allow, rule: mine/k}
      - {run: kubectl get pods, expect: allow, rule: dry}
      - {run: kubectl delete x, expect: allow, becomes: kubectl delete x --dry-run}
      - {run: kubectl delete x, expect: allow, becomes: kubectl delete x}
    """
    assert [outcome.passed for outcome in outcomes(policies, text)] == [
        True, False, True, True, False, True, False,
    ]  # fmt: skip


def test_a_test_can_say_who_asks_where_and_when(policies: Policies) -> None:
    text = """
    version: 1
    rules:
      - {id: who, match: {program: a1, actor: job/nightly, source: cron}, then: deny}
      - {id: where, match: {program: a2, terminal: prod, place: ssh}, then: deny}
      - {id: when, match: {program: a3, time: {hours: "22:00-24:00"}}, then: deny}
      - {id: folder, match: {path: sub/x}, then: deny}
    tests:
      - {run: a1, as: {actor: job/nightly, source: cron}, expect: deny}
      - {run: a1, place: container, expect: ask}
      - {run: a2, terminal: prod, place: ssh, expect: deny}
      - {run: a2, place: container, expect: ask}
      - {run: a3, at: "2026-01-01T23:00:00", expect: deny}
      - {run: a3, at: "2026-01-01T21:00:00", place: container, expect: ask}
      - {run: cat x, folder: /workspace/sub, expect: deny}
      - {run: cat y, files: {y: sub/x}, expect: deny}
      - {call: read_file, input: {path: sub/x}, expect: deny}
      - {call: read_file, input: {path: y}, profile: sandbox, expect: allow}
    """
    assert [outcome.got for outcome in outcomes(policies, text) if not outcome.passed] == []


def test_a_file_is_tested_with_its_own_profile_and_without_the_users_other_files(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "other.yaml").write_text(
        "version: 1\nrules:\n  - {id: no, match: {program: ls}, then: deny}\n"
    )
    policies = Policies.of_home(tmp_path, Path("/home/user"))
    text = """
    version: 1
    profile: mine
    extends: careful
    rules: []
    tests: [{run: ls, expect: allow, rule: careful/looking}]
    """
    (outcome,) = outcomes(policies, text)
    assert (outcome.got, outcome.profile) == ("allow", "mine")


def test_links_are_followed_by_words_alone() -> None:
    resolve = by_words("/w", {"a": "b/c", "b": "/x", "loop": "loop", "/abs": "/w/a"})
    paths = ["/w/a/d", "/w/b", "/abs", "/w/a/../y", "/w/n/../m", "/", "/w/loop/x"]
    found = finish(resolve(paths))
    assert [one[0] for one in found[:6]] == ["/x/c/d", "/x", "/x/c", "/x/y", "/w/m", "/"]


def test_the_disk_is_asked_for_links_and_globs(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "odd[1]").write_text("")
    here = str(tmp_path.resolve())
    found = finish(on_disk([f"{here}/link", f"{here}/*k", f"{here}/none*", f"{here}/odd[1]"]))
    assert found == [
        (f"{here}/real",), (f"{here}/real",), (f"{here}/none*",), (f"{here}/odd[1]",),
    ]  # fmt: skip
    assert finish(on_disk([f"{here}/[^x]eal", f"{here}/[[:lower:]]eal"])) == [(f"{here}/real",), ()]
