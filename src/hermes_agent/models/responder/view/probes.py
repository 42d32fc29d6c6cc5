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
BURN = (
    'one() { cat /proc/[0-9]*/stat 2>/dev/null | awk \'{p = $1; sub(/^.*\\) /, ""); '
    "print p, $1, $12 + $13, $14 + $15}'; }; for i in 1 2 3 4 5 6 7 8; do one; sleep 0.25; done | "
    "awk '!($1 in s) {s[$1] = $3; c[$1] = $4} {l[$1] = $3; m[$1] = $4; "
    'r[$1] += ($2 == "R")} '
    'END {for (p in s) if (r[p] > 5 || l[p] + m[p] - s[p] - c[p] >= 8) print p, "takes", '
    '(l[p] - s[p]) / 2, "% of a core itself and", (m[p] - c[p]) / 2, '
    '"% by what it started, ready to run", r[p], "times of 8"}\' | sort -k3,3nr | head -n 20'
)
"""Who takes the processor right now, those who only start others that do among them; and who would
take more, where many fight for it."""
CONNECTIONS = "ss -tnp"
CLIENTS = "for i in 1 2 3 4 5 6; do ss -tnp; ps -eo pid=,ppid=; sleep 0.2; done"
"""Connections over a while: whoever comes and goes is seen, too, and who started it."""
LISTENERS = "ss -ltnp"
SPACE = "df -P"
INODES = "df -iP"
MEMORY = "free -m"
CLOCK = "date '+%s %Y-%m-%d %H:%M:%S %Z %z'"
LOGS = "tail -v -n 12 /var/log/*.log /var/log/*/*.log /var/log/*/*/*.log 2>/dev/null"
LOG_FILES = (
    "find /var/log /srv /opt /var/lib /var/opt /var/www /usr/local /home /data /app -xdev -type f "
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
    "find /srv /opt /app /var/www /home /data /etc/nginx /etc/haproxy /usr/local/bin "
    "/usr/local/lib /usr/local/etc -xdev -maxdepth 4 -type l "
    "-printf '%p -> %l  %TY-%Tm-%Td %TH:%TM:%TS\\n' 2>/dev/null | head -n 60"
)
CERTIFICATES = (
    r"find /etc /srv /opt /var/lib /var/www /root /home /data /app /usr/local/etc /run -xdev "
    r"\( -type f -o -type l \) \( -name '*.crt' -o -name '*.pem' -o -name '*.cert' "
    r"-o -name '*.cer' -o -name '*.key' -o -name '*.chain' -o -name '*.bundle' -o -name '*.x509' "
    r"-o -name cert -o -name certificate -o -name fullchain -o -name privkey -o -name key \) "
    r"-size -64k -not -path '/etc/ssl/certs/*' "
    '2>/dev/null | head -n 60 | while read -r f; do echo; echo "==> $f <=="; '
    '[ -L "$f" ] && echo "link=$(readlink "$f")"; '
    'c=$(openssl x509 -noout -subject -issuer -serial -startdate -enddate -pubkey -in "$f" '
    "2>/dev/null) && echo \"$c\" | grep -E '^(subject|issuer|serial|not)' && "
    'echo "public=$(echo "$c" | grep -vE \'^(subject|issuer|serial|not)\' | sha256sum | '
    'cut -c 1-16)"; k=$(openssl pkey -pubout -passin pass: -in "$f" 2>/dev/null </dev/null) && '
    'echo "key=$(echo "$k" | sha256sum | cut -c 1-16)"; done'
)
"""All certificates with their dates; of keys only to which certificate they belong."""
_EACH = (
    'awk -F/ \'{d = substr($0, index($0, " /")); d = substr(d, 1, length(d) - length($NF))} '
    "n[d]++ < 20'"
)
"""Not more than so many of one folder: what is kept there all the time hides nothing else."""
CHANGED = (
    "find /etc /opt /srv /usr/local /var/www /root /home /data /app -xdev "
    r"\( -type f -o -type l \) -mmin -180 -size -2048k ! -path '*/__pycache__/*' "
    r"! -path '*/.git/*' ! -name '*.log' ! -path '*/log/*' -printf '%s %T@ %u %p\n' 2>/dev/null | "
    f"sort -k2,2nr | {_EACH} | head -n 120"
)
"""What was written lately where settings and programs lie, the newest first."""
JOBS = (
    "tail -v -n +1 /etc/crontab /etc/anacrontab /etc/cron.d/* /var/spool/cron/crontabs/* "
    "/var/spool/cron/*tab 2>/dev/null"
)
SITES = "tail -v -n +1 /etc/nginx/nginx.conf /etc/nginx/conf.d/*.conf /etc/nginx/sites-enabled/*"
TRIAGE = (
    STATUS, PROCESSES, LISTENERS, SPACE, INODES, MEMORY, CLOCK, LOGS, LOG_FILES, PROGRAMS,
    CHANGED, SUPERVISOR_LOG, VITALS,
)  # fmt: skip

