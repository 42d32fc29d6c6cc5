"""Who changed it: from the logs that machines keep, in the form in which they keep them."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_drift.attribution import apt_runs, installed, records, sudo_lines
from hermes_drift.values import Who
from tests.support.drift_repositories import audited, declare

NOON = datetime(2025, 11, 3, 12, 0, 0, tzinfo=UTC).timestamp()

AUDIT = """\
type=SYSCALL msg=audit({at:.3f}:4711): arch=c000003e syscall=257 success=yes exit=3 items=2 \
ppid=901 pid=1204 auid={user} uid=0 gid=0 euid=0 tty=pts0 ses=3 \
comm="{comm}" exe="/usr/bin/{comm}" key="etc"
type=CWD msg=audit({at:.3f}:4711): cwd="{cwd}"
type=PATH msg=audit({at:.3f}:4711): item=0 name="." inode=1 mode=040755 nametype=PARENT
type=PATH msg=audit({at:.3f}:4711): item=1 name="{name}" inode=2 mode=0100644 nametype=NORMAL
type=PROCTITLE msg=audit({at:.3f}:4711): proctitle=76696D
"""


async def who(tmp_path: Path, content: str = "changed\n", **logs: str) -> Who:
    """Whoever changed a file at noon, with these logs."""
    live = tmp_path / "live" / "app.conf"
    live.parent.mkdir()
    live.write_text(content)
    os.utime(live, (NOON, NOON))
    paths = {}
    for name in ("audit", "auth", "dpkg", "apt"):
        path = tmp_path / f"{name}.log"
        path.write_text(logs.get(name, "").replace("APP", str(live)))
        paths[name] = [str(path)]
    entry = {"declared": "app.conf", "live": str(live)}
    drift = {"files": [entry], "logs": paths}
    repository = declare(tmp_path / "repository", drift, {"app.conf": "declared\n"})
    return (await audited(repository))["app.conf", "content"].who


def local(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone()


async def test_the_audit_log_is_certain_of_who_logged_in(tmp_path: Path) -> None:
    line = AUDIT.format(at=NOON, user=0, comm="vim", cwd=f"{tmp_path}/live", name="app.conf")
    found = await who(tmp_path, audit=line)
    assert (found.kind, found.name, found.sure) == ("person", "root", "certain")
    assert found.evidence == "audit record 4711: /usr/bin/vim"


async def test_what_nobody_logged_in_for_is_a_controller(tmp_path: Path) -> None:
    line = AUDIT.format(at=NOON, user=4294967295, comm="puppet", cwd="/", name="APP")
    found = await who(tmp_path, audit=line)
    assert (found.kind, found.name, found.sure) == ("controller", "/usr/bin/puppet", "certain")


async def test_a_record_of_another_time_is_not_this_change(tmp_path: Path) -> None:
    line = AUDIT.format(at=NOON - 3600, user=0, comm="vim", cwd="/", name="APP")
    assert (await who(tmp_path, audit=line)).kind == "unknown"


@pytest.mark.parametrize("form", ["%b %d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f%z"])
async def test_what_sudo_wrote_down_is_likely(tmp_path: Path, form: str) -> None:
    at = local(NOON - 90).strftime(form)
    line = (
        f"{at} web-1 sudo:      ann : TTY=pts/0 ; PWD=/home/ann ; USER=root ; "
        "COMMAND=/usr/bin/vim APP\n"
    )
    found = await who(tmp_path, auth=line)
    assert (found.kind, found.name, found.sure) == ("person", "ann", "likely")
    assert "/usr/bin/vim" in found.evidence


async def test_secrets_in_what_sudo_wrote_down_are_not_shown(tmp_path: Path) -> None:
    at = local(NOON - 60).strftime("%b %d %H:%M:%S")
    line = f"{at} h sudo: bob : PWD=/ ; COMMAND=/usr/bin/env DB_PASSWORD=plain-word vi APP\n"
    found = await who(tmp_path, auth=line)
    assert (found.name, "plain-word" in found.evidence) == ("bob", False)


async def test_sudo_shortly_before_is_a_guess(tmp_path: Path) -> None:
    at = local(NOON - 60).strftime("%b %d %H:%M:%S")
    line = f"{at} web-1 sudo[77]:  bob : TTY=pts/1 ; PWD=/ ; USER=root ; COMMAND=/bin/bash\n"
    found = await who(tmp_path, auth=line)
    assert (found.kind, found.name, found.sure) == ("person", "bob", "guess")


async def test_a_file_may_say_itself_who_writes_it(tmp_path: Path) -> None:
    found = await who(tmp_path, content="# Ansible managed: do not edit\nx = 1\n")
    assert (found.kind, found.name, found.sure) == ("controller", "ansible managed", "likely")


async def test_nobody_is_named_where_nothing_is_known(tmp_path: Path) -> None:
    found = await who(tmp_path)
    assert (found.kind, found.name, found.at) == ("unknown", "", NOON)


async def test_an_upgrade_of_the_package_wrote_its_file(tmp_path: Path) -> None:
    """A file that dpkg really owns, and a log that names its package just now."""
    live = Path("/etc/debian_version")
    at = local(live.stat().st_ctime)
    log = tmp_path / "dpkg.log"
    log.write_text(f"{at:%Y-%m-%d %H:%M:%S} upgrade base-files:amd64 12.4 12.5\n")
    drift = {
        "files": [{"declared": "v", "live": str(live)}],
        "logs": {"dpkg": [str(log)], "audit": [], "auth": []},
    }
    repository = declare(tmp_path / "repository", drift, {"v": "11\n"})
    found = (await audited(repository))["debian_version", "content"]
    assert (found.who.kind, found.who.name, found.who.sure) == ("package", "base-files", "likely")
    assert (found.weight, found.pattern) == ("harmless", "package-post-install")


def test_audit_names_in_hex_are_read() -> None:
    text = AUDIT.format(at=1.5, user=1000, comm="vi", cwd="/", name="X")
    text = text.replace('"X"', b"/etc/a b".hex())
    (found,) = records(text)
    assert (found.paths, found.user, found.at) == (frozenset({"/etc/a b"}), 1000, 1.5)


def test_a_time_without_a_year_is_the_last_such_day() -> None:
    january = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    line = "Dec 31 23:00:00 h sudo: ann : PWD=/ ; COMMAND=/bin/ls"
    (found,) = sudo_lines(line, january)
    assert local(found.at).year == 2025
    assert sudo_lines("Foo 99 23:00:00 h sudo: ann : COMMAND=x", time.time()) == []


def test_logs_of_the_package_manager_are_read() -> None:
    text = (
        "2025-11-03 12:00:01 startup archives unpack\n"
        "2025-11-03 12:00:02 install nginx:amd64 <none> 1.22.1-9\n"
        "2025-11-03 12:00:03 status half-installed nginx:amd64 1.22.1-9\n"
        "2025-11-03 12:00:04 configure nginx:amd64 1.22.1-9 <none>\n"
    )
    assert [(one.action, one.package, one.version) for one in installed(text)] == [
        ("install", "nginx", "1.22.1-9"), ("configure", "nginx", "1.22.1-9"),
    ]  # fmt: skip
    history = (
        "\nStart-Date: 2025-11-03  12:00:00\nCommandline: apt-get install nginx\n"
        "Requested-By: ann (1000)\nInstall: nginx:amd64 (1.22.1-9), libx:amd64 (1.0, automatic)\n"
        "End-Date: 2025-11-03  12:00:09\n"
    )
    (run,) = apt_runs(history)
    assert (run.by, run.packages) == ("ann", frozenset({"nginx", "libx"}))
    assert run.ended - run.begun == 9
