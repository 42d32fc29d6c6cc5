"""What a remedy leaves as it is: what guards, what people keep, what others have, and what only
somebody says who may write a line."""

import subprocess
from pathlib import Path

import pytest

from hermes_agent.models.responder.rules import (
    cascade,
    flood,
    fresh,
    hoards,
    lookup,
    network,
    reach,
    servers,
    space,
    wires,
)
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.ideas import Idea, keeping, kept_as, undo_of
from hermes_agent.models.responder.steps import apart, run_as, through_links, without_copy
from hermes_agent.models.responder.tried import Tried
from hermes_agent.models.responder.view import needed, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.models.responder import test_rules_reach as till
from tests.models.responder import test_rules_room as depot
from tests.models.responder.test_easing import commands, taken_back
from tests.models.responder.test_rules_hoards import ENV, WITH_ENV, changed
from tests.models.responder.test_rules_reach import CONF

LISTED = """\
*filter
[9:9] -A INPUT -i lo -j ACCEPT
[9:9] -A INPUT -p tcp -m tcp --dport 5432 -j only
[7:7] -A only -s 10.0.0.0/24 -j {}
[7:7] -A only -j DROP
"""


@pytest.mark.parametrize("way", ["ACCEPT", "RETURN"])
def test_the_way_into_a_chain_that_lets_some_through_stays(way: str) -> None:
    assert not list(wires.filtered(LISTED.format(way), "10.9.0.7", 5432, far=True))


def test_a_rule_of_a_firewall_goes_back_to_its_place() -> None:
    cuts = list(wires.filtered(LISTED.format("DROP"), "10.0.0.7", 5432, far=True))
    assert [one.undo for one in cuts] == [
        "iptables -I only 1 -s 10.0.0.0/24 -j DROP",
        "iptables -I INPUT 2 -p tcp -m tcp --dport 5432 -j only",
    ]


def test_how_long_people_have_something_kept_is_not_guessed() -> None:
    keys = ("retention=30d", "mail_ttl=7d", "BACKUP_MAX_AGE=9d", "token_expiry=12h", "data_ttl=9d")
    for line in keys:
        seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): f"{line}\n", **changed(ENV)}
        assert not list(hoards.lingering(depot.case(seen), "depot")), line
    seen = {probes.PROGRAMS: WITH_ENV, probes.show(ENV): "idle_timeout=12h\n", **changed(ENV)}
    assert list(hoards.lingering(depot.case(seen), "depot"))


@pytest.mark.parametrize(
    "line", ["login_delay = 2", "max_latency_ms = 500", "slow_query_ms = 900", "throttle = 100",
             "auth_delay_ms = 1000", "rate_limit_delay = 3"],
)  # fmt: skip
def test_what_bounds_or_guards_is_no_pause(line: str) -> None:
    written = {probes.CHANGED: f"60 1794772900.0 root {CONF}"}
    assert not list(fresh.paused(till.case("ERROR vault: deadline exceeded", line, written)))


@pytest.mark.parametrize("key", ["auth_cache_ttl", "revocation_max_age", "trash_expires"])
def test_what_is_asked_each_time_for_safety_is_not_kept(key: str) -> None:
    url = "http://127.0.0.1:6400/list"
    late = {probes.timed(url): "200 after 2.1 s from 127.0.0.1:6400"}
    machine = till.case("ERROR vault: deadline exceeded", f"SOURCE={url}\n{key}=0\n", late)
    assert not list(fresh.each_time(machine))


def test_a_value_is_set_and_not_what_a_remark_says_of_it() -> None:
    written = {probes.CHANGED: f"60 1794772900.0 root {CONF}"}
    machine = till.case("ERROR vault: slow", "pause_ms = 900 # not 900\n", written)
    (idea,) = fresh.paused(machine)
    assert "|pause_ms = 0 # not 900|" in idea.fix[1]


