"""Rules for how a program is started, for who has its port, and for what it keeps."""

import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.rules import entry, listed, port, state
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

ENTRY, CONFIG = "/etc/supervisor/conf.d/shop.conf", "/opt/shop/etc/shop.toml"
PROGRAMS = f"""\
==> {ENTRY} <==
[program:shop]
command=python3 /opt/shop/bin/run.py {CONFIG}
stdout_logfile=/var/log/supervisor/shop.log
==> /etc/supervisor/conf.d/nginx.conf <==
[program:nginx]
command=nginx -c /etc/nginx/nginx.conf
"""
DOWN = "shop     FATAL     Exited too quickly\nnginx    RUNNING   pid 20, uptime 0:10:00\n"
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544     800 supervisord -n
     20       1 root     S      0  0.1 23252     600 nginx: master process nginx
     21      20 root     S      0  0.1 23252     600 nginx: worker process
"""
TAKEN = "2026-11-15T20:03:01Z fatal cannot listen at 127.0.0.1:7001: Address already in use\n"
SETTINGS = 'listen = "127.0.0.1:7001"\nstate = "/var/opt/shop/state.json"\n'


def listens(port: int, pid: int, name: str = "python3") -> str:
    return f'LISTEN 0 64 127.0.0.1:{port} 0.0.0.0:* users:(("{name}",pid={pid},fd=3))\n'


def case(said: str, *more: tuple[str, str], known: tuple[str, ...] = ("shop", "nginx")) -> Case:
    seen = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000", probes.STATUS: DOWN,
        probes.PROGRAMS: PROGRAMS, probes.PROCESSES: PROCESSES, probes.LISTENERS: "",
        probes.show(CONFIG): SETTINGS, probes.tail("/var/log/supervisor/shop.log"): said,
        probes.copies(ENTRY): "==> lines <==\n3\n", **dict(more),
    }  # fmt: skip
    check = BriefCheck(command="curl -fs http://127.0.0.1:7001/status", exit=7)
    services = tuple(BriefService(name) for name in known)
    brief = Brief("inc-1", service="shop", check=check, services=services)
    return Case(brief, [Seen(command, output) for command, output in seen.items()])


def best(rule: Callable[[Case], Iterator[Idea]], seen: Case) -> Idea:
    return max(rule(seen), key=lambda idea: idea.score)


def test_the_one_site_of_nginx_that_took_a_port_is_put_aside() -> None:
    mine, other = "/etc/nginx/sites-enabled/new.conf", "/etc/nginx/sites-enabled/shop.conf"
    sites = (
        f"==> {mine} <==\nserver {{\n  listen 127.0.0.1:7001;\n  root /var/www;\n}}\n"
        f"==> {other} <==\nserver {{\n  listen 8080;\n}}\n"
    )
    holders = listens(7001, 21, "nginx") + listens(8080, 21, "nginx")
    seen = case(TAKEN, (probes.SITES, sites), (probes.LISTENERS, holders))
    idea = best(port.port_taken, seen)
    assert idea.fix[0].startswith(f"mv -T --backup=numbered {mine} /var/tmp/")
    assert idea.fix[1].endswith("nginx -c /etc/nginx/nginx.conf -s reload")
    assert not any("kill" in one or "stop" in one for one in idea.fix)


def test_the_front_by_which_people_come_in_does_not_take_the_port_away() -> None:
    site = "==> /etc/nginx/sites-enabled/shop.conf <==\nserver {\n  listen 127.0.0.1:7001;\n}\n"
    inner = (probes.show(CONFIG), SETTINGS.replace("7001", "9004"))
    front = ((probes.SITES, site), (probes.LISTENERS, listens(7001, 21, "nginx")))
    gone = "2026-11-15T20:03:01Z fatal the database is not there\n"
    assert list(port.port_taken(case(gone, inner, *front))) == []
    assert list(port.port_taken(case(TAKEN, inner, *front)))


def test_a_program_that_people_do_not_know_gives_back_the_port_and_no_other() -> None:
    status = DOWN + "shop-next RUNNING pid 30, uptime 0:00:10\n"
    programs = PROGRAMS + (
        "==> /etc/supervisor/conf.d/n.conf <==\n[program:shop-next]\n"
        "command=python3 /opt/shop/bin/run.py /opt/next.toml\n"
    )
    more = "     30       1 app      S      0  0.1 23252      10 python3 /opt/shop/bin/run.py x\n"
    looked = (
        (probes.STATUS, status), (probes.PROGRAMS, programs), (probes.LISTENERS, listens(7001, 30)),
        (probes.PROCESSES, PROCESSES + more),
    )  # fmt: skip
    idea = best(port.port_taken, case(TAKEN, *looked))
    assert idea.fix == ("supervisorctl stop shop-next", "supervisorctl restart shop")
    known = case(TAKEN, *looked, known=("shop", "nginx", "shop-next"))
    assert not any("stop" in one for idea in port.port_taken(known) for one in idea.fix)
    elsewhere = (probes.LISTENERS, listens(7001, 30) + listens(7009, 30))
    busy = case(TAKEN, *looked, elsewhere)
    assert not any("stop" in one for idea in port.port_taken(busy) for one in idea.fix)


def test_a_program_that_was_started_for_the_first_time_while_the_other_was_down_is_stopped() -> (
    None
):
    log = """\
