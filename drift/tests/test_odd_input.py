"""What is read from machines and repositories is whatever somebody wrote: nothing of it raises."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hermes_drift.attribution import apt_runs, installed, records, sudo_lines
from hermes_drift.cluster.fields import differences, path_text
from hermes_drift.diff_text import difference, hide_named_secrets, shown
from hermes_drift.matching import fits
from hermes_drift.report import markdown
from hermes_drift.scopes.compose import resolved
from hermes_drift.scopes.packages import declared
from hermes_drift.scopes.units import settings_of
from hermes_drift.values import Audit, DriftFinding, ScopeResult
from tests.support.drift_repositories import git

LOGGED = st.lists(
    st.sampled_from([
        "type=SYSCALL msg=audit(1.5:7): auid=4294967295 success=yes exe=\"/bin/x\"",
        "type=PATH msg=audit(1.5:7): name=\"/etc/x\" nametype=NORMAL", "type=PATH msg=audit(9:): ",
        "Nov 31 25:61:61 h sudo: a : COMMAND=x", "2025-99-99T00:00:00 h sudo: a : COMMAND=x",
        "2025-99-99 12:00:00 install nginx:amd64 <none> 1", "Start-Date: never", "\n\n",
        "Install: a:b (", "[Service]", "ExecStart=\\", "=", "!=", "-r x", "a<>=@1",
    ])
    | st.text(max_size=20),
    max_size=12,
).map("\n".join)  # fmt: skip

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "env", "ports", "a", "value"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(LOGGED)
def test_logs_and_lists_of_any_form_are_read(text: str) -> None:
    for one in (*records(text), *sudo_lines(text, 1.7e9), *installed(text)):
        assert one.at >= 0
    assert all(run.begun for run in apt_runs(text))
    assert all(isinstance(name, str) for name in settings_of(text))
    for manager in ("dpkg", "pip"):
        assert all(one.number > 0 for one in declared(text, manager))
    assert resolved(text, {}) is None or isinstance(resolved(text, {}), str)


@given(JSON, JSON)
def test_objects_of_any_form_are_compared(one: object, other: object) -> None:
    assert list(differences(one, one)) == []
    assert all(isinstance(path_text(each.path), str) for each in differences(one, other))


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_glob_of_plain_text_fits_itself(glob: str, text: str) -> None:
    assert fits(glob, glob) or "*" in glob or "?" in glob
    assert fits("**", text)


@given(st.text(max_size=60))
def test_a_report_is_made_of_any_text(text: str) -> None:
    finding = DriftFinding(
        "files", text, text, text, text, text, why=text, history=(text,), id="d.1"
    )
    audit = Audit(
        "d", 0.0, text, text, text, (ScopeResult("files", 1, (finding,), (text,), (text,)),)
    )
    assert "\x1b" not in markdown(audit).replace(text, "")


def test_what_stands_behind_the_name_of_a_secret_is_hidden() -> None:
    hide = hide_named_secrets(lambda text: text)
    for line in ("password = x", 'api_key: "y"', "DB_PASSWORD=plain", "  'secret' : z"):
        assert hide(line).endswith("[redacted]"), line
    for line in ("PasswordAuthentication yes", "listen = 80", "# tokens are made by hand"):
        assert hide(line) == line
    assert shown("token=a\n", "token=b\n", "x", hide)[1] is False


def test_differences_without_a_last_line_end_can_be_applied(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a b.conf").write_text("one\ntwo")
    (tmp_path / "patch").write_text(difference("one\ntwo", "one\nthree", "a b.conf"))
    git(tmp_path, "apply", "patch")
    assert (tmp_path / "a b.conf").read_text() == "one\nthree"
