"""What a machine is called, says and holds goes into commands as what it is: nobody who may write a
name or a line has anything run by it. And what a remedy must not do."""

import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes_agent.models.responder.brief import Brief, BriefCheck
from hermes_agent.models.responder.easing import undoing
from hermes_agent.models.responder.rules import (
    absent,
    builds,
    cascade,
    certificate,
    chains,
    crontabs,
    crowds,
    echoes,
    edits,
    enders,
    faked,
    former,
    fresh,
    hoards,
    holders,
    jobs,
    kept,
    listed,
    lock,
    pieces,
    poison,
    port,
    postgres,
    prepared,
    room,
    routes,
    scripts,
    servers,
    shelves,
    shifts,
    space,
    state,
    statement,
    strays,
    tables,
    taken,
    wires,
)
from hermes_agent.models.responder.rules import entry as entry_rules
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.flood import calm
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.mending import Row, mended
from hermes_agent.models.responder.rules.release import history
from hermes_agent.models.responder.rules.sed import basic, extended, replacement
from hermes_agent.models.responder.steps import run_as
from hermes_agent.models.responder.view import needed, parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from hermes_agent.models.responder.view.versions import (
    keeping,
    put_away,
    put_back,
    taken_out,
    undo_of,
)
from tests.support.patience import PATIENCE

ODD = (
    "$(: > MARK)", "`: > MARK`", "a' ; : > MARK; '", 'a" ; : > MARK; "', "a\n: > MARK\n", "-rf",
    "a; : > MARK", "a | : > MARK", "a && : > MARK", "a & : > MARK", "> MARK", "*?[!a]{b,c}~",
    "a\\' ; : > MARK #", "${IFS}x", "a; cp MARK b; mv c", "e : > MARK", "|e : > MARK|", "/e;w MARK",
    "a/e : > MARK", "\\1&\\n", "!x", "a b", "é\t",
)  # fmt: skip
"""Names that somebody may give; whatever runs them makes a mark."""