2026-11-15 20:00:00 INFO supervisord started with pid 1
2026-11-15 20:00:01 INFO spawned: 'shop' with pid 2
2026-11-15 20:00:01 INFO spawned: 'nginx' with pid 20
2026-11-15 20:02:00 INFO stopped: shop (exit status 0)
2026-11-15 20:02:01 INFO spawned: 'panel' with pid 30
"""
    looked = (
        (probes.STATUS, DOWN + "panel RUNNING pid 30, uptime 0:00:10\n"),
        (probes.PROGRAMS, PROGRAMS + "==> /etc/p.conf <==\n[program:panel]\ncommand=/opt/panel\n"),
        (probes.LISTENERS, listens(7001, 30)),
        (probes.PROCESSES, PROCESSES + "     30       1 app S 0 0.1 2325 10 /opt/panel\n"),
    )  # fmt: skip
    stopped = best(port.port_taken, case(TAKEN, *looked, (probes.SUPERVISOR_LOG, log)))
    assert stopped.fix[0] == "supervisorctl stop panel"
    before = log.replace("'nginx' with pid 20", "'panel' with pid 9")
    other = case(TAKEN, *looked, (probes.SUPERVISOR_LOG, before))
    assert not any("stop" in one for idea in port.port_taken(other) for one in idea.fix)


def test_a_service_that_was_given_the_port_of_another_is_led_back_to_its_own() -> None:
    said = TAKEN.replace("7001", "8080")
    seen = case(
        said, (probes.show(CONFIG), SETTINGS.replace("7001", "8080")),
        (probes.LISTENERS, listens(8080, 20, "nginx")), (probes.copies(CONFIG), "==> lines <==\n"),
        (probes.SITES, ""),
    )  # fmt: skip
    idea = best(port.port_taken, seen)
    assert idea.fix[1] == f"sed -i 's/\\b8080\\b/7001/g' {CONFIG}"
    assert idea.fix[-1] == "supervisorctl restart shop"


def test_one_of_ours_is_led_back_to_the_port_of_which_its_log_spoke_before() -> None:
    path, log = "/srv/hall/hall.yaml", "/var/log/supervisor/hall.log"
    programs = PROGRAMS + (
        "==> /etc/supervisor/conf.d/hall.conf <==\n[program:hall]\n"
        f"command=python3 /srv/hall/run.py --config {path}\nstdout_logfile={log}\n"
    )
    more = "     30       1 app      S      0  0.1 23252      10 python3 /srv/hall/run.py\n"
    seen = case(
        TAKEN, (probes.PROGRAMS, programs), (probes.LISTENERS, listens(7001, 30)),
        (probes.STATUS, DOWN + "hall RUNNING pid 30, uptime 0:00:10\n"),
        (probes.PROCESSES, PROCESSES + more), (probes.show(path), "port: 7001\n"),
        (probes.copies(path), "==> lines <==\n1\n"),
        (probes.tail(log), "I1115 18:06:12.4 5] ready 7831\nI1115 20:02:14.9 30] ready 7001\n"),
        known=("shop", "nginx", "hall"),
    )  # fmt: skip
    idea = best(port.port_taken, seen)
    assert idea.fix[1] == f"sed -i 's/\\b7001\\b/7831/g' {path}"


def test_the_job_that_starts_whoever_has_the_port_is_silenced_and_cron_lives_on() -> None:
    more = """\
     40       1 root     S      0  0.1  2000     700 /usr/sbin/cron -f
     41      40 root     S      0  0.1  2000      10 bash /home/ann/serve.sh