BACKUPS = re.compile(
    r"([._-](bak|orig|old|save|saved|sav|prev|previous|backup|good|known-good|working|stable|copy"
    r"|dpkg-old|dpkg-bak|rpmsave|rpmorig|ucf-old|before\S*|last\S*|pre-?\S*|bak\S*|rollback\S*)"
    r"|~| \(.*\)| .*|[._-]\d{4}-\d\d-\d\d\S*|[._-]\d{6,}\S*|\.\d{1,3}|[._-](r|v|rev)\d+)$"
)
"""How copies of a file are called that somebody kept."""


TRUSTED = r"\( ! -path '/home/*' -o -user root \)"
"""What of a search is taken for that of whoever looks after the machine."""
KEPT_IN = "/etc /srv /opt /var/backups /var/lib /root /home /usr/local /var/www /data"
"""Where copies may lie."""


def show(path: str) -> str:
    return f"cat {shlex.quote(path)}"


def rows(path: str) -> str:
    return f"ls -la --time-style=full-iso {shlex.quote(path)}"


def walk(path: str) -> str:
    return f"namei -l {shlex.quote(path)}"


def kept(name: str) -> str:
    """Copies of a file, wherever somebody may have put them."""
    wanted = shlex.quote(f"*{name}*")
    return (
        f"find {KEPT_IN} -xdev -type f -name {wanted} {TRUSTED} "
        r"-printf '%s %T@ %u %p\n'"
    )


def copies(path: str) -> str:
    """Earlier versions of a file and how it differs from each: where a link leads, how many lines
    it has, what is kept by git, copies beside it, copies anywhere else, the newest first, packed or
    not, files of its sort beside it, and what archives have in its place."""
    here, own = PurePosixPath(path), shlex.quote(path)
    folder, name = shlex.quote(str(here.parent)), shlex.quote(here.name)
    likes = [f"-name {shlex.quote(f'*{here.name}*')}"]
    if here.suffix and len(here.stem) > 2:
        likes.append(f"-name {shlex.quote(f'{here.stem}[._-]*{here.suffix}*')}")
        likes.append(f"-name {shlex.quote(f'*[._-]{here.stem}{here.suffix}')}")
    beside = ""
    if here.suffix and not CROWDED.search(str(here.parent)):
        any_name = [f"-name {shlex.quote(f'*{here.suffix}')}"]
        beside = f"find {folder} -maxdepth 2 {_copied(own, any_name)} 2>/dev/null | head -n 6; "
    git = f"git -c safe.directory='*' -C {folder}"
    kept = "".join(
        f'{git} show {at}:./{name} >/dev/null 2>&1 && {{ echo "==> git:{at} <=="; '
        f"{git} show {at}:./{name} | diff - {own} | head -n 60; }}; "
        for at in ("HEAD", "HEAD~1", "HEAD~2")
    )
    return (
        f'echo "==> link <=="; readlink {own}; echo "==> lines <=="; wc -l {own}; {kept}'
        f"( find {folder} -maxdepth 2 {_copied(own, likes)} 2>/dev/null | sort -rn | head -n 8; "
        f"find {KEPT_IN} {_copied(own, likes, path)} 2>/dev/null | sort -rn | head -n 10; "
        f"{beside}) | "
        "awk '{p = $0; sub(/^[^ ]+ /, \"\", p)} !s[p]++' | while read -r t f; do "
        'echo "==> $f <=="; case "$f" in *.gz) zcat "$f";; *.xz) xzcat "$f";; *.bz2) bzcat "$f";; '
        f'*) cat "$f";; esac 2>/dev/null | diff - {own} | head -n 60; done | head -c 12000; '
        f"{_archived(here.name, own)}"
    )


CROWDED = re.compile(
    r"^/(?:etc|opt|srv|usr/local|var(?:/\w+)?|root|home(?:/\w+)?)?$|\.d$|-enabled$"
)
"""Folders where what lies beside a file is another's."""
ARCHIVED = "tar:"
"""How copies are called that lie in an archive: this, the archive, and what it is called there."""
_PACKED = (
    r"\( -name '*.tar' -o -name '*.tar.gz' -o -name '*.tgz' -o -name '*.tar.xz' -o "
    r"-name '*.tar.bz2' \)"
)


def _archived(name: str, own: str) -> str:
    """What the newest archives have by a name, and how a file differs from it."""
    wanted = shlex.quote(f"(^|/){re.escape(name)}$")
    return (
        f"find {KEPT_IN} -xdev -type f {_PACKED} {TRUSTED} -size -20480k -printf '%T@ %p\\n' "
        '2>/dev/null | sort -rn | head -n 6 | while read -r t a; do tar -tf "$a" 2>/dev/null | '
        f"grep -E {wanted} | head -n 3 | while read -r m; do "
        f'echo "==> {ARCHIVED}$a:$m <=="; tar -xOf "$a" -- "$m" 2>/dev/null | diff - {own} | '
        "head -n 60; done; done | head -c 3000"
    )


