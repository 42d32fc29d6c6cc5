"""The commands that are run to look, as an operator would type them."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

STATUS = "supervisorctl status"
UNITS = "systemctl list-units --type=service --all --plain --no-legend"
PROCESSES = "ps -eo pid,ppid,user,stat,ni,pcpu,rss,etimes,args --sort=-pcpu"
AGAIN = "sleep 2; ps -eo pid,ppid,user,stat,ni,pcpu,rss,etimes,args --sort=-rss"
BUSY = "top -b -n 2 -d 1 -w 200"
CONNECTIONS = "ss -tnp"
CLIENTS = "for i in 1 2 3 4 5 6; do ss -tnp; sleep 0.2; done"
"""Connections over a while: whoever comes and goes is seen, too."""
LISTENERS = "ss -ltnp"
SPACE = "df -P"
INODES = "df -iP"
MEMORY = "free -m"
CLOCK = "date '+%s %Y-%m-%d %H:%M:%S %Z %z'"
LOGS = "tail -v -n 12 /var/log/*.log /var/log/*/*.log /var/log/*/*/*.log 2>/dev/null"
LOG_FILES = (
    "find /var/log /srv /opt /var/lib /var/opt /usr/local /home /data /app -xdev -type f "
    "-mmin -720 -size +0 "
    r"\( -path '*/log/*' -o -path '*/logs/*' -o -name '*log' -o -name '*.err' -o -name '*.out' "
    r"-o -name '*.log.*' \) ! -name '*.gz' -printf '%s %T@ %u %p\n' 2>/dev/null | "
    "sort -k2,2nr | head -n 40"
)
"""All logs that were written today, the newest first."""
SUPERVISOR_LOG = "tail -n 40 /var/log/supervisor/supervisord.log"
PROGRAMS = (
    "tail -v -n +1 /etc/supervisor/conf.d/*.conf /etc/supervisord.d/* /etc/supervisord.conf "
    "2>/dev/null"
)
VITALS = (
    r"find /proc/[0-9]*/fd -mindepth 1 -maxdepth 1 -printf '%h\n' 2>/dev/null | sort | uniq -c | "
    'sort -rn | head -n 40; awk \'{p = FILENAME; gsub(/[^0-9]/, "", p)} '
    "/^Max open/ {f[p] = $4} /^Max data/ {d[p] = $4} /^Max address/ {a[p] = $4} "
    "/^VmData/ {m[p] = $2 * 1024} /^VmSize/ {s[p] = $2 * 1024} END {for (p in f) { "
    'if (f[p] + 0 > 0 && f[p] < 65536) print p, "may have", f[p], "files open"; '
    'if (d[p] + 0 > 0 && m[p] >= 0.7 * d[p]) print p, "has", m[p], "of", d[p], "bytes"; '
    'if (a[p] + 0 > 0 && s[p] >= 0.7 * a[p]) print p, "has", s[p], "of", a[p], "bytes"}}\' '
    "/proc/[0-9]*/limits /proc/[0-9]*/status 2>/dev/null"
)
"""How many files processes have open, how many they may, and who is near the end of its memory."""
LINKS = "ip -br addr; ip -br link; ip route"
RULES = "iptables -S"
NAMES = "tail -v -n +1 /etc/resolv.conf /etc/hosts /etc/nsswitch.conf"
DELETED = r"find /proc/[0-9]*/fd -lname '* (deleted)' -printf '%p %l\n'"
OPEN_FILES = r"find /proc/[0-9]*/fd -lname '/*' -printf '%p %l\n'"
RELEASES = (
    "find /srv /opt /app /var/www /home /data /usr/local -xdev -maxdepth 4 -type l "
    "-printf '%p -> %l  %TY-%Tm-%Td %TH:%TM:%TS\\n' 2>/dev/null | head -n 60"
)
    )
