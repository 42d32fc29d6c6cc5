"""What a sandbox sees of the machine, as a table: path → hidden, read or write. The nearest rule at
or above a path applies to it."""

import os
import pwd
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermes_agent.core.errors import HermesError
from hermes_agent.core.settings.terminals import SandboxPlace
from hermes_agent.core.text.sensitive_paths import is_run_by_others
from hermes_agent.terminals.sandbox.secret_scan import SYSTEM as SECRET_SYSTEM
from hermes_agent.terminals.sandbox.secret_scan import SecretScan, sockets

Sight = Literal["hide", "read", "write"]
Rules = dict[Path, Sight]

SHOWN = ("/", "/var/log", "/var/lib/dpkg", "/var/lib/rpm")
HIDDEN = ("/home", "/root", "/run", "/var", "/lost+found", *SECRET_SYSTEM)
"""A sandbox that root starts could read root's files, so secrets are hidden by name, and so are
those of the table of secret files."""
SCRATCH = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - commands get a folder of their own there
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/etc", "/dev", "/proc", "/sys")
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
    "/dev/pts",
)  # fmt: skip

PROGRAM_FOLDERS = ("bin", "sbin", "shims", "condabin")
TOOLS_BELOW_LOCAL = ("bin", "lib", "share/pipx", "share/uv")
"""What is visible of ~/.local; the rest is private."""
MAX_LINKS = 40
"""The kernel's limit."""


@dataclass(frozen=True)
class IsolatedSandbox:
    """A sandbox that sees only listed paths, has no sockets, keeps its files in memory, and dies
    with its host."""

    rules: Rules
    names: tuple[Path, ...]
    """Visible paths, as programs name them; links on the way are created inside."""
    scratch_mb: int
    leash: int
    """An open file: when its other end is closed, the sandbox ends."""


def rules(
    place: SandboxPlace, workspace: str, folder: Path, environ: Mapping[str, str], python: Path
) -> Rules:
    """The table for one session. `folder` is where the sandbox keeps its own things, `python` the
    library of the Python that runs inside. Links are followed in all of them."""
    made: Rules = dict.fromkeys(_existing((*HIDDEN, *SCRATCH)), "hide")
    made |= dict.fromkeys(_existing(SHOWN), "read")
    hidden = [
        *homes(environ),
        *_paths(SecretScan(map(str, homes(environ)), "/", wide=False).well_known()),
    ]
    hidden += [path for path in _existing(sockets()) if path.is_socket()]
    # `folder` is HOME/terminals/SESSION/NAME in the home of Hermes.
    hidden += [expand(environ.get("HERMES_HOME") or "~/.hermes", environ)]
    hidden += [above for above in list(folder.parents)[:3] if above != Path("/")]
    made |= dict.fromkeys(_existing(hidden), "hide")
    for tools in [*_tools(environ, made), python]:
        if sight_of(made, tools) == "hide":
            made[tools] = "read"
    for resolver in _existing(["/etc/resolv.conf"]) if place.network else ():
        if sight_of(made, resolver) == "hide":
            made[resolver] = "read"
    for writable in (workspace, *place.write):
        made |= _workspace(expand(writable, environ).resolve())
    made |= dict.fromkeys(_existing(expand(path, environ) for path in place.hide), "hide")
    return made | {folder / "home": "write"}


def hermes_homes(spool: Path, environ: Mapping[str, str]) -> list[Path]:
    """Homes of Hermes: this one's, whose terminal has that spool, and the user's."""
    named = expand(environ.get("HERMES_HOME") or "~/.hermes", environ)
    found = [path for path in (named, *spool.parents[:3]) if (path / "state.db").exists()]
    return sorted(set(_existing(found)))


def expand(path: str, environ: Mapping[str, str]) -> Path:
    """Expand `~` by that environment."""
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        return Path(home + path[1:])
    return Path(path).expanduser()


def refuse_too_much(path: str, environ: Mapping[str, str]) -> None:
    """A writable folder must not contain the system or a whole home: their start-up files, also
    ones that do not exist yet, are run by others."""
    real = expand(path, environ).resolve()
    if not real.is_dir():
        raise HermesError(f"no folder at {path!r} to work in", "create it, or set another")
    system = (*SYSTEM, *SCRATCH, "/var", "/run", "/boot", "/home")
    if any(kept.is_relative_to(real) for kept in _existing((*system, *homes(environ)))):
        raise HermesError(
            f"sandboxed commands could write to all of {path!r}",
            "work in a subfolder; a sandbox cannot cover the system or a whole home",
        )


def sight_of(rules: Rules, path: Path) -> Sight:
    """The nearest rule at or above the path."""
    return next(rules[above] for above in (path, *path.parents) if above in rules)


