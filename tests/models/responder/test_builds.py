"""A program that was copied from a shelf of builds: which one it is, and which came before."""

import shutil
import subprocess
from pathlib import Path

from hermes_agent.models.responder.brief import Brief, BriefService
from hermes_agent.models.responder.rules import builds
from hermes_agent.models.responder.rules.ideas import ACT, Idea, kept_as, ranked
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.support.patience import PATIENCE

OWN = "/srv/till/till.jar"
ENTRY = f"""\
==> /etc/supervisor/conf.d/till.conf <==
[program:till]
command=/usr/bin/java -jar {OWN}
stdout_logfile=/var/log/supervisor/till.log
"""
SHELF = f"""\
aaaaaaaaaaaaaaaa 900 1794772000.5 root {OWN}
aaaaaaaaaaaaaaaa 900 1794771000.0 root /srv/builds/till-4.10.0.jar
bbbbbbbbbbbbbbbb 880 1794000000.0 root /srv/builds/till-4.9.2.jar
cccccccccccccccc 870 1793000000.0 root /srv/builds/till-4.8.0.jar
"""


def found(shelf: str | None, said: str = "java.lang.NullPointerException: total") -> list[Idea]:
    seen = {
        probes.STATUS: "till   RUNNING   pid 7, uptime 0:10",
        probes.PROGRAMS: ENTRY,
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.LOGS: f"==> /var/log/supervisor/till.log <==\n{said}",
    }
    if shelf is not None:
        seen[builds.shelved(OWN)] = shelf
    brief = Brief("inc-1", service="till", services=(BriefService("till"),))
    return ranked(builds.builds(Case(brief, [Seen(*one) for one in seen.items()])))


def test_the_build_before_the_one_that_runs_is_put_back_by_its_number() -> None:
    (idea,) = found(SHELF)
    assert idea.score >= ACT
    assert f"cp -f /srv/builds/till-4.9.2.jar {OWN}" in idea.fix
    assert "till-4.10.0" in idea.locus
    assert any("replaced" in command for command in idea.fix)


def test_what_somebody_else_put_there_is_no_build_of_it() -> None:
    planted = SHELF.replace("root /srv/builds/till-4.9.2", "www-data /srv/builds/till-4.9.2")
    (idea,) = found(planted)
    assert f"cp -f /srv/builds/till-4.8.0.jar {OWN}" in idea.fix


def test_what_is_none_of_the_builds_and_was_not_changed_lately_is_left_to_people() -> None:
    for time, acts in (("1794772000.5", True), ("1794600000.5", False)):
        shelf = SHELF.replace("aaaaaaaaaaaaaaaa 900 1794772000.5", f"dddddddddddddddd 9 {time}")
        shelf = shelf.replace("1794771000.0", "1794100000.0")
        (idea,) = found(shelf)
        assert (idea.score >= ACT) is acts


def test_a_program_that_runs_can_be_put_back(tmp_path: Path) -> None:
    (idea,) = found(SHELF)
    own, kept = tmp_path / "own", tmp_path / "kept"
    for path in (own, kept):
        shutil.copy("/bin/sleep", path)
    undo = idea.undo.replace(kept_as(OWN), str(kept)).replace(OWN, str(own))
    with subprocess.Popen([own, "60"]) as running:
        try:
            assert (
                subprocess.run(["bash", "-c", undo], timeout=PATIENCE, check=False).returncode == 0
            )
        finally:
            running.kill()


def test_where_nothing_is_wrong_no_shelf_is_looked_at() -> None:
    assert found(None, "ready") == []
    assert found(None)[0].wants == (builds.shelved(OWN),)


def test_what_is_none_of_the_builds_and_older_than_all_stays() -> None:
    newest = SHELF.replace("aaaaaaaaaaaaaaaa 900 1794772000.5", "dddddddddddddddd 900 1792000000.5")
    assert found(newest) == []


def test_the_oldest_build_has_none_before_it() -> None:
    rows = SHELF.splitlines()
    assert found("\n".join(rows[:2])) == []


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    build = tmp_path / "till-2.jar"
    build.write_text("x")
    link, plain = tmp_path / "till.jar", tmp_path / "kept.jar"
    link.symlink_to(build)
    shutil.copy(build, plain)

    def looked(path: Path) -> str:
        ran = subprocess.run(
            ["bash", "-c", builds.shelved(str(path))], capture_output=True, text=True, check=False
        )
        return ran.stdout

    assert looked(link) == ""
    assert looked(plain).split()[-1] == str(plain)
