"""What cron makes of a table, and the rules that follow, over what commands printed once."""

import os
import re
import subprocess
from pathlib import Path

from hermes_agent.models.responder.brief import Brief, BriefCheck
from hermes_agent.models.responder.rules import crontabs, tables
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.rules.jobs import missed, stirs, taken_over
from hermes_agent.models.responder.rules.scripts import first_line
from hermes_agent.models.responder.rules.tables import lies
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen
from tests.support.patience import PATIENCE

TABLE = "/etc/cron.d/digest"
CHECK = "test $(( $(date +%s) - $(stat -c %Y /data/digest.txt) )) -lt 90"
USERS = "user root\nuser app\n"


def best(row: str, *, table: str = TABLE, head: str = "", **seen: str) -> Idea:
    """The likeliest remedy for a job with this row in its table."""
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "cron                             RUNNING   pid 9, uptime 0:01:10\n",
        probes.JOBS: f"==> {table} <==\n{head}{row}\n",
        crontabs.TABLES: USERS,
        probes.copies(table): "",
        **seen,
    }
    brief = Brief("inc-1", service="digest", check=BriefCheck("c", CHECK, "", 1, False))
    found = list(missed(Case(brief, [Seen(command, text) for command, text in shown.items()])))
    return max((idea for idea in found if idea.fix), key=lambda idea: idea.score)


def test_times_are_read_as_cron_reads_them() -> None:
    assert crontabs.misread("*/5 8-18 * * mon-fri") == ""
    assert crontabs.misread("60 * * * *") == "minute '60'"
    assert crontabs.misread("* * * * root") == "day of the week 'root'"
    assert crontabs.misread("*/0 * * * *") == "minute '*/0'"
    assert crontabs.gap("* * * * *") == 1
    assert crontabs.gap("*/15 * * * *") == 15
    assert crontabs.gap("30 2 * * *") == 1440
    assert crontabs.gap("* * * * 1") > 1440


def test_what_is_run_is_no_argument_of_it() -> None:
    def program(command: str) -> str:
        return crontabs.jobs({TABLE: [f"* * * * * root {command}"]})[0].program

    assert program("cd /srv/x && nice -n 5 /srv/x/run.sh /data/digest.txt >>/x.log 2>&1") == (
        "/srv/x/run.sh"
    )
    assert program("flock -n /run/x.lock python3 /opt/x/make.py --to /data/x") == "/opt/x/make.py"
    assert program("make-digest /data/digest.txt") == "make-digest"


def test_a_table_that_cron_passes_over_is_called_so_that_it_is_read() -> None:
    found = best("* * * * * root /srv/digest", table=f"{TABLE}.cron")
    assert found.fix[0] == f"mv {TABLE}.cron {TABLE}"
    assert found.undo == f"mv {TABLE} {TABLE}.cron"


def test_a_percent_sign_is_escaped() -> None:
    row = "* * * * * root /srv/digest >>/var/log/digest-$(date +%F).log"
    assert r"+\\%F" in best(row).fix[1]


def test_a_program_is_found_where_it_lies() -> None:
    seen = {lies("tally", "root"): "/opt/tools/bin/tally\n"}
    found = best("* * * * * root tally /data/digest.txt", head="PATH=/usr/bin:/bin\n", **seen)
    assert "PATH=/usr/bin:/bin:/opt/tools/bin" in found.fix[1]
    found = best("* * * * * root tally /data/digest.txt", **seen)
    assert re.search(r"1i PATH=\S+:/opt/tools/bin'", found.fix[1])


def test_a_line_gets_the_times_that_people_tell() -> None:
    row = "0 3 * * * root /srv/digest"
    assert "s|0 3 \\* \\* \\*|* * * * *|" in best(row, head="# each minute\n").fix[1]
    assert "minute '70'" in best("70 * * * * root /srv/digest").claim


