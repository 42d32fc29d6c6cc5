"""Templates of log lines, and what is new among them."""

import pytest

from hermes_agent.tools.sources.log_patterns import LogEntry, LogPatterns, entry, template
from hermes_agent.tools.sources.times import Window

UUID = "6f1c7a52-0b1e-4c57-9a55-0d2c1f5a8e11"


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("took 12.5ms for 3 of 40 MB", "took <n>ms for <n> of <n> MB"),
        (f"request {UUID} from 10.1.2.3:5432", "request <uuid> from <ip>"),
        ("peer fe80::1:2:3:4 [00:1b:44:11:3a:b7]", "peer <ip> [<mac>]"),
        ("at 0x7ffd12ab commit 9fceb02d0ae598e9", "at <hex> commit <id>"),
        ("pod shop-7d9c6f4b5d-x2k8z restarted", "pod shop-<id>-<id> restarted"),
        ("open /var/lib/jobs/4711/run.log", "open /var/lib/jobs/<n>/run.log"),
        ("GET /a?user=7&x=y done", "GET /a?<query> done"),
        ("""no "Ann's cat" for 'bob' today""", """no "<text>" for '<text>' today"""),
        ("I don't know 'x'", "I don't know '<text>'"),
        ('level=error msg="disk 7 is full"', "level=error msg=disk <n> is full"),
        ("exit code 137, status=500, signal: 9", "exit code 137, status=500, signal: 9"),
        ('1.2.3.4 - - [x] "GET /a/9?b=1 HTTP/1.1" 502 17', "GET /a/<n> status 502"),
        ("2026-11-19T03:12:01.123Z at 03:12:01", "<time> at <time>"),
        ("\x1b[31mred 5\x1b[0m alert", "red <n> alert"),
        ("key " + "A1" * 300, "key <data>"),
    ],
)
def test_what_varies_is_masked(line: str, masked: str) -> None:
    assert template(line) == masked


def test_errors_come_first_and_new_ones_before_them() -> None:
    before = [LogEntry(50.0, f"connection to 10.0.0.{n} refused") for n in range(3)]
    during = [
        *(LogEntry(100.0 + n, f"request {n} done in {n} ms", where="web") for n in range(60)),
        *(LogEntry(120.0 + n, f"connection to 10.0.0.{n} refused") for n in range(9)),
        *(LogEntry(150.0 + n, f"out of memory: killed process {n}", where="db") for n in range(5)),
        LogEntry(160.0, "retry 1"),
    ]
    found = LogPatterns(Window(100.0, 160.0)).add([*before, *during])
    assert [(one.level, one.count, found.is_new(one)) for one in found.templates] == [
        ("error", 5, True), ("error", 9, False), ("warning", 1, True), ("info", 60, True),
    ]  # fmt: skip
    assert found.data == {"lines": 75, "patterns": 4, "errors": 14, "new": 3}
    text = found.report()
    assert text.index("NEW error 5x") < text.index("error 9x (3 before)") < text.index("info 60x")
    assert "in db" in text
    [change] = found.changes()
    assert change.time == 150.0
    assert "out of memory: killed process 0" in change.what


def test_without_earlier_lines_nothing_is_called_new() -> None:
    found = LogPatterns(Window(0.0, 60.0)).add(
        [LogEntry(0.0, "error: no time"), LogEntry(5.0, "x")]
    )
    assert found.data["new"] == 0
    assert found.changes() == []
    assert "nothing from before" in found.report()


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("INFO 0 errors found", "info"),
        ("[error] upstream gone", "error"),
        ("level=warn msg=x", "warning"),
        ("E1119 03:12:01.1 main.go:7] x", "error"),
        ("Traceback (most recent call last):", "error"),
        ("all is well", "info"),
        ('"GET / HTTP/1.1" 503 1', "error"),
    ],
)
def test_the_level_is_what_a_line_says_of_itself(line: str, level: str) -> None:
    [one] = LogPatterns(Window(0.0, 60.0)).add([LogEntry(1.0, line)]).templates
    assert one.level == level


def test_lines_of_json_are_read_by_their_fields() -> None:
    line = '{"level":"warn","ts":1763521921.5,"msg":"slow","error":"no \\"x\\"","id":4}'
    assert entry(line, where="web") == LogEntry(1763521921.5, 'slow: no "x"', "warning", "web")
    assert entry('{"log":"went 7\\n","time":"1970-01-01T00:00:09Z"}') == LogEntry(9.0, "went 7")
    for damaged in ('{"msg":', "{}", "[" * 10_000, '{"msg":' * 10_000, '{"msg": 5}'):
        assert entry(damaged) == LogEntry(0.0, damaged)


@pytest.mark.parametrize(
    "part", ["a", "0a", '"', "'a", "0-", "a:", "0.", "::::0", "status ", 'msg="', "a?b=", "[(", "{"]
)
def test_a_line_of_a_megabyte_is_cut(part: str) -> None:
    line = part * (1_000_000 // len(part))
    found = LogPatterns(Window(0.0, 60.0)).add([entry(line, 1.0)] * 20)
    assert found.data["patterns"] == 1
    assert len(found.report()) < 2_000


def test_too_many_patterns_are_counted_together() -> None:
    letters = "abcdefghij"
    words = (f"{a}{b}{c}{d}" for a in letters for b in letters for c in letters for d in letters)
    found = LogPatterns(Window(0.0, 60.0)).add(LogEntry(1.0, word) for word in words)
    assert found.lines == 10_000
    assert found.data["patterns"] == 5_001
    assert "and 4971 more patterns" in found.report()