def built(path: str, name: str) -> list[str]:
    """Commands for a path with an odd name in it, and for a text that is one."""
    place = ("127.0.0.1", 5432, name, name)
    session = postgres.Session(7, name, name, "1", "active", 9, (), name, "")
    ended, good = (chains.Part(path, at, "") for at in (1, 2))
    kind = crowds.Kind(3, 0, True, name, name, name, name)
    return [
        *swapped(path, name, f"{name}2", whole=True), listed._entries(name),
        *faked.trued(path, f"FAKETIME=+2d {name}"), *faked.trued(path, f"FAKETIME='{name}'"),
        prepared.told(name), *shifts._zero(path, name, name), *shifts._zero(path, name, "3 h"),
        enders.Ender(path, name, name, True).proof, *port.silenced(name, path),
        f"find /nowhere {kind.filter}",
        builds.shelved(path), *builds.installed(path, path), chains.replaced(ended, good),
        f"{{ {chains.taken(good)}; }}", echoes.elsewhere(name), kept.kept(path),
        holders.gone(place, name, session), holders.fewer(place, name, name, 3),
        jobs.taken_over(path, shlex.quote(path)),
        probes.show(path), probes.rows(path), probes.walk(path), probes.kept(name),
        probes.copies(path), probes.tail(path), probes.tails([path, path]), probes.holders(path),
        probes.around([path]), probes.large(path), probes.many(path), probes.names_in(path),
        probes.sizes_twice([path]), probes.timed(f"http://x/{name}"), probes.resolved(name),
        probes.mentions(name), probes.journal(name), probes.unit_facts([name]),
        probes.served(443, name), keeping(path), put_away(path), taken_out(path), undo_of(path),
        *put_back(path, f"{path}.bak"), *put_back(path, "git:HEAD"),
        *put_back(path, f"tar:{path}.tar:{name}"), *put_back(path, f"{path}.gz"),
        *swapped(path, name, f"{name}2"), edits.changed(path, name, name, name),
        Row(3, name, "").command(path), Row(0, name).command(path), *room.aside([path]),
        room.back([path]), room.links(path), room.crowds(path), calm(path), cascade.mark(path),
        state.beside(path), absent.siblings(path), absent.kin(path), tables.lies(name, name),
        scripts.first_line(path), former.listed(path), former.listed(f"{path}.zip"),
        former.compared(path, name, path), former.tellers(path, name), history(path),
        lock.search(name, (path,)), pieces.waiting([path]), crowds.sorted_out(path),
        crowds.notes(path, path), postgres.psql(place, name, name), statement.inside(place, name),
        f"ip route del {wires.quoted(name)}", f"iptables {wires.parted(f'-A INPUT {name}')}",
        poison.pieces([path], [name]), poison.quoting([path], name), poison.put_by([path]),
        routes.edited(path, [(1, name, path)]), shelves.look(path), taken.look(path),
        taken.change(path, taken.Held(name, 1, ((name, False, name),))), room.heaps(path),
        lock.users(path), space.checkpoint(f"{path}-wal")[0],
        probes.asked("127.0.0.1", name), hoards._unflagged(path, name),
        servers.redirected(_case(), path, name, (name, "127.0.0.1")),
        run_as((keeping(path), edits.changed(path, name, name, name))),
        *fresh._set(path, f"{name} = 1", "1", name),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_no_name_has_anything_run(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    name = name.replace("MARK", str(mark))
    commands = built(f"/nowhere/{name}", name)
    script = "\n".join(f"( {one}\n)" for one in commands)
    ran = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": "/nowhere"},
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    assert not mark.exists()
    assert b"syntax error" not in ran.stderr
    assert b"unexpected" not in ran.stderr


@pytest.mark.parametrize("name", ODD)
def test_one_text_is_put_in_the_place_of_another(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text(f"a = {name}\nb = 1\n")
    edit = swapped(str(file), f"a = {name}", f"a = <{name}>")[1]
    subprocess.run(edit, shell=True, cwd=tmp_path, check="\n" not in name, timeout=PATIENCE)
    if "\n" not in name:
        assert file.read_text() == f"a = <{name.strip()}>\nb = 1\n" or name != name.strip()
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("name", [*ODD, "a|touch MARK|e;#", "a/touch MARK/e;#"])
def test_a_row_of_a_file_is_no_command_of_sed(name: str, tmp_path: Path) -> None:
    file, mark = tmp_path / "a", tmp_path / "mark"
    row = name.replace("MARK", str(mark)).replace("\n", " ").strip()
    file.write_text(f"{row}\n")
    edit = routes.edited(str(file), [(1, row, "b|c/d&")])
    subprocess.run(edit, shell=True, cwd=tmp_path, check=True, timeout=PATIENCE)
    assert file.read_text() == "b|c/d&\n"
    assert not mark.exists()


def test_a_key_that_only_ends_so_is_another_one(tmp_path: Path) -> None:
    file = tmp_path / "a.env"
    file.write_text("AUDIT_TRACE=on\nTRACE=on\nrun --trace on\n")
    edit = edits.changed(str(file), "TRACE", "on", "off")
    subprocess.run(edit, shell=True, check=True, timeout=PATIENCE)
    assert file.read_text() == "AUDIT_TRACE=on\nTRACE=off\nrun --trace off\n"


def _sed(text: str, *arguments: str, folder: Path) -> str:
    ran = subprocess.run(
        ["sed", *arguments], input=text, text=True, cwd=folder, capture_output=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    return ran.stdout


@pytest.mark.parametrize("name", ODD)
def test_a_text_in_a_pattern_of_sed_stands_for_itself(name: str, tmp_path: Path) -> None:
    new = replacement(name)
    for how, pattern in (("", basic(name)), ("-E", extended(name))):
        options = [how] if how else []
        told = _sed(f"x{name}y\n", *options, f"s/{pattern}/<{new}>/", folder=tmp_path)
        if "\n" not in name:
            assert told == f"x<{name}>y\n"
    assert "\n" in name or _sed("q\n", f"s|q|{replacement(name, '|')}|", folder=tmp_path) == (
        f"{name}\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ODD)
def test_what_takes_something_back_is_parted_between_commands_only(name: str) -> None:
    paths = [f"/srv/{name}", "/srv/b"]
    whole = tuple(f"mv {shlex.quote(f'{room.ASIDE}/{Path(one).name}')} {shlex.quote(one)}"
                  for one in paths)  # fmt: skip
    assert undoing(Idea("a", "b", "c", 0.5, undo=room.back(paths))) == whole


def test_a_place_of_a_database_says_nothing_else() -> None:
    where = shlex.split(postgres.psql(("127.0.0.1", 5432, "a host=evil", "o'x\\"), "select 1"))
    assert where[:4] == ["psql", "-X", "-At", "-d"]
    assert "dbname='a host=evil' " in where[4]
    assert "user='o\\'x\\\\' " in where[4]
    assert postgres.literal("a'b") == "'a''b'"
    assert postgres.literal("a\\'b") == "E'a\\\\''b'"


def test_a_copy_is_read_by_no_more_people_and_goes_over_nothing(tmp_path: Path) -> None:
    key, other = tmp_path / "a.key", tmp_path / "other"
    key.write_text("secret")
    key.chmod(0o600)
    other.write_text("somebody's")
    kept = shlex.split(keeping(str(key)))[-1]
    planted = tmp_path / Path(kept).name
    planted.symlink_to(other)
    command = keeping(str(key)).replace(kept, str(planted))
    subprocess.run(command, shell=True, check=True, timeout=PATIENCE)
    assert (planted.read_text(), planted.stat().st_mode & 0o777) == ("secret", 0o600)
    assert other.read_text() == "somebody's"
    key.write_text("another")
    key.chmod(0o644)
    subprocess.run(command, shell=True, check=True, timeout=PATIENCE)
    copies = [one for one in tmp_path.glob("*.replaced*") if not one.is_symlink()]
    assert sorted(one.read_text() for one in copies) == ["another", "secret"]


def _case(*seen: tuple[str, str], service: str = "shop") -> Case:
    check = BriefCheck(command="curl -fs http://127.0.0.1:7001/", exit=7)
    observed = [Seen(command, output, 0) for command, output in seen]
    return Case(Brief("inc-1", service=service, check=check), observed)


def test_what_a_log_names_is_not_asked_for_word_by_word() -> None:
    clock = "1794772992 2026-11-15 20:03:12 UTC +0000"
    said = "2026-11-15T20:03:01Z error: http://10.0.0.9:8080/admin/shutdown?now=1 timed out\n"
    case = _case((probes.CLOCK, clock), (probes.tail("/var/log/shop.log"), said))
    urls = [one.url for one in needed.targets(case, "shop") if one.url]
    assert urls == ["http://10.0.0.9:8080/"]


def test_the_last_word_of_a_firewall_stays() -> None:
    text = (
        "*filter\n[9:9] -A INPUT -i lo -j ACCEPT\n[9:9] -A INPUT -p tcp --dport 22 -j ACCEPT\n"
        "[7:7] -A INPUT -j DROP\n"
    )
    cuts = list(wires.filtered(text, "10.0.0.5", 8080, far=True, others=("10.0.0.4",)))
    assert [one.fix for one in cuts] == [
        "iptables -I INPUT -s 10.0.0.4 -p tcp --dport 8080 -j ACCEPT"
    ]
    barred = "*filter\n[7:7] -A INPUT -s 203.0.113.0/24 -j DROP\n"
    assert not list(wires.filtered(barred, "10.0.0.5", 8080, far=True, others=("10.0.0.4",)))
    assert not list(wires.barred("blackhole 203.0.113.0/24\n", ["10.0.0.4"]))


def test_who_is_ended_has_time_to_end() -> None:
    row = parse.Process(7, 1, "a", "S", 0, 0.0, 1, 9, "x", "x")
    kill, surely = strays.ended([row])
    assert kill == "kill 7"
    assert re.match(r"for i in 1 2 3 4 5; do kill -0 7 ", surely)


def test_nothing_is_moved_through_a_link_that_somebody_planted(tmp_path: Path) -> None:
    away, other, file = tmp_path / "put-aside", tmp_path / "other", tmp_path / "x.sh"
    other.mkdir()
    away.symlink_to(other)
    file.write_text("a")
    for command in room.aside([str(file)]):
        own = command.replace(room.ASIDE, str(away))
        subprocess.run(own, shell=True, cwd=tmp_path, check=False, timeout=PATIENCE)
    assert (file.exists(), list(other.iterdir())) == (True, [])
    assert former.is_own("/a") == "[ -O /a ] && [ ! -L /a ]"
    kept = keeping(str(file)).replace(shlex.split(keeping(str(file)))[-1], str(away))
    subprocess.run(kept, shell=True, check=True, timeout=PATIENCE)
    assert (list(other.iterdir()), away.read_text()) == ([], "a")


def test_no_file_is_emptied_through_a_link(tmp_path: Path) -> None:
    log, other = tmp_path / "a.log", tmp_path / "other"
    other.write_text("a")
    log.symlink_to(other)
    roomy = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 9999999 9 99 1% /\n"
    for case in (_case(), _case((probes.SPACE, roomy))):
        for command in room.emptied(case, [str(log)], "/vol"):
            own = command.replace(room.ASIDE, str(tmp_path / "aside"))
            subprocess.run(own, shell=True, check=False, timeout=PATIENCE)
    assert other.read_text() == "a"
    log.unlink()
    log.write_text("b")
    for command in room.emptied(_case(), [str(log)], "/vol"):
        subprocess.run(command, shell=True, check=True, timeout=PATIENCE)
    assert log.read_text() == ""


def test_what_is_called_alike_comes_back_to_where_each_was(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "x", tmp_path / "b" / "x", tmp_path / "b" / "y"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(path))
    named = [str(path) for path in paths]
    for command in (*room.aside(named), room.back(named)):
        own = command.replace(room.ASIDE, str(tmp_path / "away"))
        subprocess.run(own, shell=True, check=True, timeout=PATIENCE)
    assert [path.read_text() for path in paths] == named


def test_own_copies_are_not_cleared_away() -> None:
    rows: Sequence[str] = (
        f"{room.ASIDE}/a.log.1", "/var/tmp/etc-a.conf.replaced", "/var/tmp/etc-a.conf.replaced.~1~",
    )  # fmt: skip
    assert not any(room.disposable(parse.Sized(9, 1.0, "a", one, one), 9e5) for one in rows)
    assert room.disposable(parse.Sized(9, 1.0, "a", "/var/tmp/x.core", "x"), 9e5)


def test_who_is_logged_in_keeps_a_port_and_others_do_not() -> None:
    status = "shop  FATAL  Exited too quickly\n"
    entry = "==> /etc/supervisor/conf.d/shop.conf <==\n[program:shop]\ncommand=/opt/shop/run\n"
    listens = 'LISTEN 0 64 127.0.0.1:7001 0.0.0.0:* users:(("python3",pid=30,fd=3))\n'
    head = "PID PPID USER STAT NI %CPU RSS ELAPSED COMMAND\n1 0 root S 0 0.2 2 800 supervisord -n\n"
    held = "30 29 ann S 0 0.1 2 600 python3 -m http.server 7001\n"

    def fixes(above: str) -> list[tuple[str, ...]]:
        case = _case(
            (probes.STATUS, status), (probes.PROGRAMS, entry), (probes.LISTENERS, listens),
            (probes.PROCESSES, f"{head}{held}29 1 ann S 0 0.1 2 600 {above}\n"),
        )  # fmt: skip
        return [idea.fix for idea in port.port_taken(case) if idea.fix]

    assert fixes("-bash") == []
    assert fixes("/opt/old/start.sh")[0][0] == "kill 29 30"


def test_a_variable_that_says_what_is_run_is_taken_from_nowhere() -> None:
    status = "shop  FATAL  Exited too quickly\n"
    entry = (
        "==> /etc/supervisor/conf.d/shop.conf <==\n[program:shop]\ncommand=/opt/shop/run\n"
        "stdout_logfile=/var/log/shop.log\n"
    )

    def asked(name: str) -> list[Idea]:
        said = f"KeyError: '{name}'\n"
        case = _case((probes.STATUS, status), (probes.PROGRAMS, entry),
                     (probes.tail("/var/log/shop.log"), said))  # fmt: skip
        return list(entry_rules.variable(case))

    assert asked("SHOP_TOKEN_URL")
    assert not asked("LD_PRELOAD")
    assert not asked("PYTHONPATH")


def test_jobs_of_others_are_not_run_for_them() -> None:
    jobs = (
        "==> /var/spool/cron/crontabs/ann <==\n0 3 * * * /home/ann/renew shop.example\n"
        "==> /etc/cron.d/tls <==\n0 3 * * * ann /home/ann/renew2 shop.example\n"
        "0 3 * * * root /opt/tls/renew shop.example\n"
    )
    facts = (
        "==> /etc/tls/a.crt <==\nsubject=CN = shop.example\nissuer=CN = x\nserial=01\n"
        "notBefore=Jan  1 00:00:00 2020 GMT\nnotAfter=Jan  1 00:00:00 2021 GMT\n"
    )
    entry = (
        "==> /etc/supervisor/conf.d/shop.conf <==\n[program:shop]\n"
        "command=/opt/shop/run --cert /etc/tls/a.crt\n"
    )
    case = _case(
        (probes.CLOCK, "1794772992 2026-11-15 20:03:12 UTC +0000"), (probes.PROGRAMS, entry),
        (probes.STATUS, "shop  RUNNING  pid 10, uptime 0:10:00\n"), (probes.JOBS, jobs),
        (probes.CERTIFICATES, facts), (probes.SITES, ""),
    )  # fmt: skip
    run = {one for idea in certificate.certificate(case) for one in idea.fix if "renew" in one}
    assert run == {"/opt/tls/renew shop.example"}


def test_no_certificate_comes_from_the_home_of_somebody() -> None:
    entry = (
        "==> /etc/supervisor/conf.d/shop.conf <==\n[program:shop]\n"
        "command=/opt/shop/run --ca /etc/tls/ca.crt\n"
    )
    text = "subject=CN = House\nissuer=CN = House\nserial={1}\nnotAfter=Jan  1 00:00:00 {0} GMT"

    def put(place: str) -> list[str]:
        own, new = text.format(2021, "01"), text.format(2031, "02")
        case = _case(
            (probes.CLOCK, "1794772992 2026-11-15 20:03:12 UTC +0000"), (probes.PROGRAMS, entry),
            (probes.STATUS, "shop  RUNNING  pid 10, uptime 0:10:00\n"), (probes.JOBS, ""),
            (probes.CERTIFICATES, f"==> /etc/tls/ca.crt <==\n{own}\n==> {place} <==\n{new}\n"),
        )  # fmt: skip
        return [one for idea in certificate.certificate(case) for one in idea.fix if place in one]

    assert put("/etc/pki/ca-2026.crt")
    assert not put("/home/eve/ca.crt")


def test_a_row_is_changed_only_where_all_count_alike() -> None:
    broken = '{\n"a": 1,\n}\n'
    assert mended(broken, "/etc/a.json") is not None
    assert mended(f"\f\n{broken}", "/etc/a.json") is None


def test_what_root_runs_is_taken_from_nobody_else(tmp_path: Path) -> None:
    own, other = tmp_path / "mine" / "sync", tmp_path / "theirs" / "sync"
    for path in (own, other):
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    os.chown(other, 4711, 4711)

    def found(owner: str) -> set[str]:
        look = re.sub(r"^find .*? -xdev", f"find {tmp_path} -xdev", tables.lies("sync", owner))
        ran = subprocess.run(look, shell=True, capture_output=True, text=True, check=True)
        return set(ran.stdout.split())

    assert found("root") == {str(own)}
    assert found("4711") == {str(own), str(other)}
    table = "/var/spool/cron/crontabs/ann"
    users = [
        crontabs.jobs({"/etc/cron.d/a": ["0 3 * * * root /opt/a"]})[0].runs_as,
        crontabs.jobs({table: ["0 3 * * * /opt/a"]})[0].runs_as,
    ]
    assert users == ["root", "ann"]