def _copied(own: str, likes: Sequence[str], path: str = "") -> str:
    trusted = f"{TRUSTED} " if path and not path.startswith("/home/") else ""
    return (
        rf"-xdev -type f \( {' -o '.join(likes)} \) {trusted}! -path {own} "
        r"! -path '*/__pycache__/*' "
        r"-size -1024k -printf '%T@ %p\n'"
    )


def tail(path: str, count: int = 40) -> str:
    return f"tail -n {count} {shlex.quote(path)}"


def unit_facts(names: Sequence[str]) -> str:
    """How units are started."""
    named = " ".join(shlex.quote(f"{name}.service") for name in names)
    return (
        "systemctl show -p Id,MainPID,FragmentPath,DropInPaths,WorkingDirectory,ExecStart,User,"
        f"Environment,EnvironmentFiles,Result,NeedDaemonReload {named}"
    )


def journal(unit: str) -> str:
    """What a unit said lately."""
    return f"journalctl -u {shlex.quote(unit)} -n 60 --no-pager -o short-iso"


def tails(paths: Sequence[str], count: int = 15) -> str:
    return f"tail -v -n {count} " + " ".join(shlex.quote(path) for path in paths)


def shown(pattern: str) -> str:
    """All files that a pattern of plain letters names."""
    return f"tail -v -n +1 {pattern}"


def around(folders: Sequence[str]) -> str:
    """What lies in folders, the newest first."""
    named = " ".join(shlex.quote(folder) for folder in folders)
    return (
        rf"find {named} -maxdepth 4 -xdev \( -type f -o -type l \) -size -512k "
        r"! -path '*/.git/*' ! -path '*/__pycache__/*' ! -path '*/node_modules/*' "
        r"-printf '%s %T@ %u %p\n' 2>/dev/null | sort -k2,2nr | "
        f"{_EACH} | head -n 50"
    )


def holders(path: str) -> str:
    """Who has a file open."""
    return f"find /proc/[0-9]*/fd -lname {shlex.quote(path)} -printf '%p %l\\n'"


def descriptors(pid: int) -> str:
    return f"ls -l /proc/{pid}/fd"


def limits(pid: int) -> str:
    return f"grep -E 'open files|address space|processes' /proc/{pid}/limits"


def large(mount: str) -> str:
    return (
        f"find {shlex.quote(mount)} -xdev -type f -size +32k -printf '%s %T@ %u %p\\n'"
        " | sort -rn | head -n 40"
    )


def many(mount: str) -> str:
    return (
        f"find {shlex.quote(mount)} -xdev -printf '%h\\n' | sort | uniq -c | sort -rn | head -n 12"
    )


def names_in(folder: str) -> str:
    """Some of the files of a folder that has many."""
    return f"ls -U {shlex.quote(folder)} | head -n 12"


def sizes_twice(paths: Sequence[str]) -> str:
    named = " ".join(shlex.quote(path) for path in paths)
    return f"stat -c '%s %n' {named}; sleep 1; stat -c '%s %n' {named}"


def timed(url: str) -> str:
    return (
        "curl -s -o /dev/null -m 8 -w "
        f"'%{{http_code}} after %{{time_total}} s from %{{remote_ip}}:%{{remote_port}}\\n' "
        f"{shlex.quote(url)}"
    )


def resolved(name: str) -> str:
    return f"getent hosts {shlex.quote(name)}"


def asked(server: str, name: str) -> str:
    """What a name server itself says to a name: the head of its answer, in hexadecimals."""
    labels = [re.sub(r"[^\w-]", "", one) for one in name.strip(".").split(".")]
    question = "".join(f"\\x{len(one):02x}{one}" for one in labels if one)
    head = r"\x12\x34\x01\x00\x00\x01" + 6 * r"\x00"
    return (
        f'timeout 2 bash -c \'{{ printf "{head}{question}{_OF_ADDRESSES}" >&3; '
        f"head -c 12 <&3 | od -An -tx1; }} 3<>/dev/udp/{server}/53'"
    )


_OF_ADDRESSES = r"\x00\x00\x01\x00\x01"
"""How a question ends that asks for addresses."""


def mentions(word: str) -> str:
    """Files that have a word in them, with the lines."""
    return (
        f"grep -rnsIF --exclude='*.log' --exclude-dir=.git -- {shlex.quote(word)} /etc /srv /opt "
        "/var/lib /var/backups /run /root /home /usr/local/bin /usr/local/etc | cut -c1-300 | "
        "head -n 30"
    )


def served(port: int, name: str) -> str:
    return (
        f"openssl s_client -connect 127.0.0.1:{port} -servername {shlex.quote(name)} "
        "</dev/null 2>/dev/null | openssl x509 -noout -subject -serial -startdate -enddate"
    )
