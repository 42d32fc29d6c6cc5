"""What a call did to the systems: it only looked, it changed something, or nobody can tell."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from hermes_agent.core.effects import Operation
from hermes_agent.policy import shell

Did = Literal["looked", "changed", "unclear"]

LOOKING_TOOLS = frozenset(
    {"read_file", "search_files", "read_on", "todo", "skill", "write_skill", "memory", "recall",
     "delegate", "execute_code", "incident", "web_search", "web_fetch", "browser", "find_tools",
     "ask_user"}
)  # fmt: skip
"""Tools that leave the systems as they are; what those within them call is counted by itself."""
CHANGING_TOOLS = frozenset({"write_file", "patch", "browser_act"})
_LOOKING = """
    : [ [[ ( apropos arch arp awk b2sum basename blkid bridge bzcat cal cat cd cksum cmp column comm
    command crontab curl cut date declare df diff dig dir dirname dmesg du echo egrep env exit
    export expr false fgrep file find findmnt fold free fuser gawk getcap getconf getent getfacl
    grep groups head hexdump host hostname hostnamectl id ifconfig iostat ip ipcs jobs journalctl
    jq last less ls lsattr lsblk lscpu lsmod lsof mawk md5sum more mountpoint mpstat mtr namei nc
    netstat nl nm nproc nslookup numfmt od openssl paste pg_isready pgrep pidof pidstat ping
    printenv printf prlimit ps psql pstree pwd pwdx read readelf readlink realpath redis-cli
    resolvectl return rev route sar sed seq set sha1sum sha256sum sleep sort ss stat strings
    supervisorctl sysctl systemctl tac tail tar test timedatectl timeout top tr traceroute tree
    true tty type ulimit umask uname unexpand uniq unset uptime vmstat w watch wc wget whereis which
    who whoami xxd xzcat yes zcat zgrep nginx apachectl haproxy docker podman kubectl git apt dpkg
    dpkg-query rpm pip xargs until while for if local
"""
LOOKING = frozenset(_LOOKING.split())
"""Programs that look, or do no more than that without one of the words below."""
VERBS: Mapping[str, frozenset[str]] = {
    program: frozenset(words.split())
    for program, words in {
        "supervisorctl": "status pid tail maintail version avail help",
        "systemctl": "status show cat is-active is-enabled is-failed list-units list-unit-files "
        "list-timers list-sockets list-dependencies list-jobs get-default help",
        "service": "status",
        "docker": "ps logs inspect images top stats info version port events diff history search",
        "podman": "ps logs inspect images top stats info version port events diff history search",
        "kubectl": "get describe logs top explain version api-resources cluster-info events",
        "git": "status log show diff blame branch describe ls-files ls-tree rev-parse remote tag",
        "psql": "select show explain table with values",
        "apt": "list show policy search",
        "pip": "list show freeze check",
        "route": "", "redis-cli": "",
    }.items()
}  # fmt: skip
"""What such a program may be told, and still only looks."""
_SQL = re.compile(
    r"pg_(?:terminate|cancel)_backend|pg_reload_conf|\b(?:insert|update|delete|drop|alter|create|"
    r"truncate|vacuum|reindex|grant|revoke|lock|copy|call|set)\b",
    re.IGNORECASE,
)
_TOLD: Mapping[str, re.Pattern[str]] = {
    "ip": re.compile(r"\b(?:add|del|delete|set|flush|change|replace|up|down)\b"),
    "date": re.compile(r"(?:^| )(?:-s|--set)\b"),
    "sysctl": re.compile(r"(?:^| )-w\b|="),
    "nginx": re.compile(r"(?:^| )-s\b|^(?!.*-[tTvVh]\b)"),
    "apachectl": re.compile(r"\b(?:start|stop|restart|graceful)\b"),
    "curl": re.compile(r"(?:^| )(?:-X|--request) ?(?!GET|HEAD)|(?:^| )(?:-d|--data|-T|-F)\b"),
    "crontab": re.compile(r"(?:^| )-[re]\b|^(?!.*-l\b)"),
    "hostname": re.compile(r"^\w"),
    "fuser": re.compile(r"(?:^| )-\w*k"),
    "prlimit": re.compile(r"="),
    "psql": _SQL,
    "dmesg": re.compile(r"(?:^| )-[cC]\b"),
    "ifconfig": re.compile(r"\b(?:up|down)\b"),
    "timedatectl": re.compile(r"\bset-"),
    "hostnamectl": re.compile(r"\bset-|\bhostname \w"),
    "route": re.compile(r"\b(?:add|del)\b"),
    "tar": re.compile(
        r"^(?!-?[a-zA-Z]*t|--list)(?![a-zA-Z]*O[a-zA-Z]* )(?!(?:.* )?-[a-zA-Z]*O[a-zA-Z]*(?: |$))"
    ),
    "journalctl": re.compile(r"--(?:vacuum|rotate|flush)"),
}
"""What in its words makes a program change something that otherwise looks."""
_CHANGING = """
    kill pkill killall reboot shutdown halt poweroff mount umount swapon swapoff iptables
    ip6tables nft ufw tc modprobe rmmod insmod useradd userdel usermod groupadd passwd chpasswd
    renice logrotate dd mkfs fsck createdb dropdb pg_ctl pg_ctlcluster service initctl rc-service
    update-rc.d chattr setfacl setcap apt-get yum dnf
"""
CHANGING = frozenset(_CHANGING.split())
_HARMLESS = "basename cat cmp diff dirname echo grep head ls printf readlink stat tail test wc ["
HARMLESS = frozenset(_HARMLESS.split())
"""Programs that only look, whatever they are told."""
_ASKS = re.compile(r"^-0\b|^-l\b|^(?:-[nvw]+ )*-[SL]\b|(?:^| )status$")
"""`kill -0` asks whether a process is there, `service x status` how it is, `iptables -S` what is
set."""
ASKING = frozenset({"kill", "service", "iptables", "ip6tables", "rc-service"})
SCRATCH = ("/tmp/", "/var/tmp/")  # noqa: S108 - output that is put there changes no system
NOWHERE = ("/dev/null", "/dev/std", "/dev/fd/", "/dev/tty", "/proc/self/")


def did(tool: str, arguments: Mapping[str, Any], checks: Sequence[str] = ()) -> Did:
    """What a call with these arguments does, as far as that can be read from it. Whoever runs one
    of these checks by hand looks, whatever it does."""
    if tool in CHANGING_TOOLS:
        return "changed"
    if tool in LOOKING_TOOLS:
        return "looked"
    if tool == "process":
        return "looked" if arguments.get("action") in {"list", "follow"} else "changed"
    if tool == "terminal":
        return _command(_without(str(arguments.get("command", "")), checks))
    return "unclear"


def _without(command: str, checks: Sequence[str]) -> str:
    for check in checks:
        whole = rf"(?<![^\s;&|({{]){re.escape(check.strip())}(?=\s*(?:$|[;&|)}}\n]))"
        command = re.sub(whole, ":", command)
    return command


@lru_cache(1024)
def _command(text: str) -> Did:
    found: set[Did] = {_act(act) for act in shell.read(text, folder="/")}
    if "changed" in found:
        return "changed"
    return "unclear" if "unclear" in found else "looked"


def _act(act: Operation) -> Did:
    spared = (*NOWHERE, *SCRATCH) if act.program in LOOKING else NOWHERE
    for place in act.places:
        if place.access != "read" and not (place.named or place.given).startswith(spared):
            return "changed"
    if act.kind == "unknown":
        return "looked" if act.program in HARMLESS else "unclear"
    if act.kind != "program":
        return "looked"
    words = " ".join(act.arguments)
    if act.program in CHANGING:
        asks = act.program in ASKING and _ASKS.search(words)
        return "looked" if asks else "changed"
    if (told := _TOLD.get(act.program)) is not None and told.search(words):
        return "changed"
    allowed = VERBS.get(act.program)
    if allowed and act.verb not in allowed:
        return "changed" if act.verb else "unclear"
    return "looked" if act.program in LOOKING else "unclear"
