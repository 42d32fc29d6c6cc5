"""How Hermes was installed, and the commands that install more packages beside it."""

import json
import os
import re
import shutil
import site
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import hermes_agent
from hermes_agent.core.errors import HermesError
from hermes_agent.core.installation.extras import OptionalPart, is_missing

NAME = "hermes-runtime"
_EXTRA = re.compile(r"""(?:\s+and)?\s*extra\s*==\s*["']([^"']+)["']""")


class Place(NamedTuple):
    """An installation of Python that Hermes runs in."""

    prefix: Path
    own: bool
    """Whether it is a virtual environment."""
    user: bool = False
    """Whether Hermes is in the user's own folder of packages."""
    managed: bool = False
    """Whether the system's package manager owns it."""
    has_pip: bool = True
    writable: bool = True


def this_place() -> Place:
    return Place(
        Path(sys.prefix),
        sys.prefix != sys.base_prefix,
        Path(hermes_agent.__file__).is_relative_to(site.getusersitepackages()),
        (Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED").exists(),
        not is_missing("pip"),
        os.access(sysconfig.get_path("purelib"), os.W_OK),
    )


class Installer(NamedTuple):
    """`command` installs packages whose requirements follow it."""

    name: str
    command: tuple[str, ...]
    no_deps: tuple[str, ...] = ("--no-deps",)
    note: str = ""

    def commands(self, parts: Sequence[OptionalPart]) -> list[list[str]]:
        """The commands that install these parts."""
        alone = [part.distribution for part in parts if part.data_only]
        rest = [one for part in parts if not part.data_only for one in wanted(part)]
        found = [[*self.command, *dict.fromkeys(rest)]] if rest else []
        return found + ([[*self.command, *self.no_deps, *alone]] if alone else [])


def find_installer(place: Place, which: Callable[[str], str | None] = shutil.which) -> Installer:
    """Raises if nothing that is here can install into this place."""
    python = str(place.prefix / "bin" / "python")
    if place.own and not place.writable:
        raise HermesError(
            f"no permission to write to {place.prefix}",
            f"run `hermes add` as the user who installed it; `ls -ld {place.prefix}` shows who",
        )
    if (place.prefix / "pipx_metadata.json").exists() and which("pipx"):
        # `inject` is recorded, so that `pipx reinstall` keeps it; pip in there is not.
        return Installer("pipx", ("pipx", "inject", place.prefix.name), ("--pip-args=--no-deps",))
    if (place.prefix / "uv-receipt.toml").exists() and which("uv"):
        # `uv tool install --with` would install Hermes again, from a place that may be gone.
        note = "`uv tool upgrade` removes added parts; `hermes add` installs them again"
        return Installer("uv tool", ("uv", "pip", "install", "--python", python), note=note)
    if place.has_pip:
        return _pip(place)
    if which("uv"):
        return Installer("uv", ("uv", "pip", "install", "--python", python))
    raise HermesError(
        f"{place.prefix} has neither pip nor uv", f"`{python} -m ensurepip` installs pip"
    )


def _pip(place: Place) -> Installer:
    python = str(place.prefix / "bin" / "python") if place.own else sys.executable
    flags: tuple[str, ...] = () if place.own or (place.writable and not place.user) else ("--user",)
    if place.managed and not place.own:  # the way in which Hermes itself came here
        flags += ("--break-system-packages",)
    return Installer(" ".join(("pip", *flags)), (python, "-m", "pip", "install", *flags))


def wanted(part: OptionalPart) -> list[str]:
    """What to install for a part. For an extra it is what the extra requires, not
    `hermes-runtime[telegram]`: that would look for Hermes on a package index, where it may not be,
    and replace a checkout or a wheel with what is found there."""
    checkout = _checkout()
    if part.folder:
        return [_sibling(part, checkout)]
    if checkout is not None:  # what was recorded when it was installed may be older
        import tomllib

        project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
        declared: list[str] = project["optional-dependencies"][part.name]
        return declared
    return required_by(part.name, distribution(NAME).requires or [])


def required_by(extra: str, recorded: Sequence[str]) -> list[str]:
    """The requirements of an extra among those of a distribution, without the mark of the extra."""
    return [
        _EXTRA.sub("", line).rstrip("; ")
        for line in recorded
        if (found := _EXTRA.search(line)) and found[1] == extra
    ]


def _sibling(part: OptionalPart, checkout: Path | None) -> str:
    """A distribution from where Hermes itself came from: a checkout, a repository or an index."""
    recorded = None if checkout else distribution(NAME).read_text("direct_url.json")
    origin = json.loads(recorded or "{}")  # empty for an index
    if "dir_info" in origin:
        checkout = Path(unquote(urlsplit(origin["url"]).path))
    if checkout is not None and (checkout / part.folder).is_dir():
        return str(checkout / part.folder)
    if "vcs_info" in origin:
        return f"git+{origin['url']}@{origin['vcs_info']['commit_id']}#subdirectory={part.folder}"
    if not origin and checkout is None:
        return part.distribution
    raise HermesError(
        f"{part.name} is not in what Hermes was installed from",
        "install Hermes from a checkout or from its repository, which have it",
    )


def _checkout() -> Path | None:
    """The checkout that this code runs from."""
    folder = Path(hermes_agent.__file__).parents[2]
    there = (folder / "pyproject.toml").exists() and (folder / "src" / "hermes_agent").is_dir()
    return folder if there else None
