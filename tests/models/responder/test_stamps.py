from datetime import UTC, datetime

import pytest

from hermes_agent.models.responder.view.stamps import is_calm, is_grave, stamp

NOW = datetime(2026, 11, 16, 2, 0, 30, tzinfo=UTC).timestamp()
AT = datetime(2026, 11, 16, 2, 0, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-16 02:00:01,123 ERROR no",
        "2026-11-16T02:00:01Z no",
        "2026-11-16T04:00:01.5+02:00 no",
        "2026/11/16 02:00:01 [emerg] 7#7: no",
        '10.0.0.1 - - [16/Nov/2026:02:00:01 +0000] "GET / HTTP/1.1" 502',
        "Nov 16 02:00:01 box shop[41]: no",
        "[Mon Nov 16 02:00:01 2026] no",
        "[Mon Nov 16 02:00:01.392634 2026] [binder:emerg] [pid 1] no",
        "41:C 16 Nov 2026 02:00:01.204 # no",
        "Mon, 16 Nov 2026 02:00:01 +0000 no",
        "16-Nov-2026 02:00:01.391 no",
        "16.11.2026 02:00:01 no",
        "20261116T020001Z no",
        "20261116 02:00:01 no",
        f"{int(AT)}.25 no",
        f"[{int(AT)}] no",
        f'{{"ts": {int(AT)}123, "level": "error", "msg": "no"}}',
        f"ts={int(AT)} level=error msg=no",
        'time="2026-11-16T02:00:01Z" level=error',
        "E1116 02:00:01.123456 7 main.go:1] no",
        f'{{"level":50,"time":{int(AT)}854,"msg":"not active until 2026-12-02T13:20:45.000Z"}}',
        f'{{"msg": "rates as of 2026-03-29 01:10:00 are old", "ts": {int(AT)}.5}}',
        f"{int(AT)} GET / took time=0.012, valid until 2026-12-02 13:20:45",
    ],
)
def test_stamps_are_read_in_the_usual_forms(line: str) -> None:
    assert stamp(line, NOW) == AT


def test_a_line_without_a_stamp_has_none() -> None:
    for line in ("no", "pid 1794772992 is gone", "2026-13-45 99:00:01 no", "took 02:00:01", ""):
        assert stamp(line, NOW) == 0.0


def test_where_no_zone_is_named_the_writers_clock_counts() -> None:
    assert stamp("2026-11-16 03:00:01 no", NOW, 3600.0) == AT
    assert stamp("2026-11-16T02:00:01Z no", NOW, 3600.0) == AT


def test_a_year_that_is_not_said_is_the_nearest() -> None:
    new_year = datetime(2027, 1, 1, 0, 0, 5, tzinfo=UTC).timestamp()
    assert stamp("Dec 31 23:59:59 box shop[1]: no", new_year) == new_year - 6


def test_a_year_that_is_not_said_is_rather_one_that_was() -> None:
    assert stamp("Apr 26 02:00:01 box shop[1]: no", NOW) < NOW
    assert stamp("Nov 30 02:00:01 box shop[1]: no", NOW) > NOW


def test_lines_say_how_grave_they_are() -> None:
    for line in (
        "2026-11-16 02:00:01 INFO retried after an error",
        'ts=1 level=info msg="no error"',
        '{"level":"debug","msg":"failed"}',
        "[notice] 7#7: signal",
        '{"level":30,"msg":"x"}',
    ):
        assert is_calm(line)
        assert not is_grave(line)
    for line in ("x ERROR y", 'level=error msg="INFO"', '{"severity": "CRITICAL"}', "[emerg] 7#7"):
        assert is_grave(line)
        assert not is_calm(line)
