"""How machines are laid out. What is held out never occurs in the first split."""

import posixpath

from hermes_drills.pick import Pick
from hermes_drills.types import Style
from hermes_drills.worlds.formats import ENDINGS


def first_style(pick: Pick) -> Style:
    return Style(
        code=pick.choice(("releases", "opt")),
        place=pick.choice(("etc", "etc-file")),
        format=pick.choice(("ini", "env", "yaml")),
        logs=pick.choice(("folder", "file", "output")),
        copies=pick.choice(("bak", "orig")),
        init=pick.choice(("supervisord", "systemd", "systemd")),  # supervisord costs the most
    )


def held_style(pick: Pick) -> Style:
    """Laid out in a way that no machine of the first split is."""
    return Style(
        code=pick.choice(("home", "releases")),
        place=pick.choice(("opt", "srv")),
        format=pick.choice(("json", "toml")),
        logs=pick.choice(("srv", "folder")),
        copies=pick.choice(("dated", "backups")),
        init=pick.choice(("sysv", "systemd", "sysv")),
    )


def code_folder(style: Style, name: str, version: str) -> tuple[str, str]:
    """Where a service's program lies, and the link to it ("" where there is none)."""
    match style.code:
        case "releases":
            return f"/srv/{name}/releases/{version}", f"/srv/{name}/current"
        case "opt":
            return f"/opt/{name}", ""
        case _:
            return f"/home/app/{name}", ""


def config_path(style: Style, name: str) -> str:
    ending = ENDINGS[style.format]
    return {
        "etc": f"/etc/{name}/{name}.{ending}",
        "etc-file": f"/etc/{name}.{ending}",
        "opt": f"/opt/{name}/etc/{name}.{ending}",
        "srv": f"/srv/{name}/config/{name}.{ending}",
    }[style.place]


def log_path(style: Style, name: str) -> str:
    """Empty where a service writes to its standard output."""
    return {
        "folder": f"/var/log/{name}/{name}.log",
        "file": f"/var/log/{name}.log",
        "srv": f"/srv/{name}/log/current.log",
        "output": "",
    }[style.logs]


def data_path(style: Style, name: str) -> str:
    return f"/srv/{name}/data" if style.place in ("opt", "srv") else f"/var/lib/{name}"


def copy_path(style: Style, path: str, service: str) -> str:
    """Where somebody who edits a file leaves the one before."""
    return {
        "bak": f"{path}.bak",
        "orig": f"{path}.orig",
        "dated": f"{path}.2026-10-02",
        "backups": f"/var/backups/{service}/{posixpath.basename(path)}",
    }[style.copies]