def test_what_keeps_strangers_out_is_not_set_back_to_be_quicker() -> None:
    own, listen = "/opt/vault/vault.conf", "--listen=127.0.0.1:6100"
    seen = {
        probes.PROGRAMS: till.ENTRIES.replace(listen, f"{listen} {own}"),
        probes.timed("http://127.0.0.1:6100/"): "200 after 2.1 s from 127.0.0.1:6100",
        probes.copies(own): "", probes.copies(CONF): "",
        probes.CHANGED: f"60 1794772900.0 root {own}",
    }  # fmt: skip
    for line, back in (("verify_tls = {}", False), ("fsync = {}", False), ("pooled = {}", True)):
        text = f"# {line.format('false')}\n{line.format('true')}\n"
        machine = till.case("ERROR vault: deadline exceeded",
                            '{"backend": "http://127.0.0.1:6100/"}',
                            seen | {probes.show(own): text})  # fmt: skip
        fixes = [fix for idea in reach.slow(machine) for fix in idea.fix]
        assert any("sed " in fix for fix in fixes) is back, line


def test_only_who_runs_a_script_is_ended_for_what_that_writes() -> None:
    file = "/vol/seen.out"
    for where, ends in (
        ("/home/kim/watch.py", True), ("/home/eve/watch.py", False), ("/home/kim/7400", False),
    ):  # fmt: skip
        told = {probes.mentions(file): f"{where}:3:out = '{file}'"}
        seen = depot.looked(depot.rows((9_000_000, 30.0, file))) | told
        process = seen.get(probes.PROCESSES, depot.PROCESSES).replace("watch.py 7400", "watch.py")
        found = space.full_disk(depot.case(seen | {probes.PROCESSES: process}))
        assert any("kill 90" in one.fix for one in found) is ends, where
    (row,) = [one for one in depot.case({}).processes if one.pid == 90]
    assert not space._scripts(row, ["/home/kim/watch.conf", "/etc/watch.py"])


