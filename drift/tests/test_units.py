"""Unit files and drop-ins of systemd, in the root of a system that does not run."""

from pathlib import Path
from typing import Any

from hermes_drift.scopes.units import settings_of
from hermes_drift.values import CommandAnswer
from tests.support.drift_repositories import ShellLive, audited, declare, looked

UNIT = """\
[Unit]
Description=A shop

[Service]
# what it runs
ExecStart=/usr/bin/shop --port 80 \\
    --workers 4
User=shop
Environment=LEVEL=info

[Install]
WantedBy=multi-user.target
"""
TUNED = "[Service]\nLimitNOFILE=4096\n"


def world(tmp_path: Path, **more: Any) -> tuple[Path, Path]:
    root = tmp_path / "root"
    files = {"units/shop.service": UNIT, "units/shop.service.d/tuned.conf": TUNED}
    entry = {"declared": "units", "root": str(root), **more}
    repository = declare(tmp_path / "repository", {"units": [entry]}, files)
    live = root / "etc/systemd/system"
    for path, text in files.items():
        there = live / path.removeprefix("units/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
    return repository, live


async def test_units_as_declared_are_no_drift(tmp_path: Path) -> None:
    repository, live = world(tmp_path, enabled=["shop.service"])
    wants = live / "multi-user.target.wants"
    wants.mkdir()
    (wants / "shop.service").symlink_to("/etc/systemd/system/shop.service")
    (scope,) = await looked(repository)
    assert (scope.checked, scope.findings, scope.troubles) == (2, (), ())


async def test_each_changed_setting_is_a_finding_of_its_own(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    changed = UNIT.replace("User=shop\n", "").replace("LEVEL=info", "LEVEL=debug")
    (live / "shop.service").write_text(changed.replace("# what it runs", "# run"))
    found = await audited(repository)
    assert found.keys() == {
        ("shop.service", "Service.User"), ("shop.service", "Service.Environment"),
    }  # fmt: skip
    user = found["shop.service", "Service.User"]
    assert (user.declared, user.live, user.weight) == ("User=shop", "not set", "dangerous")
    assert found["shop.service", "Service.Environment"].weight == "look"
    assert (await ShellLive().ask(user.advice.revert)).ok
    assert await audited(repository) == {}


async def test_other_comments_are_harmless(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "shop.service").write_text("# by hand\n" + UNIT)
    (found,) = (await audited(repository)).values()
    assert (found.field, found.weight, found.pattern) == ("comments", "harmless", "unit-comments")


async def test_a_drop_in_that_is_not_declared_is_found_wherever_it_lies(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "shop.service.d" / "override.conf").write_text("[Service]\nLimitNOFILE=10\n")
    run = live.parents[2] / "run/systemd/system/shop.service.d"
    run.mkdir(parents=True)
    (run / "50-hook.conf").write_text("[Service]\nExecStartPre=/tmp/x\n")
    found = await audited(repository)
    assert found.keys() == {
        ("shop.service", "drop-in override.conf"), ("shop.service", "drop-in 50-hook.conf"),
    }  # fmt: skip
    limit = found["shop.service", "drop-in override.conf"]
    assert (limit.weight, "sets Service.LimitNOFILE" in limit.live) == ("look", True)
    hook = found["shop.service", "drop-in 50-hook.conf"]
    assert (hook.weight, hook.why) == ("dangerous", "it runs a different program")
    for one in found.values():
        assert (await ShellLive().ask(one.advice.revert)).ok
    assert await audited(repository) == {}


async def test_a_drop_in_is_adopted_by_the_command_that_is_given(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    (live / "shop.service.d" / "more.conf").write_text("[Service]\nNice=5\n")
    (found,) = (await audited(repository)).values()
    assert (await ShellLive().ask(found.advice.adopt)).ok
    assert (repository / "units/shop.service.d/more.conf").read_text() == "[Service]\nNice=5\n"


async def test_a_unit_that_is_not_enabled_is_found(tmp_path: Path) -> None:
    repository, live = world(tmp_path, enabled=["shop.service"])
    (found,) = (await audited(repository)).values()
    assert (found.field, found.declared, found.live) == ("enabled", "enabled", "disabled")
    assert (await ShellLive().ask(found.advice.revert)).ok
    assert (live / "multi-user.target.wants" / "shop.service").is_symlink()
    assert await audited(repository) == {}


async def test_what_the_manager_has_loaded_is_compared(tmp_path: Path) -> None:
    """The answer of a manager, as systemd 252 gives it."""

    class Managed(ShellLive):
        async def ask(self, command: str) -> CommandAnswer:
            if not command.startswith("systemctl show"):
                return await super().ask(command)
            self.asked.append(command)
            return CommandAnswer(
                0,
                "Id=shop.service\nLoadState=loaded\nActiveState=failed\n"
                f"FragmentPath={live}/shop.service\nUnitFileState=enabled\n"
                f"DropInPaths={live}/shop.service.d/tuned.conf /etc/nowhere/x.conf\n"
                "NeedDaemonReload=yes\n",
            )

    repository, live = world(tmp_path)
    entry = {"declared": "units", "live": str(live), "active": ["shop.service"],
             "disabled": ["shop.service"]}  # fmt: skip
    declare(repository, {"units": [entry]}, {})
    found = await audited(repository, Managed())
    fields = {field: one for (_, field), one in found.items()}
    assert fields.keys() == {"loaded", "active", "enabled", "drop-in x.conf"}
    assert fields["active"].live == "failed"
    assert fields["loaded"].advice.revert == "systemctl daemon-reload"
    assert fields["enabled"].advice.revert == "systemctl disable shop.service"


async def test_a_system_without_a_manager_is_said(tmp_path: Path) -> None:
    repository, live = world(tmp_path)
    declare(repository, {"units": [{"declared": "units", "live": str(live)}]}, {})

    class Offline(ShellLive):
        async def ask(self, command: str) -> CommandAnswer:
            if command.startswith("systemctl"):
                return CommandAnswer(
                    1, "", "System has not been booted with systemd as init system"
                )
            return await super().ask(command)

    (scope,) = await looked(repository, Offline())
    assert scope.findings == ()
    assert "only unit files were compared" in scope.notes[0]


def test_unit_files_are_read_as_systemd_reads_them() -> None:
    read = settings_of(UNIT)
    assert read["Service.ExecStart"] == ("/usr/bin/shop --port 80 --workers 4",)
    again = settings_of("[Service]\nExecStart=a\nExecStart=\nExecStart=b\n")
    assert again == {"Service.ExecStart": ("", "b")}
