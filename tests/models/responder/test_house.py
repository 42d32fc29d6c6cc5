"""What belongs to whom, in houses that are built in different ways."""

import gzip
import subprocess
from pathlib import Path

from hermes_agent.models.responder.brief import Brief, BriefCheck, BriefService
from hermes_agent.models.responder.easing import eased, undoing
from hermes_agent.models.responder.rules import astray
from hermes_agent.models.responder.rules.ideas import Idea, earlier, put_back, versions
from hermes_agent.models.responder.rules.last import anew
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

STATUS = """\
depot                            RUNNING   pid 12, uptime 0:10:00
gate                             RUNNING   pid 14, uptime 0:10:00
crew:crew_00                     RUNNING   pid 16, uptime 0:10:00
crew:crew_01                     FATAL     Exited too quickly (process log may have details)
"""
PROGRAMS = """\
==> /etc/supervisor/conf.d/all.conf <==
[program:depot]
command=/opt/bin/as-app bin/run --conf conf/depot.yaml ; by hand
directory=/opt/depot
environment=LEVEL="info",
    TZ="UTC"
stdout_logfile=/var/log/supervisor/%(program_name)s.out
redirect_stderr=true
[program:gate]
command=bash -c "cd /srv/gate && exec python3 gate.py --listen 127.0.0.1:7001 --to=http://127.0.0.1:7000"
stdout_logfile=AUTO
stderr_logfile=/srv/gate/var/errors
[program:crew]
command=/opt/bin/as-app /usr/local/lib/crew/start.sh
process_name=%(program_name)s_%(process_num)02d
numprocs=2
stdout_logfile=NONE
"""
PROCESSES = """\
    PID    PPID USER     STAT  NI %CPU   RSS ELAPSED COMMAND
      1       0 root     S      0  0.2 25544     700 supervisord -n
     12       1 root     S      0  0.1 23328     600 /opt/depot/bin/run --conf conf/depot.yaml
     14       1 root     S      0  0.1 23328     600 python3 gate.py --listen 127.0.0.1:7001
     16       1 root     S      0  0.1 23328     600 python3 /usr/local/lib/crew/crew.py
     31       1 root     S      0  0.1 23328     600 /usr/local/sbin/cached -f
"""
YAML = "listen: 127.0.0.1:7000\nstore:\n  folder: var/items\nlog:\n  file: /data/depot/say.txt\n"
LOOKED = {
    probes.STATUS: STATUS,
    probes.PROGRAMS: PROGRAMS,
    probes.PROCESSES: PROCESSES,
    probes.CLOCK: "1794797381 2026-11-16 02:49:41 UTC +0000",
    probes.LISTENERS: (
        'LISTEN 0 64 127.0.0.1:7000 0.0.0.0:* users:(("run",pid=12,fd=3))\n'
        'LISTEN 0 64 127.0.0.1:6400 0.0.0.0:* users:(("cached",pid=31,fd=3))\n'
    ),
    "cat /opt/depot/conf/depot.yaml": YAML,
    "cat /usr/local/lib/crew/start.sh": (
        "#!/bin/sh\n. /etc/default/crew\nQUEUE=/var/spool/crew\n"
        'exec python3 /usr/local/lib/crew/crew.py --queue "$QUEUE" --each 5\n'
    ),
}
SERVICES = (
    BriefService("gate", ("depot",)),
    BriefService("depot", ("cached",)),
    BriefService("cached", about="keeps what is asked for often: port 6400, /etc/cached.conf."),
)


def case(**looked: str) -> Case:
    seen = [Seen(command, text) for command, text in LOOKED.items()]
    check = BriefCheck("web", "curl -fsS http://127.0.0.1:7001/", "", 7)
    brief = Brief("inc-1", service="gate", check=check, services=SERVICES)
    return Case(brief, [*seen, *(Seen(command, text) for command, text in looked.items())])


def test_settings_are_found_by_what_starts_a_service() -> None:
    found = case()
    assert found.configs("depot") == ["/opt/depot/conf/depot.yaml"]
    assert found.settings("depot")["store.folder"] == "var/items"
    assert found.settings("depot").last("tz") == "UTC"
    assert found.ports("depot") == [7000]
    assert found.settings("gate").last("to") == "http://127.0.0.1:7000"
    assert found.ports("gate") == [7001]
    assert found.directory("gate") == "/srv/gate"


def test_each_setting_is_known_with_the_file_that_holds_it() -> None:
    held = {path: values for path, values in case().sources("depot") if values}
    assert "LEVEL" in held["/etc/supervisor/conf.d/all.conf"]
    assert "listen" in held["/opt/depot/conf/depot.yaml"]


