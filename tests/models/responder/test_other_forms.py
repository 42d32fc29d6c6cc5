"""What is kept, bounded or asked for too much, in whatever form the settings have it: over what
commands printed."""

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes_agent.models.responder.brief import BriefService
from hermes_agent.models.responder.rules import hoards, leaks, levels, pool, room, space
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from tests.models.responder.test_rules_hoards import ENV, WITH_ENV, changed, told
from tests.models.responder.test_rules_room import ENTRY, NOW, PROCESSES, case, looked, rows

JSON = "/app/depot/depot.json"
WITH_JSON = ENTRY.replace("--data=/vol/live", f"--config={JSON}")
CAUGHT = '{\n  "port": 7400,\n  "saveRequests": "/vol/in",\n  "parcels": "/vol/live"\n}\n'


def test_what_is_caught_of_requests_is_left_out_of_settings_and_then_moved() -> None:
    bodies = [(900_000, 9000.0 - n, f"/vol/in/{n:010}.body") for n in range(9)]
    seen = looked(rows((1_000_000, 9e6, "/vol/live/all.dat"), *bodies)) | {
        probes.PROGRAMS: WITH_JSON, probes.show(JSON): CAUGHT, **changed(JSON),
    }  # fmt: skip
    best = max(space.full_disk(case(seen)), key=lambda idea: idea.score)
    assert "saveRequests" in best.fix[1]
    assert "mv " in best.fix[-1]
    assert "all.dat" not in told([best.fix])
    long_ago = seen | changed(ENV)
    assert "saveRequests" not in told([one.fix for one in space.full_disk(case(long_ago))])


@pytest.mark.parametrize(
    ("name", "row", "left"),
    [
        ("a.json", '  "saveRequests": "/vol/in",', ""),
        ("a.json", '  "saveRequests": "/vol/in"', '  "_saveRequests": "/vol/in"'),
        ("a.env", "saveRequests=/vol/in", "# saveRequests=/vol/in"),
        ("a.yaml", "  saveRequests: /vol/in", "  # saveRequests: /vol/in"),
        ("a.sh", "export saveRequests=/vol/in", "# export saveRequests=/vol/in"),
        ("a.conf", "command=/bin/x --saveRequests /vol/in -v", "command=/bin/x -v"),
        ("a.conf", "command=/bin/x --saveRequests=/vol/in", "command=/bin/x"),
        ("a.conf", 'environment=A="1",saveRequests="/vol/in"', 'environment=A="1"'),
        ("a.conf", 'environment=saveRequests="/vol/in",B="2"', 'environment=B="2"'),
        ("a.sh", "x=1 saveRequests=/vol/in run", "x=1 saveRequests=/vol/in run"),
    ],
)
def test_a_place_is_left_out_in_the_form_of_its_file(
    tmp_path: Path, name: str, row: str, left: str
) -> None:
    file = tmp_path / name
    file.write_text(f"first\n{row}\nlast\n")
    for command in hoards.left_out(str(file), "saveRequests", "/vol/in", row)[1:]:
        subprocess.run(["bash", "-c", command], check=True)
    assert file.read_text() == "first\n" + (f"{left}\n" if left else "") + "last\n"


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ('{"map": {"tiles": "/vol/map", "source": "https://tiles.example/{z}"}}', True),
        ('{"map": {"tiles": "/vol/map"}, "source": "https://tiles.example/"}', False),
        ('{"media": {"root": "/vol/map", "url": "https://media.example/"}}', False),
    ],
)
def test_what_comes_from_elsewhere_can_be_had_again(text: str, passes: bool) -> None:
    machine = case({probes.PROGRAMS: WITH_JSON, probes.show(JSON): text})
    assert room.kept_for_good(machine, "/vol/map/9/7.png", "/vol") is not passes


def beside(seen: dict[str, str]) -> Case:
    """Two services, of which each has settings of its own."""
    both = WITH_ENV + WITH_ENV.replace("depot", "quay").replace("==> ", "\n==> ")
    machine = case({probes.PROGRAMS: both, **seen})
    brief = replace(machine.brief, services=(BriefService("depot"), BriefService("quay")))
    return Case(brief, machine.observed)


