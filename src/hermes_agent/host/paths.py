"""Paths in a home. Imports next to nothing, since every command starts here."""

import os
from collections.abc import Iterator, Mapping

from hermes_agent.core.errors import UsageError

UNIT = "hermes.service"
SOCKET_LIMIT = 100
"""The kernel limits socket paths to 107 bytes."""


def find_home(environ: "os._Environ[str] | Mapping[str, str]") -> str:
    """The home that commands use. Raises if it is another agent's."""
    home = chosen_home(environ)
    if not os.path.exists(os.path.join(home, "store.id")) and os.path.isdir(home):
        from hermes_agent.host.foreign import refuse_foreign

        refuse_foreign(home)
    return home


def chosen_home(environ: "os._Environ[str] | Mapping[str, str]") -> str:
    """The home that the environment names, whoever's it is."""
    home = os.path.abspath(os.path.expanduser(environ.get("HERMES_HOME") or _usual_home()))
    if not home.isprintable():
        raise UsageError(
            f"the path of the home {home!r} is not UTF-8, or has control characters",
            "set HERMES_HOME to another folder",
        )
    return home


def _usual_home() -> str:
    """`~/.hermes`, unless that is another agent's, or was when our home was made."""
    usual = os.path.join(os.path.expanduser("~"), ".hermes")
    if os.path.exists(os.path.join(usual, "store.id")):
        return usual
    from hermes_agent.host.foreign import ASIDE, foreign_home

    aside = os.path.expanduser(ASIDE)
    return aside if os.path.isdir(aside) or foreign_home(usual) else usual


def run_folder(home: str) -> str:
    return os.path.join(home, "run")


def other_run_folder(home: str) -> str:
    """The run folder of a home that is read-only, or whose path is too long for a socket."""
    import hashlib

    mark = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    name, short = f"hermes-{os.getuid()}-{mark}", "/tmp"  # noqa: S108 - the owner is checked before use
    folder = os.path.join(os.environ.get("TMPDIR", short), name)
    fits = len(os.fsencode(os.path.join(folder, "api.sock"))) < SOCKET_LIMIT
    return folder if fits else os.path.join(short, name)


def socket_paths(home: str) -> Iterator[str]:
    """Where the runtime's socket may be, likeliest first."""
    first = os.path.join(run_folder(home), "api.sock")
    if len(os.fsencode(first)) < SOCKET_LIMIT:
        yield first
    yield os.path.join(other_run_folder(home), "api.sock")


def unit_path(environ: Mapping[str, str]) -> str:
    """The path of the user's systemd unit for the runtime, whether it exists or not."""
    config = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(config, "systemd", "user", UNIT)


def has_systemd() -> bool:
    return os.path.isdir("/run/systemd/system")


def supervisor_note(home: str) -> str:
    """The file with the process id of what restarts the runtime, or why that gave up."""
    return os.path.join(run_folder(home), "supervisor")


def log_path(home: str) -> str:
    return os.path.join(home, "logs", "runtime.log")
