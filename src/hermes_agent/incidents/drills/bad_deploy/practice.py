"""Releases that are worse than the ones before, made in other ways: taken over by git, as a file
behind a link, and as a folder whose number the supervisor's entry names."""

import re
from shlex import quote

from hermes_agent.incidents.drills import tiers, troves
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene
from hermes_agent.incidents.drills.world import File, Truth

GIT = "git -c user.name=ops -c user.email=ops@localhost -c safe.directory='*'"
BUGS = (
    ("Path(self.store, key).write_bytes(value)", "Path(self.store, key).write_bytes(value[1:])"),
    ("Path(self.store, key).write_bytes(value)", "Path(self.store, key).write_text(value)"),
    ("import hashlib\n", "import hashlib\nimport hashlib_fast\n"),
    ("self.timeout = float(", "self.timeout = timedelta("),
)
"""A line of the program, and what became of it."""


def _worse(pick: Pick) -> str:
    good, bad = pick.choice(BUGS)
    text = tiers.program_text("trove.py")
    if good not in text:
        raise ValueError(f"the program has no line {good!r}")
    return text.replace(good, bad)


def working_copy(pick: Pick) -> Scene:
    """The code is a working copy of git, and somebody took over the newest commit."""
    name, other = pick.services(2)
    ports = pick.ports(2)
    folder = pick.choice((f"/srv/{name}", f"/opt/{name}/app", f"/app/{name}"))
    home = troves.house(pick, name, ports[0], code=f"{folder}/trove.py", store=f"/data/{name}",
                        config=f"/etc/{name}.{pick.choice(troves.FORMATS)}")  # fmt: skip
    third = troves.house(pick, other, ports[1])
    kept = troves.entries(home, pick)
    title = pick.choice(("faster writes", "tidy up", "new storage layer", "drop old helpers"))
    worse = _worse(pick)

    def inject(box: Box) -> None:
        box.write(home.code, worse, 0o755)
        box.run(f"cd {folder} && {GIT} commit -qam {quote(title)}")
        box.run(f"supervisorctl restart {name}", check=False)

    return Scene(
        world=tiers.joined(
            [troves.trove(home, start_seconds=1), troves.trove(third)],
            files={**kept, f"{folder}/README.md": File(f"# {name}\n", age=tiers.MONTH)},
            hostname=pick.host(),
            setup=[
                f"cd {folder} && {GIT} init -q && {GIT} add -A && {GIT} commit -qm 'first'",
                f"cd {folder} && echo more >> README.md && {GIT} commit -qam 'say more'",
            ],
        ),
        check=troves.is_up(name, home.port),
        healthy=lambda probe: troves.keeps(probe, home.port, third.port),
        truth=Truth(
            (name,), ("bad-deploy",), re.escape(folder), rf"{title}|Error|not what was put"
        ),
        inject=inject,
        fix=(f"cd {folder} && git checkout -q HEAD~1", f"supervisorctl restart {name}"),
        wrong={
            "restarting": [f"supervisorctl restart {name} || true"],
            "the data anew": [f"mv {home.store} {home.store}.old; mkdir {home.store}",
                              f"supervisorctl restart {name} || true"],
        },
        stays=(home.config, third.config, *kept),
    )  # fmt: skip


def linked_file(pick: Pick) -> Scene:
    """Each release is one file, and a link says which is run."""
    name, other = pick.services(2)
    ports = pick.ports(2)
    folder = pick.choice((f"/srv/{name}", f"/opt/{name}/lib", f"/app/{name}"))
    minor = pick.size(2, 30)
    old, new, older = (f"trove-1.{minor + step}.{pick.size(0, 9)}.py" for step in (0, 1, -1))
    home = troves.house(pick, name, ports[0], code=f"{folder}/trove.py", store=f"/data/{name}")
    third = troves.house(pick, other, ports[1])
    kept = troves.entries(home, pick)
    worse = _worse(pick)
    part = troves.trove(home, start_seconds=1)
    good = part.files[home.code]
    files = {
        **part.files,
        home.code: File(link=old),
        f"{folder}/{old}": good,
        f"{folder}/{older}": File("raise SystemExit('no longer supported')\n", age=9e6),
    }

    def inject(box: Box) -> None:
        box.write(f"{folder}/{new}", worse, 0o755)
        box.run(f"ln -sfn {new} {home.code}; supervisorctl restart {name}", check=False)

    return Scene(
        world=tiers.joined(
            [tiers.Part(part.program, files, part.folders), troves.trove(third)],
            files=kept,
            hostname=pick.host(),
        ),
        check=troves.is_up(name, home.port),
        healthy=lambda probe: troves.keeps(probe, home.port, third.port),
        truth=Truth((name,), ("bad-deploy",), re.escape(new), r"Error|not what was put|" + new),
        inject=inject,
        fix=(f"ln -sfn {old} {home.code}", f"supervisorctl restart {name}"),
        wrong={
            "restarting": [f"supervisorctl restart {name} || true"],
            "far back": [f"ln -sfn {older} {home.code}", f"supervisorctl restart {name} || true"],
        },
        stays=(home.config, third.config, f"{folder}/{old}", *kept),
    )


def by_number(pick: Pick) -> Scene:
    """The supervisor's entry names the folder of a release by its number."""
    name, other = pick.services(2)
    ports = pick.ports(2)
    top, form = pick.choice(
        (("/opt", f"{name}-{{}}"), (f"/srv/{name}", "{}"), ("/app", f"{name}_{{}}"))
    )
    first = pick.choice(("2.{}.0", "20261{}", "build-{}"))
    number = pick.size(101, 119)
    old, new = (form.format(first.format(number + step)) for step in (0, pick.size(1, 4)))
    home = troves.house(pick, name, ports[0], code=f"{top}/{old}/trove.py", store=f"/data/{name}",
                        config=f"/etc/{name}.{pick.choice(troves.FORMATS)}")  # fmt: skip
    third = troves.house(pick, other, ports[1])
    kept = troves.entries(home, pick)
    worse = _worse(pick)
    entry = f"/etc/supervisor/conf.d/{name}.conf"

    def inject(box: Box) -> None:
        box.write(f"{top}/{new}/trove.py", worse, 0o755)
        box.run(f"sed -i 's#{top}/{old}#{top}/{new}#g' {entry}; supervisorctl update", check=False)

    return Scene(
        world=tiers.joined(
            [troves.trove(home, start_seconds=1), troves.trove(third)],
            files=kept,
            hostname=pick.host(),
        ),
        check=troves.is_up(name, home.port),
        healthy=lambda probe: troves.keeps(probe, home.port, third.port),
        truth=Truth((name,), ("bad-deploy",), re.escape(new), "Error|not what was put|" + new),
        inject=inject,
        fix=(f"sed -i 's#{top}/{new}#{top}/{old}#g' {entry}", "supervisorctl update"),
        wrong={
            "restarting": [f"supervisorctl restart {name} || true"],
            "only the entry": [f"sed -i 's#{top}/{new}#{top}/{old}#g' {entry}"],
        },
        stays=(home.config, third.config, home.code, *kept),
    )
