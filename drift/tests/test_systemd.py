"""Units as a real manager of systemd has loaded, enabled and started them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.drift_repositories import ShellLive, audited, declare, looked
from tests.support.systemd import Manager, manager

pytestmark = pytest.mark.slow

SHOP = """\
[Unit]
Description=A shop

[Service]
ExecStart=/bin/sleep 600
Environment=LEVEL=info

[Install]
WantedBy=default.target
"""
PARTS = "shop.service", "spare.service"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Manager]:
    with manager(tmp_path / "systemd") as made:
        yield made


async def test_what_the_manager_makes_of_units_is_compared(
    systemd: Manager, tmp_path: Path
) -> None:
    entry = {
        "declared": "units", "live": str(systemd.units), "enabled": ["shop.service"],
        "disabled": ["spare.service"], "active": ["shop.service"],
    }  # fmt: skip
    files = {f"units/{part}": SHOP for part in PARTS}
    repository = declare(tmp_path / "r", {"units": [entry]}, files)
    live = ShellLive(systemd.environ)
    for part in PARTS:
        (systemd.units / part).write_text(SHOP)
    systemd.ask("daemon-reload")
    systemd.ask("enable", "--now", "shop.service")
    assert systemd.ask("is-active", "shop.service") == "active"
    (scope,) = await looked(repository, live)
    assert (scope.checked, scope.findings, scope.troubles, scope.notes) == (2, (), (), ())

    systemd.ask("stop", "shop.service")
    systemd.ask("disable", "shop.service")
    systemd.ask("enable", "spare.service")
    more = systemd.units / "spare.service.d"
    more.mkdir()
    (more / "by-hand.conf").write_text("[Service]\nNice=5\n")
    (systemd.units / "shop.service").write_text(SHOP.replace("LEVEL=info", "LEVEL=debug"))
    found = await audited(repository, live)
    level = "Environment=LEVEL="
    assert {key: (one.declared, one.live) for key, one in found.items()} == {
        ("shop.service", "Service.Environment"): (f"{level}info", f"{level}debug"),
        ("shop.service", "active"): ("active", "inactive"),
        ("shop.service", "enabled"): ("enabled", "disabled"),
        ("spare.service", "loaded"): ("as in its file", "an older version"),
        ("spare.service", "enabled"): ("disabled", "enabled"),
        ("spare.service", "drop-in by-hand.conf"): (
            "no such drop-in", f"{more}/by-hand.conf sets Service.Nice",
        ),
    }  # fmt: skip
    for one in found.values():
        assert (await live.ask(one.advice.revert)).ok, one.advice.revert
    await live.ask("systemctl daemon-reload && systemctl start shop.service")
    assert await audited(repository, live) == {}

    systemd.ask("mask", "--runtime", "spare.service")
    (systemd.units / "spare.service").unlink()
    systemd.ask("mask", "spare.service")
    assert ("spare.service", "masked") in await audited(repository, live)
