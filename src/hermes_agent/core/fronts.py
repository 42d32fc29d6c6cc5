"""What holds a program that runs outside of the view for looking, besides the rules. A program that
is in no table is held by the rules alone."""

from typing import Literal

Front = Literal["engine", "kubernetes", "unprivileged", "network", "none"]
"""`engine` and `kubernetes`: it reaches the service through a filter of requests and nothing else.
`unprivileged`: it runs as nobody, if Hermes runs as root. `network`: it can write no file."""

_PROGRAMS: dict[Front, str] = {
    "engine": "docker docker-compose podman podman-compose",
    "kubernetes": "kubectl oc k helm",
    "unprivileged": (
        "systemctl loginctl hostnamectl timedatectl localectl networkctl resolvectl machinectl"
        " systemd-analyze coredumpctl"
    ),
    "network": (
        "curl wget dig drill host kdig nslookup nc ncat netcat openssl ssh-keyscan rpcinfo"
        " showmount psql pgcli pg_isready mysql mariadb mysqladmin redis-cli valkey-cli cqlsh"
        " clickhouse-client"
    ),
}
PROGRAMS: dict[str, Front] = {
    name: front for front, names in _PROGRAMS.items() for name in names.split()
}
RELEASES = frozenset({"list", "ls", "status", "get", "history", "hist"})
"""The verbs of `helm` that ask the cluster; the others need the network instead."""


def front_of(program: str, words: tuple[str, ...]) -> Front:
    if program == "helm" and RELEASES.isdisjoint(words):
        return "network"
    return PROGRAMS.get(program, "none")


QUIET = ("--no-ask-password",)
GUARDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "psql": ("PGOPTIONS=-c default_transaction_read_only=on", (), ()),
    "pgcli": ("PGOPTIONS=-c default_transaction_read_only=on", (), ()),
    "mysql": ("", (), ("--init-command=SET SESSION TRANSACTION READ ONLY",)),
    "mariadb": ("", (), ("--init-command=SET SESSION TRANSACTION READ ONLY",)),
    "clickhouse-client": ("", (), ("--readonly=2",)),
    "sqlite3": ("", ("-readonly",), ()),
    **dict.fromkeys(
        ("systemctl", "loginctl", "hostnamectl", "timedatectl", "localectl", "machinectl"),
        ("", QUIET, ()),
    ),
}
"""A variable to add to, words to put before the others, and words to put behind them, with which a
program changes nothing by mistake. What it is told can undo them: guards, not locks."""
