"""Rules about what somebody changed, over what commands printed once."""

import json

from hermes_agent.models.responder.brief import Brief, BriefCheck
from hermes_agent.models.responder.rules.certificate import certificate
from hermes_agent.models.responder.rules.clock import clock, given
from hermes_agent.models.responder.rules.config import configuration, swapped
from hermes_agent.models.responder.rules.former import is_before
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.rules.jobs import missed
from hermes_agent.models.responder.rules.release import history, release
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

NOW = "1794772992 2026-11-15 20:03:12 UTC +0000"
STATUS = """\
api-a                            FATAL     Exited too quickly
api-b                            RUNNING   pid 8, uptime 0:01:10
cron                             RUNNING   pid 9, uptime 0:01:10
"""
PROGRAMS = """\
==> /etc/supervisor/conf.d/api-a.conf <==
[program:api-a]
command=/opt/api/bin/api /opt/api/etc/a.json
stdout_logfile=/var/log/api-a.out

==> /etc/supervisor/conf.d/api-b.conf <==
[program:api-b]
command=/opt/api/bin/api /opt/api/etc/b.json
stdout_logfile=/var/log/api-b.out
"""
ERROR = "2026-11-15 20:03:10 [error] cannot open /data/apis: No such file or directory"


def case(service: str = "api-a", check: str = "", **seen: str) -> Case:
    """A machine with two instances; `seen` are further outputs, by names below."""
    shown = {probes.CLOCK: NOW, probes.STATUS: STATUS, probes.PROGRAMS: PROGRAMS, **seen}
    brief = Brief("inc-1", service=service, check=BriefCheck("c", check, "", 1, False))
    return Case(brief, [Seen(command, output) for command, output in shown.items()])


def best(found: list[Idea]) -> Idea:
    return max(found, key=lambda idea: idea.score)


def config(port: int, data: str) -> str:
    return json.dumps({"port": port, "data": data}, indent=1)


def test_an_instance_is_told_what_the_others_are_told() -> None:
    machine = case(**{
        probes.show("/opt/api/etc/a.json"): config(8001, "/data/apis"),
        probes.show("/opt/api/etc/b.json"): config(8002, "/data/api"),
        probes.tail("/var/log/api-a.out"): ERROR,
    })  # fmt: skip
    found = [idea for idea in configuration(machine) if idea.fix]
    assert best(found).locus == "/opt/api/etc/a.json"
    assert any('"/data/api"' in command for command in best(found).fix)


def test_services_with_other_names_are_no_instances_of_each_other() -> None:
    programs = PROGRAMS.replace("api-b", "shop")
    machine = case(**{
        probes.PROGRAMS: programs,
        probes.STATUS: STATUS.replace("api-b", "shop "),
        probes.show("/opt/api/etc/a.json"): config(8001, "/data/apis"),
        probes.show("/opt/api/etc/b.json"): config(8002, "/data/api"),
        probes.tail("/var/log/api-a.out"): ERROR,
    })  # fmt: skip
    assert not [idea for idea in configuration(machine) if idea.fix]


def test_a_text_is_replaced_as_it_is_written() -> None:
    _, command = swapped("/etc/x.conf", "a.b = [1|2]", "a.b = R&D")
    assert command == r"sed -i 's/a\.b = \[1|2\]/a.b = R\&D/' /etc/x.conf"


def test_releases_are_ordered_by_their_numbers() -> None:
    assert is_before("v1.9.0", "v1.10.0")
    assert not is_before("2026-11-02", "2026-10-31")


def test_a_link_goes_back_to_the_release_before() -> None:
    machine = case(**{
        probes.RELEASES: "/opt/api/bin -> rel/1.10  2026-11-15 20:00:00\n",
        probes.rows("/opt/api/rel"): (
            "drwxr-xr-x 2 root root 60 2026-09-01 10:00:00.0 +0000 1.8\n"
            "drwxr-xr-x 2 root root 60 2026-10-01 10:00:00.0 +0000 1.9\n"
            "drwxr-xr-x 2 root root 60 2026-11-15 20:00:00.0 +0000 1.10\n"
        ),
        probes.tail("/var/log/api-a.out"): ERROR.replace("cannot open", "TypeError:"),
    })  # fmt: skip
    found = [idea for idea in release(machine) if idea.fix and idea.component == "api-a"]
    assert best(found).fix[0] == "ln -sfn rel/1.9 /opt/api/bin"


def test_a_setting_that_shifts_the_clock_is_set_to_nothing() -> None:
    shifted = json.dumps({"port": 8001, "clock_offset": 7200, "max_clock_skew": 30}, indent=1)
    machine = case(**{probes.show("/opt/api/etc/a.json"): shifted})
    found = [idea for idea in clock(machine) if idea.fix]
    assert [idea.locus for idea in found] == ["/opt/api/etc/a.json"]
    assert "clock_offset" in found[0].fix[1]


