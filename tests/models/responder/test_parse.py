from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.core.messages import ToolMessage
from hermes_agent.models.responder.brief import Aftermath, Brief, Look, task_of
from hermes_agent.models.responder.rules.certificate import date, validity
from hermes_agent.models.responder.view import parse
from hermes_agent.models.responder.view.case import paths_in, stamp
from hermes_agent.models.responder.view.seen import quotes, seen
from tests.models.responder.machine import brief


def test_programs_of_a_supervisor() -> None:
    text = """\
ledger                           RUNNING   pid 17, uptime 0:01:10
mailer                           FATAL     Exited too quickly (process log may have details)
report-job                       STOPPED   Not started
nothing of the kind
"""
    found = {one.name: (one.state, one.pid, one.up) for one in parse.supervised(text)}
    assert found == {
        "ledger": ("RUNNING", 17, True),
        "mailer": ("FATAL", 0, False),
        "report-job": ("STOPPED", 0, False),
    }


def test_units_of_systemd() -> None:
    text = "nginx.service loaded active running A web server\n● shop.service loaded failed failed\n"
    assert [(one.name, one.state) for one in parse.units(text)] == [
        ("nginx", "active"), ("shop", "failed"),
    ]  # fmt: skip


def test_listeners_with_their_processes() -> None:
    text = """\
State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess
LISTEN 0      128        127.0.0.1:7209      0.0.0.0:*    users:(("python3",pid=51,fd=3))
LISTEN 129    128             [::]:443          [::]:*
"""
    found = list(parse.listeners(text))
    assert [(one.port, one.name, one.pid, one.waiting) for one in found] == [
        (7209, "python3", 51, 0), (443, "", 0, 129),
    ]  # fmt: skip


def test_mounts_by_room_and_by_inodes() -> None:
    text = """\
Filesystem     1024-blocks   Used Available Capacity Mounted on
tmpfs                11264  11264         0     100% /srv/data/reviews
tmpfs               500000  12000    488000       3% /
"""
    assert [(one.path, one.percent, one.size) for one in parse.mounts(text)] == [
        ("/srv/data/reviews", 100, 11264), ("/", 3, 500000),
    ]  # fmt: skip


def test_files_behind_one_another() -> None:
    found = parse.files("==> /var/log/a.log <==\none\n\ntwo\n\n==> /var/log/b.log <==\n")
    assert found == {"/var/log/a.log": ["one", "two"], "/var/log/b.log": []}


def test_rows_of_a_listing() -> None:
    row = "lrwxrwxrwx 1 root root 12 2026-11-15 20:03:07.025658994 +0000 current -> releases/42"
    (found,) = parse.listing(row)
    assert (found.own, found.target, found.mode) == ("current", "releases/42", "lrwxrwxrwx")


def test_paths_are_not_addresses() -> None:
    line = "ERROR GET /items/ready: http://127.0.0.1:80/items/x: Errno 13: '/var/lib/shop/x'"
    assert paths_in(line) == ["/var/lib/shop/x"]


def test_dates_of_certificates() -> None:
    text = "notBefore=Aug 17 08:20:22 2026 GMT\nnotAfter=Nov 15 08:20:22 2026 GMT\n"
    end = date("Nov 15 08:20:22 2026 GMT")
    assert validity(text, end + 1) == "expired"
    assert validity(text, end - 1) == ""
    assert validity(text, date("Aug 17 08:20:22 2026 GMT") - 1) == "not yet valid"


def test_what_a_message_asks_for() -> None:
    assert isinstance(task_of(brief()), Brief)
    over = 'The incident is over.\n```json\n{"aftermath": true, "category": "disk-full"}\n```\n'
    assert task_of(over) == Aftermath(True, "disk-full")
    assert task_of('```json\n{"look": "shop"}\n```') == Look("shop")
    assert task_of("how is the weather?") is None
    assert task_of('```json\n{"incident": 3}\n```') is None


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_no_output_is_too_odd_to_be_read(text: str) -> None:
    for read in (
        parse.supervised, parse.units, parse.processes, parse.listeners, parse.mounts,
        parse.listing, parse.sizes, parse.counted, parse.table,
    ):  # fmt: skip
        assert len(list(read(text))) <= len(text)  # type: ignore[operator]
    parse.files(text)
    parse.folders(text)
    parse.descriptors(text)
    task_of(text)
    task_of(f"```json\n{text}\n```")
    stamp(text)
    validity(text, 1.0)


def test_who_may_not_be_looked_at_holds_nothing() -> None:
    text = "[stderr]\nfind: \u2018/proc/429/fd\u2019: Permission denied\n/proc/7/fd/3 /run/a.pid\n"
    assert parse.holders(text) == [7]


def test_what_is_short_but_for_its_spaces_is_not_quoted() -> None:
    assert quotes([">             deny all;", "deny all; # since today"]) == (
        "deny all; # since today",
    )


def test_what_a_terminal_keeps_for_itself_is_not_part_of_the_machine() -> None:
    ours = "  9 1 root S 0 0.0 900 1 bash /var/lib/web/.cache/hermes/abc-box/abc-4-2.c"
    text = f"  PID\n{ours}\n 12 1 root S 0 0.0 900 1 nginx: master\n/tmp/hermes-0/x/run"
    found = seen("ps", ToolMessage("1", "terminal", text))
    assert found.lines == ["  PID", " 12 1 root S 0 0.0 900 1 nginx: master"]
    failed = seen("ps", ToolMessage("1", "terminal", f"{ours}\n[exit code 3]", ok=False))
    assert (failed.lines, failed.exit) == ([], 3)
