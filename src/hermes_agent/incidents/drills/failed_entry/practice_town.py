"""In a house of its own: an entry whose output has nowhere to go, and an environment of Python
that was made anew without one of its modules."""

import sys
from pathlib import Path

from hermes_agent.incidents.drills import layout, tiers
from hermes_agent.incidents.drills import workshop as house
from hermes_agent.incidents.drills.box import PYTHON
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def log_folder(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    folder = f"/var/log/{pick.choice(('sites', 'apps', 'www'))}/{main}"
    kept = house.rows(pick)
    made = house.app(main, port, {"LOG_FILE": ""}, rows=kept, start_seconds=1)
    usual = f"{layout.LOGS}/{main}.log"
    entry = layout.entry(made.program).replace(usual, f"{folder}/out.log")
    world = tiers.joined(
        [made, house.app(other, other_port)],
        files={
            house.entry_of(main): File(entry, age=tiers.MONTH),
            f"{folder}/out.log": File("", age=60.0),
            **house.history(other, pick),
        },
        folders={f"{Path(folder).parent}/{other}": 0o755},
        hostname=pick.host(),
    )
    away = pick.choice((f"mv {folder} /root/{main}-{pick.token(4)}", f"rm -r {folder}"))
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=lambda probe: said(house.keeps(probe, port), house.minded(probe, main)),
        truth=Truth(
            (main,), ("service-crash", "bad-config"), rf"{folder}|{house.entry_of(main)}",
            rf"making dispatchers|ENOENT|{folder}|spawnerr",
        ),
        inject=lines(f"supervisorctl stop {main}", away, f"supervisorctl start {main}"),
        fix=(f"mkdir -p {folder}", f"supervisorctl start {main}"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it is started by hand": [
                f"setsid as-app {house.start_of(main)} </dev/null &>/dev/null & sleep 0.8"
            ],
            "its entry goes": [f"mv {house.entry_of(main)} /root/", "supervisorctl update"],
        },
        stays=(house.env_of(main), house.code_of(main)),
        runs=(house.code_of(other),),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, house.base_of(main), kept)
        ),
    )  # fmt: skip


def _environment(folder: str, modules: dict[str, str]) -> dict[str, File]:
    """A virtual environment, as Python makes it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    told = f"home = {Path(PYTHON).parent}\ninclude-system-site-packages = false\n"
    packages = f"{folder}/lib/{version}/site-packages"
    return {
        f"{folder}/pyvenv.cfg": File(told, age=tiers.MONTH),
        f"{folder}/bin/python": File(link=PYTHON),
        **{f"{packages}/{n}/__init__.py": File(t, age=tiers.MONTH) for n, t in modules.items()},
    }


def missing_module(pick: Pick) -> Scene:
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    module = pick.choice(("shopkit", "cleantext", "ouraudit", "textrules"))
    version, kept = pick.version(), house.rows(pick)
    venv = f"{house.APPS}/{main}/venv"
    old = f"{venv}-{pick.choice(('old', 'prev', 'before-upgrade', '2026-09'))}"
    own = f'"""In-house."""\n\n__version__ = "{version}"\n\n\ndef clean(text):\n    return text\n'
    also = {"markupkit": '__version__ = "2.1"\n'}
    text = house.program(
        ("Any, TextIO\n", f"Any, TextIO\n\nimport {module}\n"),
        ("                store.put(key, body)\n",
         f"                store.put(key, {module}.clean(body))\n"),
    )  # fmt: skip
    made = house.app(main, port, rows=kept, text=text, python=f"{venv}/bin/python", start_seconds=1)
    new = _environment(f"{venv}-new", also)
    world = tiers.joined(
        [made, house.app(other, other_port)],
        files={
            **_environment(venv, {module: own, **also}), **new,
            f"{house.APPS}/{main}/requirements.txt": File(
                f"markupkit==2.1\n{module}=={version}\n", age=tiers.MONTH
            ),
            **house.history(main, pick), **house.history(other, pick),
        },
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=house.up(main, port),
        healthy=lambda probe: said(house.keeps(probe, port), house.minded(probe, main)),
        truth=Truth(
            (main,), ("service-crash", "bad-deploy", "bad-config"), rf"{module}|{venv}",
            rf"ModuleNotFoundError|No module named|No matching distribution|{module}",
        ),
        inject=lines(
            f"supervisorctl stop {main}",
            f"mv {venv} {old} && mv {venv}-new {venv}",
            house.noted(f"{main}: new environment, old one kept in {old}"),
            house.noted(f"ERROR: No matching distribution found for {module}=={version}"),
            f"supervisorctl start {main}",
        ),
        fix=(f"mv {venv} {venv}-broken && mv {old} {venv}", f"supervisorctl start {main}"),
        wrong={
            "it is only started again": [f"supervisorctl start {main}"],
            "it is started by hand": [
                f"sed 's#{venv}/#{old}/#' {house.start_of(main)} > /root/start",
                "setsid as-app bash /root/start </dev/null &>/dev/null & sleep 0.8",
            ],
        },
        stays=(house.env_of(main), house.code_of(main)),
        runs=(house.code_of(other),),
        harm=lambda probe: said(
            house.keeps(probe, other_port), house.lost(probe, house.base_of(main), kept)
        ),
    )  # fmt: skip
