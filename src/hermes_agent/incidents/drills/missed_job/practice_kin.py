"""A line that came from one kind of table into the other, and one that was left out for a move."""

import time
from collections.abc import Sequence

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import bakery, crontab, harbour, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

SPOOL = "/var/spool/cron/crontabs/root"


def _recent(name: str, service: str, product: str, minutes: int) -> WatchedCheck:
    """The check of whoever reads the product: it was written lately."""
    run = f"find {product} -mmin -{minutes} -printf 'written at %TH:%TM\\n' | grep . || echo late"
    return WatchedCheck(name, Check(run, Expect(output="^written at"), timeout=6.0), service)


def _tables(probe: Probe) -> str:
    """All that cron is told."""
    folder = "/etc/cron.d"
    paths = [SPOOL, "/etc/crontab", *(f"{folder}/{name}" for name in probe.names(folder))]
    return "\n".join(map(probe.text, paths))


def _left(probe: Probe, wanted: Sequence[str]) -> list[str]:
    """Jobs of others that cron is not told of any more."""
    told = [line for line in _tables(probe).splitlines() if not line.startswith("#")]
    return [
        f"{one} is in no table any more" for one in wanted if not any(one in row for row in told)
    ]


BOARD = """#!/bin/sh
# The board behind the counter: how many orders there are.
set -eu
WHOwc -l {journal} > {board}.next
echo "by $by at $(date +%s)" >> {board}.next
mv {board}.next {board}
"""