def test_a_certificate_is_installed_with_the_key_that_belongs_to_it() -> None:
    def told(path: str, end: str, public: str = "", key: str = "") -> str:
        facts = f"subject=CN = a\nissuer=CN = root\nserial={end[-2:]}\nnotAfter={end} GMT\n"
        shown = f"{facts}public={public}\n" if public else ""
        return f"==> {path} <==\n{shown}" + (f"key={key}\n" if key else "")

    old, new = "Nov 14 10:00:00 2026", "Feb 14 10:00:00 2027"
    files = (
        told("/opt/api/tls/s.crt", old, "aa"), told("/opt/api/tls/s.key", "", key="aa"),
        told("/root/new/full.pem", new, "bb"), told("/root/new/priv.pem", "", key="bb"),
        told("/root/other/full.pem", new, "cc"),
    )  # fmt: skip
    settings = json.dumps({"cert": "/opt/api/tls/s.crt", "key": "/opt/api/tls/s.key"})
    machine = case(**{
        probes.CERTIFICATES: "\n".join(files),
        probes.JOBS: "",
        probes.show("/opt/api/etc/a.json"): settings,
    })  # fmt: skip
    fixes = [idea.fix for idea in certificate(machine) if idea.fix]
    assert len(fixes) == 1
    assert "cp /root/new/full.pem /opt/api/tls/s.crt" in fixes[0]
    assert "cp /root/new/priv.pem /opt/api/tls/s.key" in fixes[0]


TABLE = "==> /etc/cron.d/jobs <==\n{0}* * * * * root flock -n /run/x.lock /srv/jobs/x >>/x.log\n"
AGE = "stat -c %Y /data/x.csv"


def test_a_line_of_cron_that_was_put_out_of_use_is_used_again() -> None:
    found = [i for i in missed(case("x", AGE, **{probes.JOBS: TABLE.format("#off ")})) if i.fix]
    assert best(found).locus == "/etc/cron.d/jobs"
    assert "put out" in best(found).claim


def test_a_halted_run_that_holds_the_lock_is_ended_and_a_busy_one_is_not() -> None:
    for state, ended in (("T", True), ("S", False)):
        machine = case("x", AGE, **{
            probes.JOBS: TABLE.format(""),
            probes.PROCESSES: f"  41 1 root {state} 0 0.0 900 70 /bin/sh /srv/jobs/x\n",
            probes.holders("/run/x.lock"): "/proc/41/fd/3 /run/x.lock\n",
        })  # fmt: skip
        killed = [i for i in missed(machine) if any(c.startswith("kill 41") for c in i.fix)]
        assert bool(killed) == ended


COMMITS = """\
commit ccc3333 1794772800 Totals by region
main.py
commit bbb2222 1794772700 Totals
main.py
commit aaa1111 1790000000 Faster
main.py
before ccc3333 HEAD@{{1794772900}} {0}
before aaa1111 HEAD@{{1790000001}} commit: Faster
"""


def test_commits_that_were_taken_over_together_are_gone_back_behind_together() -> None:
    failing = "==> /var/log/api-a.out <==\n2026-11-15 20:03:10 TypeError: region\n"
    for told, wanted in (("pull: Fast-forward", "aaa1111"), ("commit: Totals", "bbb2222")):
        entry = PROGRAMS.replace("stdout", "directory=/opt/api/a\nstdout", 1)
        seen = {
            probes.PROGRAMS: entry,
            history("/opt/api/a"): COMMITS.format(told),
            probes.LOGS: failing,
        }
        found = [idea for idea in release(case(**seen)) if "commit ccc3333" in idea.claim]
        assert best(found).fix[0].endswith(f"checkout -q {wanted}")


def test_a_program_that_stands_before_the_real_one_and_shifts_its_time_is_found() -> None:
    shim = "/usr/local/sbin/run-api"
    seen = {
        probes.STATUS: "api-a   RUNNING   pid 7, uptime 0:10\n",
        probes.PROCESSES: "    7 1 root S 0 0.0 900 70 /opt/api/bin/api\n",
        probes.LOGS: "==> /var/log/api-a.out <==\n2026-11-15 20:03:10 signed in the future\n",
        given(7): "LD_PRELOAD=/usr/lib/faketime/libfaketime.so.1\nFAKETIME=-3h\n",
        probes.show("/opt/api/bin/api"): "",
        probes.show("/opt/api/etc/a.json"): "{}",
        probes.mentions("FAKETIME"): "",
        probes.mentions("faketime"): f"{shim}:2:exec faketime -f '-3h' \"$@\"\n",
        probes.copies(shim): "",
        probes.show(shim): "#!/bin/sh\nexec faketime -f '-3h' \"$@\"\n",
    }
    found = [idea for idea in clock(case(**seen)) if idea.fix]
    assert best(found).locus == shim
    assert any("sed" in one and one.endswith(shim) for one in best(found).fix)


def test_a_link_to_a_file_of_a_release_leads_to_that_of_the_one_before() -> None:
    row = "drwxr-xr-x 2 root root 60 2026-11-{} 10:00:00.0 +0000 {}\n"
    inner = "-rwxr-xr-x 1 root root 60 2026-11-01 10:00:00.0 +0000 api\n"

    def linked(inside: str) -> list[Idea]:
        machine = case(**{
            probes.RELEASES: "/opt/api/bin/api -> /opt/api/rel/43/api  2026-11-15 20:00:00\n",
            probes.rows("/opt/api/rel"): row.format("01", "42") + row.format("15", "43"),
            probes.rows("/opt/api/rel/42"): inside,
            probes.tail("/var/log/api-a.out"): "TypeError: api() takes 1 argument",
        })  # fmt: skip
        return [one for one in release(machine) if one.fix and one.fix[0].startswith("ln ")]

    assert best(linked(inner)).fix[0] == "ln -sfn /opt/api/rel/42/api /opt/api/bin/api"
    assert not linked("")