def test_a_line_of_another_that_cannot_be_read_is_put_out() -> None:
    found = best("* * * * * root /srv/digest\n61 * * * * root /srv/other")
    assert "# 61 * * * * root /srv/other" in found.fix[1]


def test_a_line_that_is_a_remark_comes_back_however_it_was_made_one() -> None:
    for mark in ("#", "# ", "#- ", "##", "#OFF ", "# jo, 3.11.: "):
        for line in ("*/1 * * * * root /srv/digest", "5 3 * * mon-fri root /srv/digest"):
            edit = best(f"{mark}{line}").fix[1]
            assert f"|{line}|" in edit.replace("'", "")


def test_a_line_without_a_user_gets_one() -> None:
    assert "root /srv/digest" in best("* * * * * /srv/digest").fix[1]
    assert "ghost" in best("* * * * * ghost /srv/digest").claim


def test_how_a_table_lies_there_counts() -> None:
    row = "* * * * * root /srv/digest"
    listed = "/etc/cron.d:\n-rw-rw-r-- 1 root root 60 2026-11-15 20:00:00.0 +0000 digest\n"
    assert best(row, **{crontabs.TABLES: listed + USERS}).fix[0] == f"chmod go-w {TABLE}"
    unended = f"unended {TABLE}\n{USERS}"
    assert "no end" in best(row, **{crontabs.TABLES: unended}).claim


def test_a_file_that_keeps_a_script_from_its_work_is_put_aside() -> None:
    flag = "/var/lib/digest/paused"
    guards = (
        "[ -e $STATE/paused ] && exit 0",
        "[ ! -e $STATE/paused ] || exit 0",
        f"if os.path.exists('{flag}'):\n    sys.exit()",
    )

    def kept(guard: str, why: str) -> Idea:
        return best("* * * * * root /srv/digest", **{
            probes.show("/srv/digest"): f"#!/bin/sh\nSTATE=/var/lib/digest\n{guard}\nls > /x\n",
            probes.walk(flag): f"f: {flag}\n-rw-r--r-- root root paused\n",
            probes.show(flag): why,
        })  # fmt: skip

    for guard in guards:
        assert kept(guard, "").fix[0].startswith(f"mv -T --backup=numbered {flag} ")
        assert kept(guard, "until the migration is over").score < ACT


def test_a_lock_of_a_run_that_is_gone_may_be_a_folder_and_nobody_may_speak_of_it() -> None:
    lock = "/srv/state/digest.busy"
    for guard in (f"mkdir {lock} 2>/dev/null || exit 0", f"if [ -d {lock} ]; then exit 1; fi"):
        seen = {
            probes.show("/srv/digest"): f"#!/bin/sh\n{guard}\nls > /data/x\n",
            probes.show(lock): f"cat: {lock}: Is a directory",
            probes.holders(lock): "",
        }
        found = best("* * * * * root /srv/digest", **seen)
        assert found.fix[0].startswith(f"mv -T --backup=numbered {lock} ")


def test_a_file_at_which_a_script_goes_away_and_that_it_else_makes_is_a_lock() -> None:
    lock = "/srv/state/digest.busy"
    guard = 'mine={}\nif [ -s "$mine" ]; then\n  echo "$(cat $mine) is on it"\n  exit 75\nfi\n'
    seen = {
        probes.show("/srv/digest"): f'#!/bin/bash\n{guard.format(lock)}echo "$$ a" > "$mine"\n',
        probes.show(lock): "31877 pier-3\n",
        probes.holders(lock): "",
    }
    found = best("* * * * * root /srv/digest", **seen)
    assert found.fix[0].startswith(f"mv -T --backup=numbered {lock} ")


def test_that_there_is_no_such_program_is_said_in_many_ways() -> None:
    for said in (
        "/srv/digest: 3: tally: not found", "/srv/digest: line 3: tally: command not found",
        "env: 'tally': No such file or directory",
        "timeout: failed to run command 'tally': No such file or directory",
        "FileNotFoundError: [Errno 2] No such file or directory: 'tally'",
        'Can\'t exec "tally": No such file or directory at /srv/digest line 3.',
    ):  # fmt: skip
        found = tables._NOT_FOUND.search(said)
        assert found is not None
        assert "tally" in found.groups()