def test_a_wrapper_is_read_and_what_it_names_belongs_to_the_service() -> None:
    found = case()
    assert found.wrappers("crew") == ["/usr/local/lib/crew/start.sh"]
    assert "/etc/default/crew" in found.configs("crew")
    assert found.settings("crew")["QUEUE"] == "/var/spool/crew"
    assert found.owns("crew", "/var/spool/crew/in/7.json")


def test_what_is_relative_is_seen_from_its_folder() -> None:
    found = case()
    assert found.owns("depot", "/opt/depot/var/items/a")
    assert found.is_data("depot", "/opt/depot/var/items/a")
    assert not found.is_data("depot", "/opt/depot/conf/depot.yaml")
    assert found.user_of("/opt/depot/var/items/a", "gate") == "depot"


def test_programs_of_a_group_are_found_by_either_name() -> None:
    found = case()
    assert found.programs["crew_01"].state == "FATAL"
    assert found.definition("crew:crew_01") is found.definitions["crew"]
    assert found.restart("crew_01") == "supervisorctl restart crew:crew_01"
    assert [one for one in found.services if "crew" in one] == ["crew:crew_00", "crew:crew_01"]


def test_one_that_nobody_looks_after_is_known_by_what_people_wrote_down() -> None:
    found = case()
    assert found.pids("cached") == [31]
    assert found.ports("cached") == [6400]
    assert found.configs("cached") == ["/etc/cached.conf"]
    assert not found.owner(31)


def test_logs_belong_to_whoever_names_opens_or_holds_them() -> None:
    found = case(
        **{
            probes.LOG_FILES: "90 1794797380.1 root /opt/depot/logs/today\n"
            "40 1794797380.1 root /var/log/other/other.log\n",
            probes.descriptors(
                14
            ): "l-wx------ 1 root root 64 Nov 16 02:49 1 -> /srv/x/gate-say.log",
        }
    )
    assert "/var/log/supervisor/depot.out" in found.log_files("depot")
    assert "/opt/depot/logs/today" in found.log_files("depot")
    assert "/srv/gate/var/errors" not in found.log_files("depot")
    assert "/srv/x/gate-say.log" in found.log_files("gate")
    assert "/var/log/other/other.log" not in found.log_files("gate")


def test_lines_without_a_stamp_are_as_old_as_the_line_before_them() -> None:
    old = "2026-11-15 20:00:00 ERROR worker\nTraceback (most recent call last):\nKeyError: 'old'\n"
    new = "2026-11-16 02:49:01 ERROR worker\nTraceback (most recent call last):\nKeyError: 'new'\n"
    found = case(**{probes.tail("/opt/depot/logs/today"): old + new})
    assert found.troubles("depot")[0] == "KeyError: 'new'"
    assert "KeyError: 'old'" not in found.troubles("depot")


def test_the_time_of_a_file_tells_in_which_zone_its_writer_lives() -> None:
    found = case(
        **{
            probes.LOG_FILES: "90 1794797378.1 root /opt/depot/logs/today\n",
            probes.tail("/opt/depot/logs/today"): "2026-11-16 08:19:38 failed: no way\n",
        }
    )
    assert found.troubles("depot") == ["2026-11-16 08:19:38 failed: no way"]


def test_the_last_words_of_one_that_does_not_run_are_no_old_story() -> None:
    words = "2026-11-15 21:00:00 ERROR of before\n2026-11-16 00:10:00 FATAL no room\n"
    log = probes.tail("/opt/depot/logs/today")
    assert case(**{log: words}).troubles("depot") == []
    ended = STATUS.replace("RUNNING   pid 12, uptime 0:10:00", "EXITED    Nov 16 12:10 AM")
    found = case(**{log: words, probes.STATUS: ended})
    assert found.troubles("depot") == ["2026-11-16 00:10:00 FATAL no room"]


def test_what_was_said_last_comes_first_whichever_log_says_it() -> None:
    found = case(
        **{
            probes.tail("/opt/depot/logs/a"): "2026-11-16 02:49:30 ERROR second\n",
            probes.tail("/opt/depot/logs/b"): "2026-11-16 02:49:20 ERROR first\n",
        }
    )
    assert [line.split()[-1] for line in found.troubles("depot")] == ["second", "first"]


def test_lines_of_a_common_log_are_told_apart_by_their_tags() -> None:
    text = (
        "Nov 16 02:49:01 box depot[12]: cannot write\nNov 16 02:49:02 box gate[14]: cannot read\n"
    )
    found = case(**{probes.tail("/var/log/messages"): text})
    assert found.troubles("depot") == ["Nov 16 02:49:01 box depot[12]: cannot write"]