def bindings(rules: Rules, scratch: Path) -> tuple[list[str], list[str]]:
    """The rules as options of bubblewrap, outer folders first, and those that come last of all.
    `scratch` is there for /tmp."""
    made: list[str] = []
    closed: list[str] = []
    inside = _inside(rules)
    for path in sorted(rules):
        if path in SCRATCH:
            made += ["--bind", str(scratch), str(path)]
        elif rules[path] == sight_of(rules, path.parent) and not (
            # Not to be moved aside, so that another could be put in its place.
            path.name == ".git"
            # In the scratch space, what leads to a folder that is shown is closed.
            or (_is_scratch(path) and any(rules[inner] != "hide" for inner in inside[path]))
        ):
            continue
        elif rules[path] == "write":
            made += ["--bind", str(path), str(path)]
        elif rules[path] == "read":
            made += ["--ro-bind", str(path), str(path)]
        elif path.is_dir():
            made += ["--tmpfs", str(path)]
            closed += ["--remount-ro", str(path)]
        else:
            made += ["--ro-bind", "/dev/null", str(path)]
    return made, closed


def grants(rules: Rules, scratch: Path) -> Iterator[str]:
    """The rules for Landlock, each a letter and a path. Landlock only allows, and only whole
    folders: one with hidden parts is allowed piece by piece, a writable one whole."""
    yield from (f"w{path}" for path in (*DEVICES, scratch))
    waiting, inside = [Path("/")], _inside(rules)
    while waiting:
        path = waiting.pop()
        inner = inside[path]
        match sight_of(rules, path):
            case "write":
                yield f"w{path}"
            case "hide":
                waiting += [other for other in inner if rules[other] != "hide"]
            case "read" if path == Path("/") or any(rules[other] == "hide" for other in inner):
                parts = (other for other in path.iterdir() if not other.is_symlink())
                waiting += [other for other in parts if other != Path("/dev")]
            case "read":
                yield f"r{path}"
                waiting += [other for other in inner if rules[other] == "write"]


def links(rules: Rules, path: Path) -> Iterator[tuple[Path, Path]]:
    """The links on the way to a path that would be hidden: target and link."""
    for _ in range(MAX_LINKS):
        if path.resolve() == path:
            return
        link = next(step for step in (*reversed(path.parents), path) if step.is_symlink())
        if sight_of(rules, link.parent) == "hide":
            yield link.resolve(), link
        path = link.resolve() / path.relative_to(link)


def _inside(rules: Rules) -> defaultdict[Path, list[Path]]:
    """For each folder, the paths below it that have their own rules."""
    found: defaultdict[Path, list[Path]] = defaultdict(list)
    for path in rules:
        for folder in path.parents:
            found[folder].append(path)
    return found


def _is_scratch(path: Path) -> bool:
    return any(scratch in path.parents for scratch in SCRATCH)


def _workspace(root: Path) -> Rules:
    """A writable folder, except for what others run and what holds secrets."""
    made: Rules = {root: "write"}
    scan = SecretScan((), str(root), wide=False)
    for entry in root.iterdir():
        if is_run_by_others(entry.name) and not entry.is_symlink():
            made[entry] = "read"
    git = root / ".git"
    if git.is_dir() and not git.is_symlink():
        (git / "hooks").mkdir(exist_ok=True)
        made |= {git: "write", git / "hooks": "read"}
        made |= dict.fromkeys(_existing([git / "config"]), "read")
    elif git.exists():
        made[git.resolve()] = "read"
    return made | dict.fromkeys(_paths(scan.in_workspace()), "hide")


def _paths(found: Iterable[tuple[str, int]]) -> Iterator[Path]:
    return (Path(path) for path, _ in found)


def homes(environ: Mapping[str, str]) -> Iterator[Path]:
    yield expand("~", environ)
    for entry in pwd.getpwall():
        person = entry.pw_uid == 0 or 1000 <= entry.pw_uid < 65534
        if person and entry.pw_dir != "/" and not entry.pw_dir.startswith(SYSTEM):
            yield Path(entry.pw_dir)


def _tools(environ: Mapping[str, str], made: Rules) -> Iterator[Path]:
    """Folders of PATH in hidden places, with the libraries next to them."""
    known = set(_existing(homes(environ)))
    for entry in _existing(environ.get("PATH", "").split(os.pathsep)):
        if not entry.is_dir() or sight_of(made, entry) != "hide":
            continue
        above = entry.parent
        if above.name == ".local" and above.parent in known:
            yield from _existing(above / name for name in TOOLS_BELOW_LOCAL)
        elif above not in made and entry.name in PROGRAM_FOLDERS and _has_libraries(above):
            yield above
        else:
            yield entry


def _has_libraries(folder: Path) -> bool:
    return (folder / "lib").is_dir() or (folder / "versions").is_dir()


def _existing(paths: Iterable[str | Path]) -> list[Path]:
    """The absolute paths that exist, resolved."""
    found = []
    for path in paths:
        try:
            Path(path).stat()
        except OSError:  # missing, or not accessible to this user
            continue
        if Path(path).is_absolute():
            found.append(Path(path).resolve())
    return found