def test_a_text_that_is_put_into_a_file_is_not_edited_itself(tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    file.write_text("sed -i s/a/b/ it's.txt\n")
    edit = swapped(str(file), "sed -i s/a/b/ it's.txt", "sed -i s/a/c/ it's.txt")[1]
    subprocess.run(["bash", "-c", through_links(edit)], check=True)
    assert file.read_text() == "sed -i s/a/c/ it's.txt\n"
    assert through_links(edit).startswith("sed -i --follow-symlinks ")


def test_who_else_is_at_an_address_stays_there(tmp_path: Path) -> None:
    file = tmp_path / "app.conf"
    for text, right in (
        ("dns = 10.0.0.5\nstore = 10.0.0.5\n", "dns = 10.0.0.9\nstore = 10.0.0.5\n"),
        ("dns = 10.0.0.5, 10.0.0.53\n", "dns = 10.0.0.9, 10.0.0.53\n"),
        ("dns:\n  - 10.0.0.5\n", "dns:\n  - 10.0.0.9\n"),
    ):
        file.write_text(text)
        machine = till.case("x", "{}", {probes.show(str(file)): text})
        edit = servers.redirected(machine, str(file), "net.dns", ("10.0.0.5", "10.0.0.9"))
        subprocess.run(edit, shell=True, check=True)
        assert file.read_text() == right


def test_who_says_that_there_is_no_such_name_is_asked_still() -> None:
    host = "vault.site.test"
    asked = "==> /etc/resolv.conf <==\nnameserver 10.9.0.3\nnameserver 10.9.0.53\n"
    machine = till.case("ERROR vault: deadline exceeded", f'{{"backend": "http://{host}:6100"}}',
                        {probes.NAMES: asked})  # fmt: skip
    knows, denies = (f" 12 34 81 8{code} 00 01 00 0{count} 00 00 00 00\n" for code, count in
                     ((0, 1), (3, 0)))  # fmt: skip
    more = [Seen(f"time getent hosts {host}", "real\t0m5.013s\n", 2), Seen(servers.DATAGRAMS, ""),
            Seen(probes.asked("10.9.0.3", host), denies),
            Seen(probes.asked("10.9.0.53", host), knows)]  # fmt: skip
    assert not list(lookup.tardy(Case(machine.brief, [*machine.observed, *more])))


def test_a_word_is_taken_out_of_the_one_line_that_has_it() -> None:
    start = "/app/depot/start.sh"
    wrapped = WITH_ENV.replace("python3 /app/depot/main.py", start)
    run = "exec python3 /app/depot/main.py --verbose\n"
    for text, some in (
        (run, True), (f"curl --trace out http://x\n{run}", False), (f"# x --debug\n{run}", True),
    ):  # fmt: skip
        seen = {probes.PROGRAMS: wrapped, probes.show(start): f"#!/bin/sh\n{text}"}
        found = [x for _, _, x in flood.loud(depot.case(seen), "depot") if "'s/ --" in x]
        assert bool(found) is some, text
        assert not any("debug" in edit for edit in found)


def test_a_line_of_a_log_moves_no_file_of_the_machine() -> None:
    def fixed(mark: str, settings: str = "{}") -> bool:
        look = "60 1794772900 root\nconnect: refused"
        said = f"ERROR GET {mark} failed: in maintenance, {mark} is present"
        machine = till.case(said, settings, {cascade.mark(mark): look})
        return any(one.fix for one in cascade.resting(machine))

    assert fixed("/run/till/resting")
    for path in ("/etc/shadow", "/home/ann/draft", "/run/till/../../etc/shadow", "/usr/bin/env"):
        assert not fixed(path), path
    assert fixed("/etc/till.off", '{"gate": "/etc/till.off"}')


def test_who_lives_on_a_machine_does_not_say_which_way_all_goes() -> None:
    to = needed.Target("10.8.0.7", 6100)
    for path, some in (("/etc/network/interfaces", True), ("/home/eve/notes", False)):
        row = f"{path}:1:up ip route add 10.8.0.0/24 via 10.9.0.66"
        machine = till.case("x", "{}", {network._written(to.host): row})
        assert bool(list(network._told_ways(machine, to, to.host))) is some


def test_two_remedies_of_one_file_are_taken_back_each_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.conf"
    path.write_text("one\n")
    first, second = (
        Idea("bad-config", "edge", f"{old} is wrong", 0.8, str(path), (), (),
             (keeping(str(path)), f"sed -i s/{old}/{new}/ {path}"), undo_of(str(path)))
        for old, new in (("one", "two"), ("two", "three"))
    )  # fmt: skip
    both = [first, second]
    kept = [Path(kept_as(str(path))), Path(kept_as(str(path)).replace(".repl", ".2.repl"))]
    try:
        for idea in both:
            subprocess.run(run_as(apart(idea.fix, idea, both)), shell=True, check=True)
        assert path.read_text() == "three\n"
        for idea, text in ((second, "two\n"), (first, "one\n")):
            subprocess.run(apart((idea.undo,), idea, both)[0], shell=True, check=True)
            assert path.read_text() == text
    finally:
        for one in kept:
            one.unlink()


def test_where_no_copy_was_kept_none_is_put_back() -> None:
    conf, anew = "/etc/edge.conf", "supervisorctl restart edge"
    idea = Idea("bad-config", "edge", "x", 0.8, conf, ("port = 99 is not right",), (),
                (keeping(conf), f"sed -i s/1/2/ {conf}", anew), undo_of(conf))  # fmt: skip
    for bare, undo in (([kept_as(conf)], []), ([], [undo_of(conf)])):
        tried = Tried(ideas=[idea], done=[anew], seen=till.case("x", "{}", {}).observed, bare=bare)
        told = [one for move in taken_back(tried) for one in commands(move)]
        assert told == [*undo, anew]


def test_whether_a_copy_was_kept_is_told_by_what_keeps_it(tmp_path: Path) -> None:
    file, gone = tmp_path / "a", tmp_path / "gone" / "a.replaced"
    file.write_text("1")
    for place, bare in ((gone, [str(gone)]), (tmp_path / "a.replaced", [])):
        group = (f"cp -p -T --backup=numbered {file} {place}", f"false {file}")
        ran = subprocess.run(run_as(group), shell=True, capture_output=True, text=True, check=False)
        assert without_copy(group, ran.stdout, refused=False) == bare
        assert without_copy(group, "", refused=True) == [str(place)]
    new = (f"cp -p -T --backup=numbered {tmp_path}/b {tmp_path}/b.replaced", f"echo > {tmp_path}/b")
    told = subprocess.run(run_as(new), shell=True, capture_output=True, text=True, check=True)
    assert without_copy(new, told.stdout, refused=False) == [f"{tmp_path}/b.replaced"]