COPIES = """\
==> link <==
==> lines <==
20 /opt/depot/conf/depot.yaml
==> git:HEAD <==
2c2
< listen: 127.0.0.1:7000
---
> listen: 127.0.0.1:7700
==> /opt/depot/conf/depot.prev.yaml <==
4c4
<   folder: old/items
---
>   folder: var/items
==> /etc/cached.conf <==
1c1
< a
---
> b
==> /var/tmp/depot.yaml.replaced <==
1c1
< a
---
> b
"""


def test_versions_are_ordered_by_how_likely_they_are() -> None:
    path = "/opt/depot/conf/depot.yaml"
    assert earlier(case(), path).wants == (probes.copies(path),)
    found = versions(case(**{probes.copies(path): COPIES}), path)
    assert [one.path for one in found] == ["git:HEAD", "/opt/depot/conf/depot.prev.yaml"]
    assert found[0].change == "> listen: 127.0.0.1:7700"
    keep, back = put_back(path, found[0].path)
    assert keep == f"cp -p -T --backup=numbered {path} /var/tmp/opt-depot-conf-depot.yaml.replaced"
    assert back.endswith(f"show HEAD:./depot.yaml > {path}")


def test_what_another_service_goes_by_is_no_version() -> None:
    path = "/srv/gate/depot.yaml"
    other = COPIES.replace("/opt/depot/conf/depot.prev.yaml", "/opt/depot/conf/depot.yaml")
    found = versions(case(**{probes.copies(path): other}), path)
    assert "/opt/depot/conf/depot.yaml" not in [one.path for one in found]


def test_what_was_kept_of_another_service_is_no_version() -> None:
    path = "/srv/gate/depot.yaml"
    other = COPIES.replace("/opt/depot/conf/depot.prev.yaml", "/var/backups/depot/depot.yaml")
    found = versions(case(**{probes.copies(path): other}), path)
    assert [one.path for one in found] == ["git:HEAD"]


def test_who_should_answer_and_does_not_is_started_anew_at_last() -> None:
    found = {idea.component: idea for idea in anew(case())}
    assert found["gate"].fix == ("supervisorctl restart gate",)
    assert found["gate"].category == "unknown"
    assert "does not listen on port 7001" in found["gate"].claim
    assert "depot" not in found
    assert max(idea.score for idea in found.values()) < 0.3


def test_a_remedy_is_judged_by_what_is_said_afterwards() -> None:
    log = probes.tail("/opt/depot/logs/today")
    before = case(**{log: "2026-11-16 02:49:30 ERROR no such folder: /data/7\n"})
    clock = "1794797400 2026-11-16 02:50:00 UTC +0000"
    still = case(
        **{probes.CLOCK: clock, log: "2026-11-16 02:49:55 ERROR no such folder: /data/9\n"}
    )
    calm = case(**{probes.CLOCK: clock, log: "2026-11-16 02:49:55 INFO ready\n"})
    path = "/opt/depot/conf/depot.yaml"
    idea = Idea("bad-config", "depot", "it is wrong", 0.7, undo=f"cp /var/tmp/depot.yaml {path}")
    assert undoing(idea) == (idea.undo,)
    assert not eased(before, still, idea)
    assert eased(before, calm, idea)
    nobody = Idea("stale-lock", "nightly", "it is left behind", 0.7, undo="mv /var/tmp/x /run/x")
    assert not eased(before, calm, nobody)
    assert undoing(Idea("a", "b", "c", 0.5, undo="start it again")) == ()


UNIT_FACTS = """\
MainPID=812
ExecStart={ path=/usr/bin/python3 ; argv[]=/usr/bin/python3 serve.py --conf /etc/shop.toml ; \
ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }
Environment=PORT=8080 "NOTE=a b"
EnvironmentFiles=/etc/default/shop (ignore_errors=yes)
WorkingDirectory=/srv/shop
Id=shop.service
FragmentPath=/etc/systemd/system/shop.service

MainPID=0
ExecStart={ path=/usr/sbin/cached ; argv[]=/usr/sbin/cached -f ; ignore_errors=no ; pid=0 }
Id=cached.service
FragmentPath=/lib/systemd/system/cached.service
"""