def test_a_script_is_run_by_what_is_there() -> None:
    found = best("* * * * * root /srv/digest", **{
        first_line("/srv/digest"): "#!/usr/local/bin/python3$\nabsent /usr/local/bin/python3\n",
        lies("python3", "root"): "/usr/bin/python3\n",
    })  # fmt: skip
    assert "#!/usr/bin/python3" in found.fix[1]


def test_a_run_that_does_nothing_is_ended_and_one_at_work_is_not() -> None:
    row = "* * * * * root flock -n /run/x.lock /srv/digest"
    process = "  41  9 root S 0 0.0 900 70 /bin/sh /srv/digest\n"
    seen = {
        probes.PROCESSES: process,
        probes.holders("/run/x.lock"): "/proc/41/fd/3 /run/x.lock\n",
        crontabs.TABLES: USERS,
        probes.copies(TABLE): "==> /root/digest.bak <==\n< a\n> b\n",
    }
    assert best(row, **seen, **{stirs([41]): "5\n--\n5\n"}).fix[0] == "kill 41"
    assert "kill 41" not in best(row, **seen, **{stirs([41]): "5\n--\n9\n"}).fix


def test_the_next_run_is_waited_for_where_nothing_speaks_against_it() -> None:
    assert best("* * * * * root /srv/digest").fix == ("sleep 63",)


SCRIPT = "/srv/digest/run.sh"
SWITCH = "/etc/default/digest"


def switched(guard: str, told: str) -> Idea:
    text = f"#!/bin/sh\n. {SWITCH}\n{guard}\necho > /data/digest.txt\n"
    return best(
        f"* * * * * root {SCRIPT}",
        **{probes.show(SCRIPT): text, probes.show(SWITCH): f"# of {SCRIPT}\n{told}\n"},
    )


def test_a_setting_that_makes_a_job_go_away_is_set_so_that_it_goes_on() -> None:
    found = switched('[ "$ENABLED" = yes ] || exit 0', "ENABLED=no")
    assert "ENABLED=yes" in found.fix[1]
    assert found.fix[1].endswith(SWITCH)
    found = switched('if [ "${PAUSED:-0}" = 1 ]; then\n  exit 0\nfi', "PAUSED=1")
    assert "PAUSED=0" in found.fix[1]
    found = switched('test "$RUN" != true && exit', 'RUN="false"')
    assert 'RUN="true"' in found.fix[1]


def test_a_setting_that_lets_a_job_go_on_stays_and_so_does_one_that_only_says_how() -> None:
    for guard, told in (
        ('[ "$ENABLED" = yes ] || exit 0', "ENABLED=yes"),
        ('if [ "$VERBOSE" = 1 ]; then\n  set -x\nfi', "VERBOSE=1"),
        ('[ "$MODE" = weekly ] && exit 0', "MODE=weekly"),
    ):
        assert all(SWITCH not in command for command in switched(guard, told).fix)


def test_a_daemon_that_was_halted_goes_on() -> None:
    rows = "    9 1 root T 0 0.0 900 70 /usr/sbin/cron -f\n"
    found = best(f"* * * * * root {SCRIPT}", **{probes.PROCESSES: rows})
    assert found.fix[0] == "kill -CONT 9"


