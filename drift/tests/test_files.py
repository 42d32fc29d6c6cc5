"""Files and their rights, against what a repository declares: real Git, real files."""

import os
import time
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from hermes_agent.core.errors import UsageError
from hermes_drift.audit import AuditBaseline
from hermes_drift.patterns import learned_from
from tests.support.drift_repositories import ShellLive, audited, declare, git, looked

CONF = "listen = 80\nworkers = 4\n"


def world(tmp_path: Path, **more: Any) -> tuple[Path, Path]:
    """A repository and the same files live."""
    live = tmp_path / "live"
    files = {
        "etc/app.conf": CONF, "etc/run.sh": "#!/bin/sh\nexec app\n", "etc/tls.key": "key\n",
        "etc/conf.d/a.conf": "a = 1\n",
    }  # fmt: skip
    entry = {"declared": "etc", "live": str(live), "mode": {"*.key": "0600"}, **more}
    repository = declare(tmp_path / "repository", {"files": [entry]}, files)
    for path, text in files.items():
        there = live / path.removeprefix("etc/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        there.chmod(0o755 if path.endswith(".sh") else 0o600 if path.endswith(".key") else 0o644)
    return repository, live


async def test_what_is_as_declared_is_no_drift(tmp_path: Path) -> None:
    repository, _ = world(tmp_path, owner="root", group="root")
    (scope,) = await looked(repository)
    assert (scope.checked, scope.findings, scope.troubles) == (4, (), ())


async def test_changed_content_is_shown_with_the_ways_out(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "app.conf").write_text(CONF.replace("4", "8"))
    found = (await audited(repository))["app.conf", "content"]
    assert (found.weight, found.live) == ("look", "+1 -1 lines")
    assert "-workers = 4\n+workers = 8\n" in found.diff
    git(repository, "apply", "--check", _file(tmp_path, found.advice.patch))
    revert = await ShellLive().ask(found.advice.revert)
    assert revert.ok
    assert await audited(repository) == {}


async def test_a_live_file_is_adopted_by_the_command_that_is_given(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "app.conf").write_text("listen = 81\n")
    (live / "new.conf").write_text("new\n")
    found = await audited(repository)
    for key in (("app.conf", "content"), ("new.conf", "extra")):
        assert (await ShellLive().ask(found[key].advice.adopt)).ok
    git(repository, "commit", "-q", "-m", "Adopted")
    assert await audited(repository) == {}


async def test_same_size_and_other_bytes_are_seen(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "app.conf").write_text(CONF.replace("80", "81"))
    assert list(await audited(repository)) == [("app.conf", "content")]


async def test_missing_and_extra_files_are_found(tmp_path: Path) -> None:
    repository, live = world(tmp_path, ignore=["*.cache"])
    (live / "conf.d" / "a.conf").unlink()
    (live / "conf.d" / "zz.conf").write_text("evil = 1\n")
    (live / "other").mkdir()
    (live / "other" / "inside").touch()
    (live / "x.cache").touch()
    found = await audited(repository)
    assert found.keys() == {("a.conf", "missing"), ("zz.conf", "extra"), ("other", "extra")}
    assert "a folder (1 inside)" in found["other", "extra"].live
    assert (await ShellLive().ask(found["a.conf", "missing"].advice.revert)).ok
    assert (live / "conf.d" / "a.conf").read_text() == "a = 1\n"


async def test_modes_are_compared_as_declared_or_by_what_git_knows(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "app.conf").chmod(0o640)  # Git does not know, and nobody has said
    (live / "run.sh").chmod(0o644)
    (live / "tls.key").chmod(0o644)
    (live / "conf.d" / "a.conf").chmod(0o666)
    found = await audited(repository)
    assert found.keys() == {("run.sh", "mode"), ("tls.key", "mode"), ("a.conf", "mode")}
    assert (found["run.sh", "mode"].declared, found["run.sh", "mode"].weight) == ("0755", "look")
    assert found["tls.key", "mode"].weight == "dangerous"
    assert "every user can write" in found["a.conf", "mode"].why
    for one in found.values():
        assert (await ShellLive().ask(one.advice.revert)).ok
    assert await audited(repository) == {}


async def test_set_user_id_is_dangerous(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "run.sh").chmod(0o4755)
    found = (await audited(repository))["run.sh", "mode"]
    assert (found.weight, found.declared, found.live) == ("dangerous", "0755", "4755")


async def test_owners_are_compared_where_they_are_declared(tmp_path: Path) -> None:
    repository, live = world(tmp_path, owner="root", group="root")
    os.chown(live / "tls.key", 65534, 0)
    found = (await audited(repository))["tls.key", "owner"]
    assert (found.declared, found.live, found.weight) == ("root", "nobody", "dangerous")
    assert found.advice.revert == f"chown root {live / 'tls.key'}"


async def test_links_are_compared_by_where_they_lead(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (repository / "etc" / "current").symlink_to("v2")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "A link")
    (live / "current").symlink_to("v1")
    found = (await audited(repository))["current", "target"]
    assert (found.declared, found.live) == ("v2", "v1")


async def test_names_with_odd_signs_are_read_as_they_are(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    odd = "a 'quoted' $(touch x)\n-name.conf"
    declare(repository, _entry(live), {f"etc/{odd}": "1\n"})
    (live / odd).write_text("2\n")
    found = await audited(repository)
    assert list(found) == [(odd, "content")]
    assert not Path("x").exists()


def _entry(live: Path) -> dict[str, Any]:
    return {"files": [{"declared": "etc", "live": str(live), "mode": {"*.key": "0600"}}]}


async def test_secrets_are_not_shown_and_the_difference_is_still_found(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    secrets = "db_password = correct-horse-battery\n", "db_password = staple-of-the-realm\n"
    declare(repository, _entry(live), {"etc/db.conf": secrets[0]})
    (live / "db.conf").write_text(secrets[1])
    found = (await audited(repository))["db.conf", "content"]
    shown = repr(found)
    assert "correct-horse" not in shown
    assert "staple-of" not in shown
    assert "differ only in what looks like a secret" in found.diff
    assert found.advice.patch == ""


async def test_live_that_was_declared_once_was_never_brought_up_to_date(tmp_path: Path) -> None:
    repository, _ = world(tmp_path)
    declare(repository, _entry(tmp_path / "live"), {"etc/app.conf": CONF + "new = 1\n"})
    found = (await audited(repository))["app.conf", "content"]
    assert found.advice.do == "revert"
    assert any("by ann (What we want): older than what is declared" in x for x in found.history)


async def test_what_is_not_committed_does_not_count(tmp_path: Path) -> None:
    repository, _ = world(tmp_path)
    (repository / "etc" / "app.conf").write_text("not committed\n")
    assert await audited(repository) == {}


async def test_a_folder_that_cannot_be_seen_is_said_and_not_called_missing(tmp_path: Path) -> None:
    class Blind(ShellLive):
        async def ask(self, command: str) -> Any:
            return await super().ask("echo find: permission denied >&2; exit 1")

    repository, _ = world(tmp_path)
    (scope,) = await looked(repository, Blind())
    assert (scope.checked, scope.findings) == (0, ())
    assert "permission denied" in scope.troubles[0]


async def test_files_in_a_folder_that_is_closed_are_not_called_missing(tmp_path: Path) -> None:
    class Nobody(ShellLive):
        async def ask(self, command: str) -> Any:
            return await super().ask(
                f"setpriv --reuid 65534 --regid 65534 --clear-groups bash -c {quote(command)}"
            )

    repository, live = world(tmp_path)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    (live / "conf.d").chmod(0o700)
    (scope,) = await looked(repository, Nobody())
    assert scope.findings == ()
    assert any("conf.d" in one and "Permission denied" in one for one in scope.troubles)
    assert any("tls.key cannot be read" in one for one in scope.troubles)


async def test_many_files_that_are_not_declared_are_one_finding(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    for number in range(60):
        (live / f"n{number}").touch()
    found = await audited(repository)
    assert [(one.field, one.live) for one in found.values()] == [("extra", "60 undeclared files")]


async def test_a_repository_without_drift_yaml_says_what_is_missing(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "Nothing")
    with pytest.raises(UsageError, match=r"has no drift\.yaml in commit"):
        await looked(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("files: [", "line 1"),
        ("file: []", "unknown field `file`"),
        ("{}", "declares nothing"),
        ("files: [{declared: etc, live: /x, mode: {a: rwx}}]", r"\.mode"),
        ("version: 2\nfiles: []", "version 2"),
    ],
)
async def test_a_drift_yaml_that_is_wrong_says_where(tmp_path: Path, text: str, said: str) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "drift.yaml").write_text(text)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "Wrong")
    with pytest.raises(UsageError, match=said):
        await looked(tmp_path)


async def test_an_entry_that_is_not_in_the_repository_does_not_hide_the_others(
    tmp_path: Path,
) -> None:
    repository, live = world(tmp_path)
    entries = [*_entry(live)["files"], {"declared": "nowhere", "live": "/x"},
               {"declared": "../etc", "live": "/x"}]  # fmt: skip
    declare(repository, {"files": entries}, {})
    (live / "app.conf").unlink()
    (scope,) = await looked(repository)
    assert [one.field for one in scope.findings] == ["missing"]
    assert "'nowhere' is not in commit" in scope.troubles[0]
    assert "'../etc' is not in the repository" in scope.troubles[1]


async def test_accepting_a_mode_does_not_excuse_a_dangerous_one(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "run.sh").chmod(0o644)
    (first,) = (await audited(repository)).values()
    known = AuditBaseline([learned_from(first, "accepted", "it is never run", "ann", time.time())])
    again = (await audited(repository, known=known))["run.sh", "mode"]
    assert (again.weight, again.why, again.advice.do) == ("harmless", "it is never run", "leave")
    assert "accepted by ann: it is never run" in again.history[0]
    (live / "run.sh").chmod(0o4755)
    worse = (await audited(repository, known=known))["run.sh", "mode"]
    assert worse.weight == "dangerous"


def _file(folder: Path, text: str) -> str:
    path = folder / "patch.diff"
    path.write_text(text)
    return str(path)


async def test_a_file_that_is_hidden_is_not_checked_rather_than_another_kind(
    tmp_path: Path,
) -> None:
    """A device covers the secrets of people's homes where commands may only read."""
    entry = {"declared": "tls.key", "live": "/dev/null"}
    repository = declare(tmp_path / "repository", {"files": [entry]}, {"tls.key": "key\n"})
    (scope,) = await looked(repository)
    assert scope.findings == ()
    assert scope.troubles == ("/dev/null is a device, or hidden because it may contain secrets",)