def test_units_of_systemd_are_known_as_programs_of_a_supervisor_are() -> None:
    units = (
        "shop.service   loaded active running The shop\n"
        "cached.service loaded failed failed  A cache\n"
    )
    said = "2026-11-16T02:49:01+0000 box shop[812]: ERROR cannot write\n"
    looked = {
        probes.UNITS: units,
        probes.unit_facts(["shop", "cached"]): UNIT_FACTS,
        probes.journal("shop"): said,
        probes.CLOCK: LOOKED[probes.CLOCK],
    }
    found = Case(
        Brief("inc-1", service="shop"), [Seen(command, text) for command, text in looked.items()]
    )
    assert found.programs["shop"].pid == 812
    assert not found.programs["cached"].up
    assert found.configs("shop") == ["/etc/shop.toml", "/etc/default/shop"]
    assert found.settings("shop")["NOTE"] == "a b"
    assert found.ports("shop") == [8080]
    assert found.definitions["shop"].path == "/etc/systemd/system/shop.service"
    assert found.troubles("shop") == [said.strip()]
    assert found.restart("shop") == "systemctl restart shop"
    assert found.restart("cached") == "systemctl reset-failed cached; systemctl restart cached"


def test_drop_ins_of_a_unit_are_settings_of_its_service() -> None:
    more = "FragmentPath=/etc/systemd/system/shop.service\nDropInPaths=/etc/systemd/s.d/a.conf"
    facts = UNIT_FACTS.replace("FragmentPath=/etc/systemd/system/shop.service", more)
    looked = {
        probes.UNITS: "shop.service   loaded active running The shop\n",
        probes.unit_facts(["shop"]): facts,
    }
    seen = [Seen(command, text) for command, text in looked.items()]
    found = Case(Brief("inc-1", service="shop"), seen)
    assert "/etc/systemd/s.d/a.conf" in found.configs("shop")
    assert found.restart("shop") == "systemctl daemon-reload; systemctl restart shop"


def test_a_setting_that_leads_to_where_nobody_is_is_led_to_what_is_needed() -> None:
    elsewhere = PROGRAMS.replace("http://127.0.0.1:7000", "http://127.0.0.1:7070")
    said = "2026-11-16 02:49:30 ERROR http://127.0.0.1:7070: Connection refused\n"
    log = probes.tail("/srv/gate/logs/a")
    (idea,) = astray.astray(case(**{probes.PROGRAMS: elsewhere, log: said}))
    assert (idea.category, idea.component) == ("bad-config", "gate")
    assert idea.locus == "/etc/supervisor/conf.d/all.conf"
    assert "7070([^0-9]|$)/\\17000\\2/g" in idea.fix[1]
    assert "supervisorctl update gate" in idea.fix
    assert not list(astray.astray(case(**{log: said.replace("7070", "7000")})))
    down = "listen: 127.0.0.1:7070\n"
    of_depot = {"cat /opt/depot/conf/depot.yaml": down, probes.PROGRAMS: elsewhere, log: said}
    assert not list(astray.astray(case(**of_depot)))


ARCHIVES = """\
==> lines <==
6 /opt/shop/etc/shop.toml
==> tar:/var/backups/etc.tgz:opt/shop/etc/shop.toml <==
2c2
< workers = 4
---
> workers = 0
==> /opt/shop/etc/tuesday.toml <==
2c2
< workers = 5
---
> workers = 0
==> /opt/shop/etc/shop.toml.1.gz <==
2c2
< workers = 6
---
> workers = 0
"""


def test_versions_lie_in_archives_packed_or_under_any_name_beside_a_file() -> None:
    path = "/opt/shop/etc/shop.toml"
    found = versions(case(**{probes.copies(path): ARCHIVES}), path)
    back = [put_back(path, one.path)[1] for one in found]
    assert f"tar -xOf /var/backups/etc.tgz opt/shop/etc/shop.toml > {path}" in back
    assert f"zcat {path}.1.gz > {path}" in back
    assert back[-1] == f"cp /opt/shop/etc/tuesday.toml {path}"


def test_a_look_for_versions_finds_what_was_kept(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    own = folder / "shop.toml"
    own.write_text("a = 1\nb = 2\n")
    packed = gzip.compress(own.read_bytes())
    (folder / "shop.toml.1.gz").write_bytes(packed)
    (folder / "tuesday.toml").write_text("a = 1\nb = 2\n")
    own.write_text("a = 1\nb = 3\n")
    ran = subprocess.run(["sh", "-c", probes.copies(str(own))], capture_output=True, text=True)
    shown = parse.files(ran.stdout)
    for name in ("shop.toml.1.gz", "tuesday.toml"):
        assert "< b = 2" in shown[f"{folder}/{name}"]
