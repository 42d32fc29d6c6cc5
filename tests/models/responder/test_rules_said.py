"""What programs complain of in their own words, and which line of their settings is led right."""

import pytest

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rules.complaints import in_the_way, read
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.said import halted_by, told
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

LINES = [
    ('[emerg] unknown directive "proxy_pas" in /etc/nginx/a.conf:7', ("unknown", "proxy_pas", "")),
    (
        '[emerg] invalid value "onn" in "gzip" directive, it must be "on" or "off"',
        ("invalid", "gzip", "onn"),
    ),
    (
        'LOG: unrecognized configuration parameter "shared_bufers" in file "/d/p.conf" line 3',
        ("unknown", "shared_bufers", ""),
    ),
    (
        'FATAL: invalid value for parameter "wal_level": "replicaa"',
        ("invalid", "wal_level", "replicaa"),
    ),
    ('LOG: 70000 is outside the valid range for parameter "port"', ("invalid", "port", "70000")),
    ("x.py: error: unrecognized arguments: --fats", ("unknown", "--fats", "")),
    (
        "x.py: error: argument --mode: invalid choice: 'fats' (choose from 'fast', 'slow')",
        ("invalid", "--mode", "fats"),
    ),
    ("ValueError: invalid literal for int() with base 10: '80a'", ("invalid", "", "80a")),
    ("KeyError: 'session_seconds'", ("missing", "session_seconds", "")),
    ("/opt/x/start: line 4: DATA_DIR: unbound variable", ("missing", "DATA_DIR", "")),
    ("No option 'port' in section: 'service'", ("missing", "port", "")),
    ("msg=\"unknown log level \\\"inof\\\"\"", ("invalid", "log level", "inof")),
]  # fmt: skip


@pytest.mark.parametrize(("line", "meant"), LINES)
def test_complaints_are_read_in_the_words_of_many_programs(
    line: str, meant: tuple[str, str, str]
) -> None:
    found = read(line)
    assert found is not None
    assert (found.kind, found.name, found.value) == meant


@pytest.mark.parametrize(
    "line",
    [
        "cannot connect to 10.0.0.2:5432: Connection refused",
        '[error] open() "/var/www/x" failed (2: No such file or directory)',
        "invalid request from 10.0.0.1",
        "request failed: invalid token for user bob",
    ],
)
def test_other_troubles_are_no_complaints_of_settings(line: str) -> None:
    assert read(line) is None


PROGRAMS = """\
==> /etc/supervisor/conf.d/api.conf <==
[program:api]
command=python3 /opt/api/bin/api.py /opt/api/etc/api.toml
stdout_logfile=/var/log/api.log
"""


def ideas(settings: str, said: str, code: str = "") -> list[Idea]:
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "api    FATAL     Exited too quickly",
        probes.PROGRAMS: PROGRAMS,
        probes.show("/opt/api/etc/api.toml"): settings,
        probes.show("/opt/api/bin/api.py"): code,
        probes.tail("/var/log/api.log"): said,
    }
    brief = Brief("inc-1", service="api")
    case = Case(brief, [Seen(command, output) for command, output in shown.items()])
    return [idea for idea in told(case) if idea.fix]


def test_a_value_is_led_to_the_likest_of_those_that_are_taken() -> None:
    said = "FATAL: invalid value for parameter \"mode\": 'fats'\nHINT: Available values: fast, slow"
    first = ideas("port = 80\nmode = 'fats'\n", said)[0]
    assert first.locus == "/opt/api/etc/api.toml"
    assert "mode = 'fast'" in first.fix[1].replace("'\"'\"'", "'")


def test_a_setting_that_is_misspelt_is_called_as_the_program_calls_it() -> None:
    code = 'settings["session_seconds"]\nsettings["port"]\n'
    first = ideas("port = 80\nsesion_seconds = 5\n", "KeyError: 'session_seconds'", code)[0]
    assert "1session_seconds = 5|" in first.fix[1]


def test_a_setting_that_nobody_knows_is_put_out_and_kept() -> None:
    found = ideas("port = 80\nturbo = 1\n", "error: unknown key 'turbo'", "settings['port']")
    assert "# turbo = 1|" in found[0].fix[1]
    assert found[0].undo.startswith("cp ")


def test_what_keeps_people_out_is_not_put_out() -> None:
    said = "error: unknown key 'require_auth'"
    assert not ideas("port = 80\nrequire_auth = true\n", said, "settings['port']")


def test_what_stands_there_more_than_once_is_left_alone() -> None:
    assert not ideas("a = 'x1'\nb = 'x1'\n", "error: 'x1' is not valid")


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("in maintenance: /var/opt/x/out-of-service is there", "/var/opt/x/out-of-service"),
        ("refusing to start: /run/x.lock exists", "/run/x.lock"),
        ("writes are disabled by /srv/x/READONLY", "/srv/x/READONLY"),
        ("another update is running; remove /var/lib/x/lock to go on", "/var/lib/x/lock"),
        ("cannot open /var/lib/x/data: No such file or directory", ""),
        ("stored /var/lib/x/data: it exists", ""),
    ],
)
def test_a_file_in_the_way_is_known_by_what_is_said_of_it(line: str, path: str) -> None:
    assert in_the_way(line) == path


def test_a_mark_that_halts_a_service_is_moved_aside_if_nobody_has_it_open() -> None:
    mark = "/var/opt/api/paused"
    row = f"-rw-r--r-- 1 root root 3 2026-11-15 20:00:00.0 +0000 {mark}"
    shown = {
        probes.STATUS: "api    RUNNING   pid 7, uptime 0:01:10",
        probes.PROGRAMS: PROGRAMS,
        probes.tail("/var/log/api.log"): f"ERROR: will not serve: {mark} is there",
        probes.rows(mark): row,
    }
    brief = Brief("inc-1", service="api")
    for holders, moved in (("", True), (f"/proc/7/fd/3 {mark}", False)):
        seen = [Seen(*one) for one in {**shown, probes.holders(mark): holders}.items()]
        found = [idea for idea in halted_by(Case(brief, seen)) if idea.fix]
        assert bool(found) is moved


def test_a_row_that_is_repeated_word_for_word_is_the_one_that_it_does_not_take() -> None:
    programs = "".join(
        f"==> /etc/supervisor/conf.d/{name}.conf <==\n[program:{name}]\n"
        f"command=python3 /srv/{name}/x.py /etc/{name}.conf\nstdout_logfile=/var/log/{name}.out\n\n"
        for name in ("desk", "till")
    )

    def fixes(own: str, said: str) -> list[str]:
        shown = {
            probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
            probes.STATUS: "desk      FATAL     Exited too quickly\ntill      RUNNING   pid 9\n",
            probes.PROGRAMS: programs,
            probes.show("/srv/desk/x.py"): "",
            probes.show("/etc/desk.conf"): own,
            probes.show("/etc/till.conf"): "listen 2\ndaemonize no\n",
            probes.tail("/var/log/desk.out"): f"{said}\nBad directive or wrong argument\n",
        }
        seen = [Seen(command, text) for command, text in shown.items()]
        ideas = told(Case(Brief("inc-1", service="desk"), seen))
        return [idea.fix[1] for idea in ideas if idea.score >= 0.7]

    assert "daemonize no" in fixes("listen 1\ndaemonise no\n", ">>> 'daemonise no'")[0]
    assert "daemonize no" in fixes("listen 1\ndaemonize noo\n", "line 2: daemonize noo")[0]
    assert not fixes("listen 1\ndaemonise no\n", "it is said that daemonise no is the default")