def test_a_bound_that_others_have_within_a_value_is_added() -> None:
    other = ENV.replace("depot", "quay")
    seen = {probes.show(ENV): "cache.spec=expireAfterAccess=900s\n",
            probes.show(other): "cache.spec=maximumSize=20,weakKeys=true\n"}  # fmt: skip
    (edit,) = hoards.loosened(beside(seen), "depot")
    assert edit.better == "maximumSize=20,expireAfterAccess=900s"
    bound = seen | {probes.show(ENV): "cache.spec=maximumSize=900,expireAfterAccess=900s\n"}
    assert not list(hoards.loosened(beside(bound), "depot"))


@pytest.mark.parametrize(
    ("line", "better"),
    [("refresh_seconds=0.01", "60"), ("pollInterval=20ms", "60000ms"), ("POLL_MS=5", "60000"),
     ("every=0", "60"), ("refresh=0.01m", ""), ("interval=5", ""), ("refresh_token=0", "")],
)  # fmt: skip
def test_who_asks_again_at_once_is_given_a_pause(line: str, better: str) -> None:
    seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): f"{line}\n"}
    assert [one.better for one in hoards.hasty(case(seen), "depot", 60)] == [better] * bool(better)


def test_a_worker_is_relieved_soon_where_nobody_says_when() -> None:
    seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): "MAX_REQUESTS=0\n", **changed(ENV),
            probes.AGAIN: "", probes.VITALS: "7 has 990 of 1000 bytes",
            probes.copies(ENV): ""}  # fmt: skip
    machine = case(seen, "MemoryError")
    fixes = [one.fix for one in leaks.leaking(machine)]
    assert "\\18\\3" in told(fixes)


def test_what_begins_a_holder_anew_is_ended_with_it() -> None:
    base = "/vol/live/all.db"
    more = (f"\n 40 1 root Ss 0 0.0 3000 90 bash /root/keep.sh"
            f"\n 41 40 root R 0 9.0 3000 60 python3 /root/merge.py {base}")  # fmt: skip
    seen = {
        probes.PROCESSES: PROCESSES + more, probes.holders(f"{base}*"): f"/proc/41/fd/3 {base}",
        pool.LOCKS: "1: POSIX  ADVISORY  WRITE 41 00:1:2 0 EOF",
    }  # fmt: skip
    ideas = list(pool._held(case(seen), "depot", base, "database is locked"))
    assert any(fix[:1] == ("kill 40 41",) for fix in (one.fix for one in ideas))


@pytest.mark.parametrize(
    ("key", "value", "better"),
    [
        ("LogLevel", "warn rewrite:trace8", "warn rewrite:notice"),
        ("log4j.rootLogger", "DEBUG, file", "INFO, file"), ("loglevel", "verbose", "notice"),
        ("RUST_LOG", "info,net=trace", "info,net=info"), ("log_level", "DEBUG", "INFO"),
        ("log_file", "/var/log/debug.log", ""), ("audit_log", "debug, file", ""),
        ("title", "a trace", ""),
    ],
)  # fmt: skip
def test_a_level_is_made_less_as_it_is_written(key: str, value: str, better: str) -> None:
    assert levels.quieter(key, value) == better


def test_what_is_on_below_a_name_is_switched_off_there() -> None:
    text = '{\n  "port": 7400,\n  "profiler": {\n    "enabled": true\n  }\n}\n'
    seen = {probes.PROGRAMS: WITH_JSON, probes.show(JSON): text, **changed(JSON)}
    (one,) = hoards.switches(case(seen), "depot")
    assert "enabled" in one.fix[1]
    two = text.replace("},", "}").replace(
        '"port": 7400,', '"port": 7400,\n  "mail": {\n    "enabled": true\n  },'
    )
    assert not list(hoards.switches(case(seen | {probes.show(JSON): two}), "depot"))


def test_a_pause_of_next_to_nothing_is_made_longer() -> None:
    seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): "ROUND_EVERY_MS=2\nPAUSE=0\n"}
    found = {one.key: one.better for one in hoards.pauses(case(seen), "depot")}
    assert found == {"PAUSE": "1", "ROUND_EVERY_MS": "5000"}


def test_copies_that_are_named_by_days_are_of_a_kind() -> None:
    names = ("mon", "Tuesday", "wed", "fri")
    found = [parse.Sized(9, NOW - n, "a", f"/vol/copies/all-{one}.img", "")
             for n, one in enumerate(names)]  # fmt: skip
    assert len(room.series(case(looked("")), found, "/vol")) == 2
