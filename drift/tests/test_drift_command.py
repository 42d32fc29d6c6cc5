"""`hermes drift`: look, list, show, accept, reject, and what its exit code says."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_drift.commands.drift import SCOPES, completed
from hermes_drift.commands.show import audit_text, finding_text, list_text
from hermes_drift.values import SCOPES as REAL_SCOPES
from tests.support.cli import Hermes
from tests.support.drift_repositories import declare

ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x1b[2J"


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hermes, Path, Path]]:
    """A Hermes home, a repository and the folder that it is for."""
    folder = tmp_path_factory.mktemp("drifting")
    live = folder / "live"
    live.mkdir()
    (live / "app.conf").write_text("workers = 8\n")
    (live / "app.conf").chmod(0o666)
    drift = {"files": [{"declared": "etc", "live": str(live)}]}
    repository = declare(folder / "repository", drift, {"etc/app.conf": "workers = 4\n"})
    made = Hermes(folder / "hermes")
    yield made, repository, live
    made.close()


def test_drift_is_told_and_taught(drifting: tuple[Hermes, Path, Path]) -> None:
    hermes, repository, live = drifting
    done = hermes.run("drift", str(repository))
    assert (done.returncode, done.stderr) == (1, "")
    assert "files: 1 checked, dangerous (1 dangerous, 1 notable)\n" in done.stdout
    assert "drift-1.1  dangerous" in done.stdout
    assert f"revert: chmod 0664 {live}/app.conf" in done.stdout
    assert "-workers = 4\n+workers = 8\n" in hermes.good("drift", "show", "drift-1.2")
    refused = hermes.run("drift", "accept", "1.2")
    assert (refused.returncode, "a reason is required" in refused.stderr) == (2, True)
    said = hermes.good("drift", "accept", "1.2", "--why", "it is meant", "--by", "ann")
    like = re.sub(r"\d{2,}", "*", f"{live}/app.conf")
    assert re.sub(r"\d{2,}", "*", said).startswith(f"accepted: files {like}: content\n")
    (live / "app.conf").chmod(0o644)
    again = hermes.run("drift", "run", str(repository), "--json")
    (found,) = json.loads(again.stdout)["scopes"][0]["findings"]
    assert (again.returncode, found["weight"]) == (0, "harmless")
    assert "accepted by ann: it is meant (drift-1.2)" in found["history"][0]
    assert hermes.good("drift", "reject", "drift-2.1", "--why", "no more").startswith("rejected")
    assert hermes.run("drift", "run", str(repository)).returncode == 1
    assert [row["id"] for row in hermes.json("drift", "list")] == ["drift-3", "drift-2", "drift-1"]
    assert hermes.json("drift", "show", "3")["id"] == "drift-3"


def test_what_is_dangerous_raises_a_signal(drifting: tuple[Hermes, Path, Path]) -> None:
    hermes, repository, live = drifting
    (live / "app.conf").chmod(0o4666)
    done = hermes.run("drift", str(repository), "--signal")
    assert "raised a signal: " in done.stdout
    titles = [one["title"] for one in hermes.api.get("/v1/incidents")]
    assert any(f"dangerous drift: {live}/app.conf (mode)" in title for title in titles)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["drift", "/nowhere"], 1, "no folder at '/nowhere'"),
        (["drift", "."], 2, "git cannot read"),
        (["drift", "show", "drift-99"], 1, "no audit 'drift-99'"),
        (["drift", "show", "../x"], 1, "no audit '../x'"),
        (["drift", "reject", "99.1"], 1, "no audit"),
        (["drift", ".", "--scope", "moods"], 2, "not a valid --scope: 'moods'"),
        (["drift", ".", "--terminal", "moon"], 2, "git cannot read"),
    ],
)
def test_what_cannot_be_done_is_said(
    drifting: tuple[Hermes, Path, Path], words: list[str], code: int, said: str
) -> None:
    done = drifting[0].run(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_repository_alone_is_looked_at() -> None:
    assert completed(["repo", "--json"]) == ["run", "repo", "--json"]
    assert completed([]) == ["run"]
    assert completed(["--json"]) == ["run", "--json"]
    assert completed(["--json", "list"]) == ["--json", "list"]
    assert completed(["--help"]) == ["--help"]
    assert SCOPES == REAL_SCOPES


def test_what_is_live_cannot_speak_to_the_terminal() -> None:
    odd = {
        "id": "drift-1.1", "scope": "files", "object": f"/x{ESCAPES}", "field": f"f{ESCAPES}",
        "declared": ESCAPES, "live": ESCAPES, "diff": f"+{ESCAPES}\n", "source": "", "why": "w",
        "terminal": "local", "weight": "look", "pattern": "", "skill": ESCAPES,
        "who": {"kind": "person", "name": ESCAPES, "sure": "guess", "at": None,
                "evidence": ESCAPES},
        "advice": {"do": "decide", "why": "", "revert": ESCAPES, "adopt": ESCAPES, "patch": ""},
        "history": [ESCAPES], "namespace": "",
    }  # fmt: skip
    looked = {"scope": "files", "checked": 1, "findings": [odd], "troubles": [ESCAPES],
              "notes": [ESCAPES]}  # fmt: skip
    audit = {"id": "drift-1", "repository": f"/r{ESCAPES}", "commit": "0" * 40,
             "subject": ESCAPES, "scopes": [looked]}  # fmt: skip
    assert "\x1b" not in audit_text(audit)
    assert "\x1b" not in finding_text(odd)
    assert list_text([]).startswith("no audits yet")
