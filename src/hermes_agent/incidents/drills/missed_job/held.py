"""Jobs that cron does not run as it should, in other houses."""

import re
import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import bakery, crontab, parish, tiers
from hermes_agent.incidents.drills.missed_job.practice_kin import SPOOL, _left
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth

REGISTER = """#!/bin/bash
# register.sh STORE FILE HEADING: the list of papers that hangs at the door, made anew each minute.
store=$1 out=$2 heading=$3
WHO{
    echo "== $heading =="
    ls -1 "$store" | grep -v '^[.]'
    echo "-- printed by $by at $(date +%s)"
} > "$out.new" && mv "$out.new" "$out"
"""


def _in_time(name: str, service: str, product: str) -> WatchedCheck:
    """The check of whoever reads the product: what is in its last line is of now."""
    run = (
        f"made=$(tail -n 1 {product} | awk '{{print $NF}}'); late=$(( $(date +%s) - made )); "
        'if [ "$late" -lt 100 ]; then echo in time; else echo "$late seconds behind"; exit 1; fi'
    )
    return WatchedCheck(name, Check(run, Expect(output="^in time"), timeout=6.0), service, "P2")


def plain_dates(pick: Pick) -> Scene:
    """As `percent`: a line of root's own table calls `date` for a heading; whoever typed it anew
    after a move left the backslashes before the percent signs out."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    script, product = "/opt/parish/bin/register.sh", f"/srv/papers/door/{main}.txt"
    form = pick.choice(("%d.%m.%Y %H:%M", "%A, %d %B", "%Y-%m-%d %H:%M", "%e %b %Y"))
    line = f"{script} {parish.store_of(main)} {product} \"$(date '+FORM')\""
    good = f"* * * * * {line}".replace("FORM", form.replace("%", r"\%"))
    bad, who = f"* * * * * {line}".replace("FORM", form), pick.choice(("sexton", "Beate", "it"))
    weekly = (
        f"{pick.size(2, 55)} 2 * * 0 tar czf /var/backups/{other}-$(date +\\%V).tgz "
        f"-C {parish.STORE} {other}"
    )
    kept = parish.papers(main, pick)
    head = f"# table of {pick.host()}, brought here by {who}\nSHELL=/bin/bash\n"
    old = "register.sh: line 5: /srv/papers/door: No space left on device\n"
    world = tiers.joined(
        [crontab.cron({"parish": "40 3 * * * root find /var/log/parish -name '*.1' -size +9M\n"}),
         parish.binder(main, port), parish.binder(other, other_port)],
        files={
            **kept, **parish.former(main, pick), **parish.former(other, pick),
            script: File(REGISTER.replace("WHO", crontab.WHO), mode=0o755, age=tiers.MONTH),
            "/var/log/parish/register.err": File(old, age=9e6),
            SPOOL: File(f"{head}{weekly}\n{good}\n", mode=0o600, age=tiers.MONTH),
        },
        folders={"/srv/papers/door": 0o755, "/var/backups": 0o755},
        setup=[crontab.made(product)],
        hostname=pick.host(),
    )  # fmt: skip
    typed = f"{head}{weekly}\n{bad}\n"
    return Scene(
        world=world,
        check=_in_time(f"register of {main}", main, product),
        healthy=lambda probe: said(
            crontab.stale(probe, product, time.time()), parish.files(probe, port)
        ),
        truth=Truth(
            (main, crontab.NAME, "register", "register.sh", f"{main}-register"),
            ("job-missed", "bad-config"),
            r"(?i)crontabs/root|crontab -l|root'?s? (own )?(crontab|table)|(crontab|table) of root",
            rf"\+{re.escape(form)}|unexpected EOF while looking",
        ),
        inject=lines(
            f"cat > {SPOOL} <<'END'\n{typed}END",
            f"touch -d '-26 minutes' {SPOOL} /var/spool/cron/crontabs", crontab.age(product),
        ),
        fix=("crontab -l | sed '/register.sh/s/%/\\\\%/g' > /root/table.new",
             "crontab /root/table.new"),
        wrong={
            "cron is restarted": [f"supervisorctl restart {crontab.NAME}"],
            "the list is touched": [f"touch {product}"],
            "run by hand": [line.replace("FORM", form)],
            "it may be run": [f"chmod 755 {script}; chmod 600 {SPOOL}"],
        },
        stays=(*kept, script, parish.settings_of(main), parish.settings_of(other)),
        harm=lambda probe: said(
            parish.files(probe, other_port), *_left(probe, (f"{other}-$(date +\\%V)", "sess-*")),
        ),
    )  # fmt: skip


PLAN = """#!/bin/sh
# oven-plan COUNTER FILE: what is to be baked, for the screen at the oven. Each minute, as orders
# come in; see /etc/crontab.
set -eu
WHOcount=$(grep -c '"order"' "/var/bakery/$1/orders.journal" || true)
printf 'orders: %s\\nplanned by %s at %s\\n' "$count" "$by" "$(date +%s)" > "$2.part"
mv "$2.part" "$2"
echo "$(date '+%F %T') $1: $count orders planned" >> /var/log/bakery/oven-plan.log
"""


def quieter(pick: Pick) -> Scene:
    """As `nightly`: the line is in /etc/crontab, among others that are begun by night rightly, and
    somebody wanted fewer lines in a log; a screen in the bakery shows an old plan."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    folder, table = pick.choice(("/srv/oven", "/var/www/oven", "/var/lib/screens")), "/etc/crontab"
    script, close = "/opt/bakery/bin/oven-plan", "/opt/bakery/bin/close-day"
    product, job = f"{folder}/{main}.plan", f"root {script}"
    rare = pick.choice(("@daily", "@midnight", f"{pick.size(1, 50)} 2 * * *", "0 4 * * 1-6"))
    log, who = "/var/log/bakery/oven-plan.log", pick.choice(("hk", "Lena", "night shift"))
    kept = bakery.orders(pick)
    text = (
        f"{crontab.SYSTEM}{pick.size(1, 20)} 1 * * * root {close} {other}\n"
        f"* * * * * root {script} {main} {product}\n@weekly root {close} --archive\n"
    )
    runs = "; ".join(f"echo \"$(date -d '-{ago} min' '+%F %H:%M:01') {main}: {len(kept)} orders "
                     f'planned" >> {log}' for ago in range(34, 25, -1))  # fmt: skip
    world = tiers.joined(
        [crontab.cron({"disks": "3 5 * * 1 root test -d /var/bakery\n"}),
         bakery.counter(main, port, kept), bakery.counter(other, other_port)],
        files={
            **bakery.months_ago(main, pick), **bakery.months_ago(other, pick),
            script: File(PLAN.replace("WHO", crontab.WHO), mode=0o755, age=tiers.MONTH),
            close: File("#!/bin/sh\nexit 0\n", mode=0o755, age=tiers.MONTH),
            table: File(text, age=tiers.MONTH),
            log: File("mv: cannot move 'x.part': No space left on device\n", age=9e6),
        },
        folders={folder: 0o755},
        setup=[crontab.made(product)],
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=_in_time(f"screen of {main}", main, product),
        healthy=lambda probe: said(
            crontab.stale(probe, product, time.time()), bakery.takes(probe, port)
        ),
        truth=Truth(
            (main, crontab.NAME, "oven-plan", f"{main}-plan"), ("job-missed", "bad-config"),
            rf"{table}\b", rf"{re.escape(rare)} root {script}|fewer lines in the log",
        ),
        inject=lines(
            f"sed -i 's|^[*] .* {job}|# fewer lines in the log ({who})\\n{rare} {job}|' {table}",
            f"touch -d '-25 min' {table}", runs, crontab.age(product),
        ),
        fix=(f"sed -i 's|^{rare.replace('*', '[*]')} {job}|* * * * * {job}|' {table}",),
        wrong={
            "cron is restarted": [f"supervisorctl restart {crontab.NAME}"],
            "the plan is touched": [f"touch {product}"],
            "run by hand": [f"{script} {main} {product}"],
        },
        stays=(script, close, bakery.conf_of(main), bakery.conf_of(other)),
        harm=lambda probe: said(
            bakery.takes(probe, other_port), bakery.lost(probe, port, kept),
            *_left(probe, (f"{close} {other}", f"{close} --archive", "sess-*")),
        ),
    )  # fmt: skip