def test_a_table_that_was_taken_out_comes_back_from_where_only_few_may_write() -> None:
    row = "* * * * * root /srv/digest /data/digest.txt"

    def taken(path: str) -> list[str]:
        shown = {
            probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
            probes.STATUS: "cron                             RUNNING   pid 9, uptime 0:01:10\n",
            probes.JOBS: "==> /etc/crontab <==\n# nothing\n",
            probes.mentions("digest"): f"{path}:1:{row}\n",
            probes.mentions("/data/digest.txt"): f"{path}:1:{row}\n",
        }
        brief = Brief("inc-1", service="digest", check=BriefCheck("c", CHECK, "", 1, False))
        found = missed(Case(brief, [Seen(*one) for one in shown.items()]))
        return [one for idea in found for one in idea.fix]

    assert any("&& cp -n /root/cron/digest " in one for one in taken("/root/cron/digest"))
    assert not any("/home/ann/digest" in one for one in taken("/home/ann/digest"))
    assert not taken("/root/lib/digest.py")
    row = "they may go on to digest whatever was given"
    assert not taken("/root/notes")


def test_a_table_of_somebody_else_is_not_made_one_of_root(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("* * * * * root /bin/true\n")
    for mode, comes in ((0o666, False), (0o664, False), (0o644, os.geteuid() == 0)):
        old.chmod(mode)
        command = taken_over(str(old), str(new))
        ran = subprocess.run(["bash", "-c", command], check=False, timeout=PATIENCE)
        assert (ran.returncode == 0, new.exists()) == (comes, comes)


def test_what_is_no_plain_switch_or_is_so_on_purpose_stays() -> None:
    for guard, told in (
        ('[ "$ROLE" = primary ] || exit 0', "ROLE=standby"),
        ('[ "$STAGE" != live ] && exit 0', "STAGE=trial"),
        ('[ "$DRY_RUN" = 1 ] && exit 0', "DRY_RUN=1"),
        ('[ "$CONFIRMED" = yes ] || exit 0', "CONFIRMED=no"),
        ('[ "$ENABLED" = yes ] || exit 0', "# off until the books are closed\nENABLED=no"),
        ('[ "$ENABLED" = yes ] || exit 0', "ENABLED=no # do not run before Monday"),
    ):
        found = switched(guard, told)
        assert found.score < ACT or all(SWITCH not in command for command in found.fix), told


def test_what_a_job_lacks_is_looked_for_at_the_job_that_makes_it() -> None:
    log, made = "/var/log/digest.log", "/data/raw.csv"
    shown = {
        probes.JOBS: (
            f"==> {TABLE} <==\n* * * * * root {SCRIPT} >>{log} 2>&1\n"
            "==> /etc/cron.d/fetch.cron <==\n* * * * * root /srv/fetch.sh\n"
        ),
        probes.show(SCRIPT): f"#!/bin/sh\nsort {made} > /data/digest.txt\n",
        probes.show("/srv/fetch.sh"): f"#!/bin/sh\nls / > {made}\n",
        probes.tail(log): f"sort: cannot read: {made}: No such file or directory\n",
        probes.walk(made): f"f: {made}\ndr root root /\ndr root root data\n"
        "                    raw.csv - No such file or directory\n",
        probes.rows("/srv/digest"): "",
    }
    found = best("", **shown)
    assert found.fix[0] == "mv /etc/cron.d/fetch.cron /etc/cron.d/fetch"
    assert any(made in line for line in found.evidence)
    well = best("", **{**shown, probes.tail(log): f"read {made}, 7 rows\n"})
    assert not any("fetch" in one for one in well.fix), "it is there"


def test_what_only_begins_as_a_table_is_called_is_no_copy_of_it() -> None:
    spool, line = "/var/spool/cron/crontabs/root", "* * * * * /srv/digest"
    for copy, told, wanted in (
        ("/usr/local/cuda-13.0/include/roots.h", "#ifndef ROOTS\n< double root(double x);", False),
        ("/root/before-move/root", "double root(double x);", False),
        ("/root/before-move/root", "* * * * * /srv/digest --all", True),
    ):
        found = f"==> lines <==\n1 {spool}\n==> {copy} <==\n1c1\n< {told}\n---\n> {line}\n"
        idea = best(line, table=spool, **{probes.copies(spool): found})
        assert (copy in " ".join(idea.fix)) is wanted
