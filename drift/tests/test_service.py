"""Drift audits in a runtime: what is live is read on a terminal, and every command passes the
gate."""

from pathlib import Path
from typing import Any

import pytest

from hermes_agent.core.errors import NotFound, UsageError
from hermes_agent.core.settings.terminals import SandboxPlace
from hermes_drift.service import Drift, summary
from tests.support.drift_repositories import declare, git
from tests.support.runtime_fixture import open_runtime
from tests.support.sshd import shared

CONF = "listen = 80\n"


def world(tmp_path: Path, **more: Any) -> tuple[Path, Path]:
    live = tmp_path / "live"
    live.mkdir()
    (live / "app.conf").write_text(CONF)
    entry = {"declared": "etc", "live": str(live)}
    files = {"etc/app.conf": CONF}
    return declare(tmp_path / "repository", {"files": [entry], **more}, files), live


async def test_an_audit_is_kept_and_the_next_one_refers_to_it(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    async with open_runtime(tmp_path / "fixture") as made:
        drift = Drift(made.runtime.context, made.runtime.shells, made.runtime.learning)
        first = await drift.run(str(repository))
        assert (first.id, first.findings, first.troubles, first.well) == ("drift-1", (), (), True)
        (live / "app.conf").write_text("listen = 81\n")
        (new,) = (await drift.run(str(repository))).findings
        assert new.history[0].startswith("new since drift-1 of ")
        (live / "app.conf").write_text("listen = 82\nmore = 1\n")
        (again,) = (await drift.run(str(repository))).findings
        assert again.history[0].startswith("also in drift-2 of ")
        assert "live was '+1 -1 lines' in drift-2" in again.history
        assert drift.audits.finding("3.1")[1] == again
        assert [row["id"] for row in drift.listed()] == ["drift-3", "drift-2", "drift-1"]
        folder = made.runtime.context.home.path / "drift"
        assert {path.suffix for path in folder.iterdir()} == {".json", ".md"}
        assert (folder / "drift-3.json").stat().st_mode & 0o077 == 0
        report = (folder / "drift-3.md").read_text()
        assert "| files | 1 | 1 | 0 | 1 | 0 |" in report
        assert "- classification: **notable**" in report
        assert "+listen = 82" in report
        assert not list((made.runtime.context.home.path / "terminals").glob("drift-*"))


async def test_what_was_accepted_and_rejected_is_remembered(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "app.conf").write_text("listen = 81\n")
    async with open_runtime(tmp_path / "fixture") as made:
        drift = Drift(made.runtime.context, made.runtime.shells, made.runtime.learning)
        await drift.run(str(repository))
        await drift.decide("drift-1.1", "accepted", "a trial until May", "ann")
        (found,) = (await drift.run(str(repository))).findings
        assert (found.weight, found.why) == ("harmless", "a trial until May")
        assert "accepted by ann: a trial until May (drift-1.1)" in found.history[0]
        await drift.decide("2.1", "rejected", "May is over", "bob")
        (found,) = (await drift.run(str(repository))).findings
        assert found.weight == "look"
        assert "rejected by bob: May is over (drift-2.1)" in found.history[0]
        await drift.decide("3.1", "accepted", "May again", "ann")
        (found,) = (await drift.run(str(repository))).findings
        assert found.weight == "harmless"
        with pytest.raises(NotFound, match=r"no finding '1\.7' in drift-1"):
            await drift.decide("1.7", "accepted", "x", "ann")
        with pytest.raises(NotFound, match="no audit"):
            drift.audits.audit("../../etc/passwd")


async def test_what_may_hold_secrets_is_compared_by_its_sum_and_not_read(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    declare(repository, {"files": [{"declared": "etc", "live": str(live)}]}, {"etc/.env": "A=1\n"})
    (live / ".env").write_text("A=2\n")
    async with open_runtime(tmp_path / "fixture") as made:
        (found,) = (
            await Drift(made.runtime.context, made.runtime.shells, made.runtime.learning).run(
                str(repository)
            )
        ).findings
    assert (found.object, found.field) == (f"{live}/.env", "content")
    assert "not allowed by policy: it may contain secrets" in found.diff


async def test_output_that_is_long_is_read_whole(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    files = {f"etc/folder/{number:04}-{'x' * 60}.conf": "1\n" for number in range(400)}
    declare(repository, {"files": [{"declared": "etc", "live": str(live)}]}, files)
    (live / "folder").mkdir()
    for path in files:
        (live / path.removeprefix("etc/")).write_text("1\n")
    (live / "folder" / f"0200-{'x' * 60}.conf").write_text("2\n")
    async with open_runtime(tmp_path / "fixture") as made:
        audit = await Drift(made.runtime.context, made.runtime.shells, made.runtime.learning).run(
            str(repository)
        )
    assert (audit.scopes[0].checked, len(audit.findings), audit.troubles) == (401, 1, ())


async def test_every_command_passes_the_gate(tmp_path: Path) -> None:
    """A rule of its own stops it, and it is said what was not checked."""
    repository, _ = world(tmp_path)
    rules = tmp_path / "fixture" / "home" / "policies"
    rules.mkdir(parents=True)
    (rules / "mine.yaml").write_text(
        "version: 1\nname: mine\nrules:\n"
        "  - {id: no-find, match: {program: find}, then: deny, reason: nobody looks here}\n"
    )
    async with open_runtime(tmp_path / "fixture") as made:
        audit = await Drift(made.runtime.context, made.runtime.shells, made.runtime.learning).run(
            str(repository)
        )
    assert (audit.findings, audit.well) == ((), False)
    assert "nobody looks here" in audit.troubles[0]


async def test_other_terminals_are_looked_at(tmp_path: Path) -> None:
    """A sandbox sees its own folders, not this machine's: what is declared is missing there."""
    repository, live = world(tmp_path)
    entry = {"declared": "etc", "live": str(live), "terminal": "sandbox"}
    declare(repository, {"files": [entry]}, {})
    async with open_runtime(tmp_path / "fixture", terminals={"sandbox": SandboxPlace()}) as made:
        (found,) = (
            await Drift(made.runtime.context, made.runtime.shells, made.runtime.learning).run(
                str(repository)
            )
        ).findings
        assert (found.terminal, found.field) == ("sandbox", "missing")
        with pytest.raises(UsageError, match="no terminal called 'moon'"):
            await Drift(made.runtime.context, made.runtime.shells, made.runtime.learning).run(
                str(repository), terminal="moon"
            )


async def test_a_machine_far_away_is_looked_at(tmp_path: Path) -> None:
    server = shared()
    there = server.folder()
    (there / "app.conf").write_text("listen = 81\n")
    server.own(there / "app.conf")
    entry = {"declared": "etc", "live": str(there)}
    repository = declare(tmp_path / "r", {"files": [entry]}, {"etc/app.conf": CONF})
    async with open_runtime(tmp_path / "fixture", terminals={"web-1": server.place()}) as made:
        audit = await Drift(made.runtime.context, made.runtime.shells, made.runtime.learning).run(
            str(repository), terminal="web-1"
        )
    (found,) = audit.findings
    assert (found.terminal, found.live, audit.troubles) == ("web-1", "+1 -1 lines", ())
    assert (found.who.kind, found.who.name, found.who.sure) == ("person", server.user, "guess")
    assert found.advice.revert.endswith(f"# write this to {there}/app.conf on web-1")


async def test_scopes_are_chosen(tmp_path: Path) -> None:
    repository, live = world(tmp_path, packages=[{"declared": "packages.txt"}])
    declare(repository, {"files": [{"declared": "etc", "live": str(live)}],
                         "packages": [{"declared": "packages.txt"}]},
            {"packages.txt": "bash\n"})  # fmt: skip
    async with open_runtime(tmp_path / "fixture") as made:
        drift = Drift(made.runtime.context, made.runtime.shells, made.runtime.learning)
        audit = await drift.run(str(repository), ["packages"])
        assert [(one.scope, one.checked) for one in audit.scopes] == [("packages", 1)]
        audit = await drift.run(str(repository), ["units"])
        assert audit.scopes[0].notes == ("drift.yaml declares no units",)
        with pytest.raises(UsageError, match="no scope called 'moods'"):
            await drift.run(str(repository), ["moods"])


async def test_another_commit_can_be_what_counts(tmp_path: Path) -> None:
    repository, _ = world(tmp_path)
    first = git(repository, "rev-parse", "HEAD")
    (repository / "etc" / "app.conf").write_text("listen = 90\n")
    git(repository, "commit", "-q", "-a", "-m", "Ninety")
    async with open_runtime(tmp_path / "fixture") as made:
        drift = Drift(made.runtime.context, made.runtime.shells, made.runtime.learning)
        audit = await drift.run(str(repository))
        assert summary(audit)["look"] == 1
        assert audit.findings[0].advice.why.startswith("the declared version was never installed")
        assert (await drift.run(str(repository), ref=first)).well
        with pytest.raises(UsageError, match="git cannot read"):
            await drift.run(str(repository), ref="--output=x")


async def test_a_skill_that_fits_is_named(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "app.conf").chmod(0o666)
    async with open_runtime(tmp_path / "fixture") as made:
        (found,) = (
            await Drift(made.runtime.context, made.runtime.shells, made.runtime.learning).run(
                str(repository)
            )
        ).findings
    assert (found.skill, found.weight) == ("permission-change", "dangerous")


async def test_hooks_and_filters_of_a_repository_are_not_run(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    mark = tmp_path / "was-run"
    for name in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.external",
                 "filter.x.clean", "filter.x.smudge", "diff.x.textconv"):  # fmt: skip
        git(repository, "config", name, f"touch {mark}; cat")
    declare(repository, {"files": [{"declared": "etc", "live": str(live)}]},
            {".gitattributes": "* diff=x\n"})  # fmt: skip
    mark.unlink(missing_ok=True)
    (live / "app.conf").write_text("other\n")
    async with open_runtime(tmp_path / "fixture") as made:
        audit = await Drift(made.runtime.context, made.runtime.shells, made.runtime.learning).run(
            str(repository)
        )
    assert len(audit.findings) == 1
    assert not mark.exists()