def brought_over(pick: Pick) -> Scene:
    """As `no-user`: the line was brought from root's own table into the bakery's file of
    /etc/cron.d, for tidiness, as it was; it begins with `cd`."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    table, folder = "/etc/cron.d/bakery", pick.choice(("/srv/boards", "/var/www/board"))
    script, board = "/opt/bakery/bin/board", f"{folder}/{main}.txt"
    log, sweep = f"/var/log/bakery/board-{main}.log", "/opt/bakery/bin/sweep"
    line = f"* * * * * cd /opt/bakery && bin/board >> {log} 2>&1"
    text = BOARD.format(journal=bakery.journal_of(main), board=board).replace("WHO", crontab.WHO)
    kept, checked = bakery.orders(pick), f"{pick.size(5, 50)} 5 * * * root test -d /var/bakery"
    world = tiers.joined(
        [crontab.cron({
            "bakery": f"# the bakery\nMAILTO=baker\n10 1 * * 0 root {sweep}\n",
            "disks": f"{checked}\n",
         }),
         bakery.counter(main, port, kept), bakery.counter(other, other_port)],
        files={
            **bakery.months_ago(main, pick), **bakery.months_ago(other, pick),
            script: File(text, mode=0o755, age=tiers.MONTH),
            sweep: File("#!/bin/sh\nexit 0\n", mode=0o755, age=tiers.MONTH),
            log: File(f"wc: {bakery.journal_of(main)}: No such file or directory\n", age=8e6),
            SPOOL: File(f"{line}\n", mode=0o600, age=tiers.MONTH),
        },
        folders={folder: 0o755},
        setup=[crontab.made(board)],
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=_recent(f"board of {main}", main, board, 2),
        healthy=lambda probe: said(
            crontab.stale(probe, board, time.time()), bakery.takes(probe, port)
        ),
        truth=Truth(
            (main, crontab.NAME, "board", f"{main}-board", "bakery"), ("job-missed", "bad-config"),
            rf"{table}\b", r"\* \* \* \* \* cd /opt/bakery|bad username",
        ),
        inject=lines(
            f"(echo '# from the crontab of root, so that all is in one place'; cat {SPOOL}) "
            f">> {table}; echo '# see {table}' > {SPOOL}; touch {table} {SPOOL} $(dirname {SPOOL})",
            crontab.age(board),
        ),
        fix=(f"sed -i 's#^\\* \\* \\* \\* \\* cd #* * * * * root cd #' {table}",),
        wrong={
            "cron is restarted": [f"supervisorctl restart {crontab.NAME}"],
            "the board is touched": [f"touch {board}"],
            "run by hand": [f"cd /opt/bakery && bin/board >> {log} 2>&1"],
            "it may be run": [f"chmod 755 {script}; chmod 644 {table}"],
        },
        stays=(script, sweep, bakery.conf_of(main), bakery.conf_of(other)),
        harm=lambda probe: said(
            bakery.takes(probe, other_port), bakery.lost(probe, port, kept),
            *_left(probe, (checked, sweep, "sess-*")),
        ),
    )  # fmt: skip


MANIFEST = """#!/bin/bash
# What is on the quay, for the port authority.
set -euo pipefail
out={home}/export/manifest.csv
{{
    echo 'parcel;bytes'
    find {home}/parcels -type f -printf '%f;%s\\n' | sort
}} > "$out.tmp"
WHOecho "# made by $by at $(date +%s)" >> "$out.tmp"
mv "$out.tmp" "$out"
"""


def left_out(pick: Pick) -> Scene:
    """As `put-out`: a line of root's own table, which `crontab` keeps, became a remark while data
    was moved, with a word of who did it; the list that it makes is for others."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    home, word = harbour.home_of(main), pick.word()
    script, product = f"{home}/bin/manifest.sh", f"{home}/export/manifest.csv"
    line = f"*/1 * * * * {script} 2>>{home}/logs/manifest.err"
    others = f"{pick.size(1, 59)} 3 * * 6 {harbour.home_of(other)}/bin/{word}.sh"
    who, mark = pick.choice(("Per", "Ines", "tk")), pick.choice(("#", "# ", "#- ", "##"))
    note = f"# {who}: not while {home} is on the move to the new disk"
    kept = harbour.parcels(main, pick)
    world = tiers.joined(
        [crontab.cron({"logs": "20 4 * * * root find /data -name '*.log.gz' -mtime +60\n"}),
         harbour.app(main, port), harbour.app(other, other_port)],
        files={
            **kept, **harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick),
            script: File(MANIFEST.format(home=home).replace("WHO", crontab.WHO), mode=0o755,
                         age=tiers.MONTH),
            f"{harbour.home_of(other)}/bin/{word}.sh": File("#!/bin/sh\ntrue\n", mode=0o755),
            f"{home}/logs/manifest.err": File("mv: cannot stat 'x': No such file\n", age=7e6),
            SPOOL: File(f"# jobs of the harbour\nMAILTO=\"\"\n{line}\n{others}\n", mode=0o600,
                        age=tiers.MONTH),
        },
        folders={f"{home}/export": 0o755},
        setup=[crontab.made(product)],
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=_recent("manifest for the port", main, product, 2),
        healthy=lambda probe: said(
            crontab.stale(probe, product, time.time()), harbour.stores(probe, port)
        ),
        truth=Truth(
            (main, crontab.NAME, "manifest", f"{main}-manifest"), ("job-missed", "bad-config"),
            r"(?i)crontabs/root|crontab -l|root'?s? (own )?(crontab|table)|(crontab|table) of root",
            rf"#[- #]*\*/1 \* \* \* \*|{who}: not while",
        ),
        inject=lines(
            f"sed -i 's|^\\*/1 |{note}\\n{mark}&|' {SPOOL}; touch {SPOOL} /var/spool/cron/crontabs",
            crontab.age(product),
        ),
        fix=("crontab -l | sed 's|^#[- #]*\\(\\*/1 \\)|\\1|' > /root/crontab.new",
             "crontab /root/crontab.new"),
        wrong={
            "cron is restarted": [f"supervisorctl restart {crontab.NAME}"],
            "the list is touched": [f"touch {product}"],
            "run by hand": [script],
            "the app is restarted": [f"supervisorctl restart {main}"],
        },
        stays=(script, harbour.settings_of(main), harbour.settings_of(other), *kept),
        harm=lambda probe: said(
            harbour.stores(probe, other_port),
            *_left(probe, (f"bin/{word}.sh", "*.log.gz", "sess-*")),
        ),
    )  # fmt: skip
