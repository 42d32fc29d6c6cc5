"""Folders with what a service keeps that lie elsewhere, over what commands printed once."""

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.rules.absent import absent, siblings
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.rules.moved import search
from hermes_agent.models.responder.view import probes
from hermes_agent.models.responder.view.case import Case
from hermes_agent.models.responder.view.seen import Seen

POSTGRES = "/usr/lib/postgresql/15/bin/postgres -D /var/lib/postgresql/data"
PLAIN = "python3 /opt/desk/desk.py --store /data/desk/papers"


def found(command: str, gone: str, rows: str) -> list[Idea]:
    above = gone.rpartition("/")[0]
    programs = (
        f"==> /etc/supervisor/conf.d/desk.conf <==\n[program:desk]\ncommand={command}\n"
        "stdout_logfile=/var/log/desk.out\n\n"
        "==> /etc/supervisor/conf.d/till.conf <==\n[program:till]\ncommand=python3 /opt/till/x.py\n"
    )
    shown = {
        probes.CLOCK: "1794772992 2026-11-15 20:03:12 UTC +0000",
        probes.STATUS: "desk      FATAL     Exited too quickly\ntill      RUNNING   pid 9\n",
        probes.PROGRAMS: programs,
        probes.SPACE: "x 1 1 1 9% /\ny 1 1 1 9% /mnt/ssd\n",
        probes.tail("/var/log/desk.out"): f"2026-11-15 20:03:10 {gone}: No such file or directory",
        probes.rows(above): "drwxr-xr-x 2 root root 60 2026-11-01 10:00:00.0 +0000 .\n",
        probes.walk(gone): f"f: {gone}\n   {gone.rpartition('/')[2]} - No such file or directory\n",
        siblings(gone): "",
    }
    seen = [Seen(command, text) for command, text in shown.items()]
    first = Case(Brief("inc-1", service="desk"), seen)
    seen.append(Seen(search(first, "desk", gone), rows))
    return [one for one in absent(Case(Brief("inc-1", service="desk"), seen)) if one.fix]


def test_a_cluster_is_known_by_what_is_in_it_and_led_to_on_another_volume() -> None:
    gone = "/var/lib/postgresql/data"
    rows = "0 1794772000 15 0 /mnt/ssd/pg\n0 1794772000 12 0 /mnt/ssd/older\n"
    (idea,) = found(POSTGRES, gone, rows)
    assert idea.fix[0] == f"ln -sT /mnt/ssd/pg {gone}"
    assert idea.undo == f"rm {gone}"
    busy = "0 1794772000 15 1 /mnt/ssd/pg\n"
    assert all(one.score < ACT for one in found(POSTGRES, gone, busy))


def test_a_folder_by_its_name_is_moved_back_and_never_made_empty() -> None:
    gone = "/data/desk/papers"
    (idea,) = found(PLAIN, gone, "root 1794772000.1 - 0 /srv/new/papers\n")
    assert idea.fix[0] == f"mv -nT /srv/new/papers {gone}"
    several = "root 1.0 - 0 /srv/a/papers\nroot 1.0 - 0 /srv/b/papers\n"
    for rows in (
        "",
        several,
        "root 1.0 - 0 /srv/till/papers\n",
        "root 1.0 - 0 /srv/backup/papers\n",
    ):
        assert all(one.score < ACT for one in found(PLAIN, gone, rows))
