"""Limits that let through less than what is sent, over what commands printed once."""

import pytest

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rules import edits
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.limits import limits
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.models.responder.test_rules_room import ENTRY, NOW, case


def found(own: str, said: str, others: str = "", *, lately: bool = True) -> list[Idea]:
    files = {"desk": "/etc/office/desk.conf", "till": "/etc/office/till.conf"}
    programs = "".join(
        f"==> /etc/supervisor/conf.d/{name}.conf <==\n[program:{name}]\n"
        f"command=python3 /srv/{name}/app.py {path}\nstdout_logfile=/var/log/{name}.out\n\n"
        for name, path in files.items()
    )
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "desk      RUNNING   pid 8\ntill      RUNNING   pid 9\n",
        probes.PROGRAMS: programs,
        probes.CHANGED: f"90 1794772900.0 root {files['desk']}\n" if lately else "",
        probes.show(files["desk"]): own,
        probes.show(files["till"]): others,
        probes.tail("/var/log/desk.out"): f"2026-11-15 20:03:10 {said}\n",
    }
    machine = Case(Brief("inc-1", service="desk"), [Seen(k, text) for k, text in shown.items()])
    return list(limits(machine))


@pytest.mark.parametrize(
    ("own", "others", "said"),
    [
        (
            "LimitRequestBody 2300\n", "LimitRequestBody 10485760\n",
            "error: content-length of 45000 is larger than the configured limit of 2300",
        ),
        (
            "upload:\n  max_body: 2k\n", "upload:\n  max_body: 8m\n",
            "[warn] client sent 45000 bytes, body exceeds the limit",
        ),
        (
            '{"maxPayloadKb": 2, "max_size_kb": 2}\n', '{"max_size_kb": 4096}\n',
            "WARN rejected PUT: 45000 bytes, at most 2048.",
        ),
    ],
)  # fmt: skip
def test_a_limit_is_raised_to_what_others_have(own: str, others: str, said: str) -> None:
    (idea,) = found(own, said, others)
    assert idea.score > 0.8
    assert any(one in idea.fix[1] for one in ("10485760", "8m", "4096"))


def test_without_any_word_of_others_it_is_raised_only_where_it_was_lowered_just_now() -> None:
    own, said = "body_limit=2k\n", "error: body of 45000 bytes is over the limit"
    assert "88k" in found(own, said)[0].fix[1]
    assert not found(own, said, lately=False)


def test_what_holds_back_something_else_stays() -> None:
    said = "error: body of 45000 bytes is over the limit"
    assert not found("max_connections=100\nbody_log_size=2000\n", said)
    assert not found("body_limit=8m\n", said)


def test_a_bound_of_nothing_is_seen_in_the_entry_that_was_written_lately() -> None:
    entry = "/etc/supervisor/conf.d/depot.conf"
    bound = {probes.PROGRAMS: f'{ENTRY}environment=A="1",DEPOT_CACHE_ENTRIES="0"\n'}
    for path, keys in ((entry, ["DEPOT_CACHE_ENTRIES"]), ("/etc/other.conf", [])):
        seen = bound | {probes.CHANGED: f"99 {NOW - 60} root {path}"}
        odd = list(edits.without_bound(case(seen), "depot"))
        assert [one.key for one in odd] == keys
        assert all(one.path == entry for one in odd)