"""
    jobs = "==> /etc/cron.d/ann <==\n* * * * * root /home/ann/serve.sh\n"
    seen = case(
        TAKEN, (probes.PROCESSES, PROCESSES + more), (probes.LISTENERS, listens(7001, 41)),
        (probes.JOBS, jobs),
    )  # fmt: skip
    fix = best(port.port_taken, seen).fix
    assert "sed -i" in fix[1]
    assert fix[1].endswith("/etc/cron.d/ann")
    assert fix[2] == "kill 41"


def test_an_option_that_a_program_does_not_know_is_taken_out_or_spelt_as_it_does() -> None:
    programs = PROGRAMS.replace(CONFIG, f"{CONFIG} --workers=4 --verbos")
    said = "usage: run [-h] [--verbose] settings\nrun: error: unrecognized arguments: {}\n"
    first = best(entry.option, case(said.format("--workers=4"), (probes.PROGRAMS, programs))).fix[1]
    assert first.endswith(f"--verbos|' {ENTRY}")
    assert first.count("--workers=4") == 1
    second = best(entry.option, case(said.format("--verbos"), (probes.PROGRAMS, programs))).fix[1]
    assert "--verbose" in second


def test_a_program_called_by_its_name_alone_is_called_by_its_place() -> None:
    wrapper = "/opt/shop/start.sh"
    programs = PROGRAMS.replace(f"python3 /opt/shop/bin/run.py {CONFIG}", wrapper)
    said = f"{wrapper}: line 3: exec: shopd: not found\n"
    text = "#!/bin/sh\ncd /opt/shop\nexec shopd serve\n"
    looked = ((probes.PROGRAMS, programs), (probes.show(wrapper), text))
    wants = best(entry.bare, case(said, *looked)).wants
    find = next(one for one in wants if one.startswith("find"))
    copies = (probes.copies(wrapper), "==> lines <==\n3\n")
    idea = best(entry.bare, case(said, *looked, copies, (find, "/opt/shop/v2/bin/shopd\n")))
    assert idea.fix[1].endswith(f"|exec \\/opt\\/shop\\/v2\\/bin\\/shopd serve|' {wrapper}") or (
        "exec /opt/shop/v2/bin/shopd serve" in idea.fix[1]
    )


def test_a_variable_that_nothing_sets_is_set_as_somebody_has_it_elsewhere() -> None:
    wrapper, place = "/opt/shop/start.sh", "/etc/default/shop"
    programs = PROGRAMS.replace(f"python3 /opt/shop/bin/run.py {CONFIG}", wrapper)
    said = f"{wrapper}: 4: SHOP_CONFIG: parameter not set\n"
    text = f'#!/bin/sh\nset -eu\n. {place}\nexec python3 /opt/shop/bin/run.py "$SHOP_CONFIG"\n'
    looked = (
        (probes.PROGRAMS, programs), (probes.show(wrapper), text), (probes.show(place), "LANG=C\n"),
    )  # fmt: skip
    look = best(entry.variable, case(said, *looked)).wants[0]
    found = (look, f"/opt/shop/README:3:SHOP_CONFIG={CONFIG}\n")
    idea = best(entry.variable, case(said, *looked, found))
    assert idea.fix[1] == f"echo SHOP_CONFIG={CONFIG} >> {place}"
    misspelt = case(said, *looked[:2], (probes.show(place), f"SHOP_CONFG={CONFIG}\n"))
    assert "SHOP_CONFIG=" in best(entry.variable, misspelt).fix[1]


def test_an_entry_that_was_put_aside_is_taken_in_again() -> None:
    status = "nginx    RUNNING   pid 20, uptime 0:10:00\n"
    programs = PROGRAMS[PROGRAMS.index("==> /etc/supervisor/conf.d/nginx") :]
    looked = ((probes.STATUS, status), (probes.PROGRAMS, programs))
    wants = best(listed.unlisted, case("", *looked)).wants
    grep = next(one for one in wants if one.startswith("grep"))
    off = f"{ENTRY}.off"
    seen = case("", *looked, (grep, f"{off}\n"), (listed.REREAD, "No config updates"),
                (probes.copies(off), "==> lines <==\n"))  # fmt: skip
    assert best(listed.unlisted, seen).fix == (
        f"cp -p {off} {ENTRY}", "supervisorctl reread", "supervisorctl update shop",
        "supervisorctl restart shop",
    )  # fmt: skip


def test_an_entry_that_the_supervisor_cannot_read_is_written_as_it_reads_it() -> None:
    status = "nginx    RUNNING   pid 20, uptime 0:10:00\n"
    rows = 'environment=KEY="a%Tb%%c",HERE="%(here)s"\nautorestart=alway\n'
    programs = PROGRAMS.replace("stdout_logfile", f"{rows}stdout_logfile", 1)
    looked = ((probes.STATUS, status), (probes.PROGRAMS, programs))
    grep = next(x for x in best(listed.unlisted, case("", *looked)).wants if x.startswith("grep"))
    where = f"in section 'program:shop' (file: '{ENTRY}')"

    def mended(refused: str) -> str:
        told = (listed.REREAD, f"ERROR: CANT_REREAD: {refused} {where}")
        return best(listed.unlisted, case("", *looked, (grep, f"{ENTRY}\n"), told)).fix[1]

    sign = "Format string 'KEY=\"a%Tb\"' for 'environment' is badly formatted: unsupported format"
    assert 'KEY="a%%Tb%%c",HERE="%(here)s"' in mended(sign)
    assert ";autorestart=alway" in mended("invalid 'autorestart' value 'alway'")


def test_a_sign_in_a_secret_is_doubled_without_a_look_at_it(tmp_path: Path) -> None:
    status = "nginx    RUNNING   pid 20, uptime 0:10:00\n"
    hidden = 'environment=TZ="%(here)s",DB_PASSWORD="[redacted:password]",NAME="shop"'
    programs = PROGRAMS.replace("stdout_logfile", f"{hidden}\nstdout_logfile", 1)
    looked = ((probes.STATUS, status), (probes.PROGRAMS, programs))
    grep = next(x for x in best(listed.unlisted, case("", *looked)).wants if x.startswith("grep"))

    def idea(key: str) -> Idea:
        refused = (
            f"ERROR: CANT_REREAD: Format string '{hidden.partition('=')[2]}' for '{key}' is badly "
            "formatted: unsupported format character 'T' (0x54) at index 28 in section "
            f"'program:shop' (file: '{ENTRY}')"
        )
        told = (listed.REREAD, refused)
        return best(listed.unlisted, case("", *looked, (grep, f"{ENTRY}\n"), told))

    found = idea("environment")
    assert "badly formatted" in found.evidence[0]
    assert "[redacted:" not in " ".join((*found.fix, *found.evidence, found.undo))
    assert not idea("command").fix
    (change,) = (one for one in found.fix if one.startswith("sed"))
    place = tmp_path / "shop.conf"
    row = 'environment=TZ="%(here)s",DB_PASSWORD="a%Tb%%c%%%d%",N="%%(here)s"\n'
    other = "[program:other]\nenvironment=A=50%\n"
    place.write_text(f"[program:shop]\ncommand=x %d\n{row}{other}")
    for _ in range(2):  # what is right already stays
        subprocess.run([*shlex.split(change)[:-1], str(place)], check=True)
        right = 'environment=TZ="%(here)s",DB_PASSWORD="a%%Tb%%c%%%%d%%",N="%%(here)s"\n'
        assert place.read_text() == f"[program:shop]\ncommand=x %d\n{right}{other}"


def test_a_file_that_is_damaged_is_replaced_by_its_last_copy_and_kept() -> None:
    path = "/var/opt/shop/state.json"
    said = f"fatal: state file {path} is damaged: Expecting value\n"
    rows = (
        f"6 1794772000.0 root {path}\n17 1794770000.0 root {path}.bak\n"
        f"17 1794760000.0 root {path}.1\n3\n"
    )
    seen = case(said, (state.beside(path), rows), (probes.rows(path), ""))
    idea = best(state.damaged, seen)
    assert idea.fix[:2] == (
        f"cp -p -T --backup=numbered {path} /var/tmp/var-opt-shop-state.json.replaced",
        f"cp {path}.bak {path}",
    )  # fmt: skip
    shut = case(f"fatal: cannot read {path}: Permission denied\n", (state.beside(path), rows))
    assert not list(state.damaged(shut))
    alone = case(said, (state.beside(path), f"6 1 root {path}\n1\n"), (probes.rows(path), ""))
    assert not list(state.damaged(alone))


def test_a_module_is_found_by_its_folder_or_put_where_it_is_looked_for() -> None:
    said = "ModuleNotFoundError: No module named 'shop_core'\n"
    look = next(iter(best(entry.module, case(said)).wants))
    there = (look, "/opt/shop/lib/shop_core.py\n")
    added = best(entry.module, case(said, there)).fix
    assert 'environment=PYTHONPATH="/opt/shop/lib"' in added[1]
    told = PROGRAMS.replace(f"{CONFIG}\n", f'{CONFIG}\nenvironment=PYTHONPATH="/opt/a"\n', 1)
    put = best(entry.module, case(said, there, (probes.PROGRAMS, told))).fix
    assert put[1] == "cp -rp /opt/shop/lib/shop_core.py /opt/a/"


def test_one_piece_of_work_that_cannot_be_read_is_put_aside() -> None:
    path = "/var/opt/shop/inbox/order-7.msg"
    said = f"fatal: cannot parse {path}: unexpected end of input\n"
    rows = (state.beside(path), f"6 1794772000.0 root {path}\n12\n")
    idea = best(state.damaged, case(said, rows, (probes.rows(path), "")))
    assert idea.fix[0].startswith(f"mv -T --backup=numbered {path} /var/tmp/")


def test_what_was_installed_and_put_aside_comes_back_or_is_called_by_its_place() -> None:
    said = "ModuleNotFoundError: No module named 'shop_core'\n"
    look = next(iter(best(entry.module, case(said)).wants))
    old = "/opt/shop/venv-2026-09"
    there = (look, f"{old}/lib/python3.11/site-packages/shop_core\n")
    plain = best(entry.module, case(said, there)).fix
    assert f"{old}/bin/python /opt/shop" in plain[1]
    told = PROGRAMS.replace("python3 ", "/opt/shop/venv/bin/python ", 1)
    back = best(entry.module, case(said, there, (probes.PROGRAMS, told)))
    assert back.fix[1] == f"cp -a {old} /opt/shop/venv"
    assert back.fix[0] == "mv -T --backup=numbered /opt/shop/venv /opt/shop/venv.replaced"
    assert back.undo.endswith("mv -T /opt/shop/venv.replaced /opt/shop/venv")
    elsewhere = PROGRAMS.replace("python3 ", "/srv/env/bin/python ", 1)
    assert f"{old}/bin/python" in best(
        entry.module, case(said, there, (probes.PROGRAMS, elsewhere))
    ).fix[1]  # fmt: skip
