"""Checks are read as people write them; what is wrong is said with its place, the rest counts."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.incidents import MonitoredService, WatchedCheck
from hermes_agent.core.skills import Check, Expectation
from hermes_agent.incidents.monitoring.config import CheckFiles, LogPattern, Watched, read

FULL = """
- name: shop-answers
  service: shop
  run: curl -fsS http://127.0.0.1:8080/healthz
  expect: {exit: null, output: ok, no_output: "error|trace"}
  timeout: 5
  level: hourly
  severity: P1
  after: 3
  owner: ann
  terminal: web-1
  policy: observe
  needs: [database, cache]
  labels: {team: shop, learning: "off"}
- {name: quick, run: "true", every: 2, source: drill, needs: [], labels: {}}
- {name: nightly, run: "true", level: daily}
- {name: slow, run: "true", every: 10m}
- name: out-of-memory
  log: {path: /var/log/kern.log, pattern: "Out of memory: .* killed"}
  service: shop
  severity: P0
"""


def test_everything_that_can_be_said_of_a_check_is_read() -> None:
    loaded = read("a.yaml", FULL)
    assert loaded.problems == ()
    first, quick, nightly, slow = loaded.checks
    check = Check(
        "curl -fsS http://127.0.0.1:8080/healthz", Expectation(None, "ok", "error|trace"), 5.0
    )
    assert first == Watched(
        WatchedCheck("shop-answers", check, "shop", "web-1", "P1", "ann"), 3600.0, False, 3,
        "observe", "check", ("database", "cache"), {"team": "shop", "learning": "off"}, "a.yaml",
        "hourly",
    )  # fmt: skip
    assert (quick.every, quick.source, quick.after, quick.service) == (2.0, "drill", 2, "quick")
    assert (nightly.daily, slow.every) == (True, 600.0)
    assert loaded.logs == (
        LogPattern("out-of-memory", "/var/log/kern.log", "Out of memory: .* killed", "shop", "P0",
                   file="a.yaml"),
    )  # fmt: skip
    assert loaded.services == (MonitoredService("shop", ("database", "cache"), terminal="web-1"),)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("name: x\nrun: [1", 3, "not YAML"),
        ("name: x\n\trun: y", 2, "not YAML"),
        ("- name: x\n  rum: y", 2, "has no key 'rum'"),
        ("name: x", 1, "needs a command"),
        ("run: 'true'", 1, "needs a name"),
        ("name: a b\nrun: 'true'", 1, "not a valid name"),
        ("name: ../x\nrun: 'true'", 1, "not a valid name"),
        ("name: x\nrun: 'true'\nevery: 0", 3, "every must be"),
        ("name: x\nrun: 'true'\nevery: .inf", 3, "every must be"),
        ("name: x\nrun: 'true'\nevery: often", 3, "every must be"),
        ("name: x\nrun: 'true'\nevery: 5\nlevel: daily", 3, "both set the interval"),
        ("name: x\nrun: 'true'\nlevel: weekly", 3, "level cannot be 'weekly'"),
        ("name: x\nrun: 'true'\nseverity: P9", 3, "severity cannot be 'P9'"),
        ("name: x\nrun: 'true'\nafter: 0", 3, "after must be"),
        ("name: x\nrun: 'true'\nsource: person", 3, "source cannot be"),
        ("name: x\nrun: 'true'\nexpect: {exit: 300}", 3, "exit must be"),
        ("name: x\nrun: 'true'\nexpect:\n  output: '('", 4, "not a valid regular expression"),
        ("name: x\nlog: {path: a, pattern: b}", 2, "not absolute"),
        ("name: x\nlog: {path: /a}", 2, "a path and a pattern"),
        ("name: x\nlog: {path: /a, pattern: b}\nevery: 3", 3, "has no 'every'"),
        ("name: x\nrun: 'true'\nlabels: [a]", 3, "labels must be"),
        ("just words", 1, "must be a mapping"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_a_hint(text: str, line: int, said: str) -> None:
    loaded = read("a.yaml", text)
    assert loaded.checks == loaded.logs == ()
    problem = loaded.problems[0]
    assert (problem.path, problem.line) == ("a.yaml", line)
    assert said in problem.message


def test_what_is_wrong_in_one_place_leaves_the_others_alone(tmp_path: Path) -> None:
    files = CheckFiles(tmp_path / "checks")
    assert files.load().entries == ()
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "a.yaml").write_text("- {name: one, run: 'true'}\n- {name: bad}\n")
    (tmp_path / "checks" / "b.yml").write_text("{name: two")
    (tmp_path / "checks" / "c.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "checks" / "d.yaml").mkdir()
    (tmp_path / "checks" / "e.yaml").write_text("- {name: three, run: 'true'}")
    (tmp_path / "checks" / "f.yaml").write_text("- {name: one, run: 'false'}")
    (tmp_path / "checks" / "g.yaml").write_text("# nothing yet\n")
    (tmp_path / "checks" / "h.txt").write_text("no check")
    loaded = files.load()
    assert [one.name for one in loaded.checks] == ["one", "three"]
    assert [problem.path for problem in loaded.problems] == [
        "a.yaml", "c.yaml", "d.yaml", "f.yaml", "b.yml"
    ]  # fmt: skip
    assert "already the name of an entry in a.yaml" in loaded.problems[3].message


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    files = CheckFiles(tmp_path)
    path = tmp_path / "a.yaml"
    path.write_text("{name: one, run: 'true'}")
    assert files.load().checks[0].every == 300.0
    assert files.load().checks[0] is files.load().checks[0]
    path.write_text("{name: one, run: 'true', every: 7}")
    assert files.load().checks[0].every == 7.0
    path.unlink()
    assert files.load().checks == ()


@settings(deadline=None)
@given(st.text(alphabet="naruex:-{}[]'\" \n\t0159,#&*!|>%@`", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    loaded = read("a.yaml", text)
    assert all(entry.name for entry in loaded.entries)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["name", "run", "every", "expect", "log", "needs", "labels", "after"]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_no_value_breaks_the_reader(value: object) -> None:
    import yaml

    loaded = read("a.yaml", yaml.safe_dump(value))
    assert all(one.check.check.run.strip() for one in loaded.checks)
