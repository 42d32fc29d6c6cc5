"""Settings that somebody changed for the worse, in other troves: below version control, in the
supervisor's own entry, and in one of several instances."""

import re

from hermes_agent.incidents.drills import tiers, troves
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.scene import Scene
from hermes_agent.incidents.drills.world import File, Truth

GIT = "git -c user.name=ops -c user.email=ops@localhost"


def under_git(pick: Pick) -> Scene:
    """Somebody changed where entries are asked for; the folder is under version control."""
    front, store, beside = pick.services(3)
    ports = pick.ports(4)
    kind = pick.choice(troves.FORMATS)
    place = pick.choice(
        ("/etc/{0}/main.{1}", "/opt/{0}/conf/settings.{1}", "/srv/{0}/config/{0}.{1}")
    )
    asks = troves.house(pick, front, ports[0], config=place.format(front, kind))
    keeps = troves.house(pick, store, ports[1])
    third = troves.house(pick, beside, ports[2])
    folder = asks.config.rpartition("/")[0]
    backend = f"http://127.0.0.1:{ports[1]}"
    kept = troves.entries(keeps, pick)
    committed = pick.choice((True, False))

    def inject(box: Box) -> None:
        text = box.read(asks.config)
        box.write(asks.config, text.replace(f":{ports[1]}", f":{ports[3]}"))
        if committed:
            box.run(f"cd {folder} && {GIT} commit -qam 'point at the new cluster'")
        box.run(f"supervisorctl restart {front}", check=False)
        box.wait(f"tcp:{ports[0]}")

    back = "checkout -q HEAD~1 --" if committed else "checkout -q --"
    return Scene(
        world=tiers.joined(
            [
                troves.trove(asks, {"backend": backend, "timeout": 1}, needs=[store]),
                troves.trove(keeps),
                troves.trove(third),
            ],
            files=kept,
            hostname=pick.host(),
            setup=[
                f"cd {folder} && {GIT} init -q && {GIT} add -A && {GIT} commit -qm 'as it runs'"
            ],
        ),
        check=troves.is_up(front, ports[0]),
        healthy=lambda probe: troves.keeps(probe, ports[0], ports[2]),
        truth=Truth((front,), ("bad-config",), re.escape(asks.config), rf"{ports[3]}"),
        inject=inject,
        fix=(f"cd {folder} && git {back} .", f"supervisorctl restart {front}"),
        wrong={
            "restarting": [f"supervisorctl restart {front} {store}"],
            "another at that port": [f"supervisorctl restart {store}; sleep 1"],
        },
        stays=(keeps.config, third.config, *kept),
    )


def instance(pick: Pick) -> Scene:
    """One of three instances of a program was told another folder than the others; nobody kept
    what it was told before."""
    name, other = pick.services(2)
    ports = pick.ports(4)
    kind = pick.choice(troves.FORMATS)
    style = pick.choice(troves.STYLES)
    spots = [f"{name}-{letter}" for letter in "abc"]
    folder = pick.choice((f"/etc/{name}", f"/opt/{name}/instances", f"/srv/{name}/etc"))
    store = pick.choice((f"/var/lib/{name}/entries", f"/data/{name}"))
    all_ = [
        troves.house(
            pick, spot, port, config=f"{folder}/{spot}.{kind}", store=store, style=style,
            code=f"/opt/{name}/trove.py", log=f"/var/log/{spot}.log",
        )
        for spot, port in zip(spots, ports, strict=False)
    ]  # fmt: skip
    at = pick.size(0, 2)
    hit = all_[at]
    lost = store + pick.choice(("s", ".new", "-v2"))
    kept = troves.entries(hit, pick)
    third = troves.house(pick, other, ports[3])

    def inject(box: Box) -> None:
        box.write(hit.config, box.read(hit.config).replace(store, lost))
        box.run(f"supervisorctl restart {hit.name}", check=False)
        box.wait(f"down:{hit.port}")

    return Scene(
        world=tiers.joined(
            [*(troves.trove(one, start_seconds=1) for one in all_), troves.trove(third)],
            files=kept,
            hostname=pick.host(),
        ),
        check=troves.is_up(hit.name, hit.port),
        healthy=lambda probe: [
            *troves.keeps(probe, *(one.port for one in (*all_, third))),
            *([f"{hit.name} has not what the others have"]
              if probe.http(hit.port, f"/v1/{next(iter(kept)).rpartition('/')[2]}").status != 200
              else []),
        ],
        truth=Truth((hit.name,), ("bad-config",), re.escape(hit.config), re.escape(lost)),
        inject=inject,
        fix=(f"sed -i 's#{lost}#{store}#' {hit.config}", f"supervisorctl restart {hit.name}"),
        wrong={
            "restarting": [f"supervisorctl restart {hit.name} || true"],
            "the folder that is missing": [
                f"mkdir -p {lost}", f"supervisorctl restart {hit.name}",
            ],
        },
        stays=(third.config, *kept, *(one.config for one in all_ if one is not hit)),
    )  # fmt: skip


def entry_flag(pick: Pick) -> Scene:
    """It is told all by its command line, and somebody changed that; the entry as it was lies
    among the things of whoever did it."""
    name, other = pick.services(2)
    ports = pick.ports(3)
    home = troves.house(pick, name, ports[0], style=pick.choice(troves.STYLES))
    third = troves.house(pick, other, ports[1])
    flags = " ".join(
        f"--{key.replace('_', '-')}={value}" for key, value in troves.settings(home).items()
    )
    entry = f"/etc/supervisor/conf.d/{name}.conf"
    aside = pick.choice((f"/root/{name}.conf.orig", f"/var/backups/supervisor/{name}.conf",
                         f"/etc/supervisor/{name}.conf.bak", f"/home/ops/{name}.conf"))  # fmt: skip
    bad = pick.choice(("--timeout=2s", "--timeout=fast", "--max-skew=none"))
    kept = troves.entries(home, pick)
    part = troves.trove(home, command=f"python3 {home.code} {flags}", start_seconds=1)
    files = {path: file for path, file in part.files.items() if path != home.config}

    def inject(box: Box) -> None:
        box.run(
            f"sed -i 's#^command=.*#& {bad}#' {entry}; supervisorctl update {name}", check=False
        )
        box.wait(f"down:{home.port}")

    return Scene(
        world=tiers.joined(
            [tiers.Part(part.program, files, part.folders), troves.trove(third)],
            files={**kept, f"/root/todo-{pick.token(3)}.txt": File("ask about the new timeout\n")},
            hostname=pick.host(),
            setup=[f"mkdir -p {aside.rpartition('/')[0]}", f"cp {entry} {aside}",
                   f"touch -d '-9 days' {aside}"],
        ),
        check=troves.is_up(name, home.port),
        healthy=lambda probe: troves.keeps(probe, home.port, third.port),
        truth=Truth((name,), ("bad-config",), re.escape(entry), "could not convert|timeout|skew"),
        inject=inject,
        fix=(f"cp {aside} {entry}", f"supervisorctl update {name}"),
        wrong={
            "restarting": [f"supervisorctl restart {name} || true"],
            "only the entry": [f"touch {entry}; supervisorctl restart {other}"],
        },
        stays=(third.config, *kept),
    )  # fmt: skip


def remark(pick: Pick) -> Scene:
    """Somebody tried another value and left the former line as a remark above it."""
    name, other = pick.services(2)
    ports = pick.ports(2)
    kind = pick.choice(("toml", "yaml", "properties", "env"))
    home = troves.house(pick, name, ports[0], config=f"/opt/{name}/etc/{name}.{kind}")
    third = troves.house(pick, other, ports[1])
    kept = troves.entries(home, pick)
    bad = pick.choice(("2s", "fast", "1,5"))

    def inject(box: Box) -> None:
        rows = box.read(home.config).splitlines()
        row = next(one for one in rows if re.search("timeout", one, re.IGNORECASE))
        worse = re.sub(r'"?2"?$', f'"{bad}"' if kind == "toml" else bad, row)
        at = rows.index(row)
        box.write(home.config, "\n".join([*rows[:at], f"# {row}", worse, *rows[at + 1 :], ""]))
        box.run(f"supervisorctl restart {name}", check=False)
        box.wait(f"down:{home.port}")

    return Scene(
        world=tiers.joined(
            [troves.trove(home, {"timeout": "2"}, start_seconds=1), troves.trove(third)],
            files=kept,
            hostname=pick.host(),
        ),
        check=troves.is_up(name, home.port),
        healthy=lambda probe: troves.keeps(probe, home.port, third.port),
        truth=Truth((name,), ("bad-config",), re.escape(home.config), "could not convert|timeout"),
        inject=inject,
        fix=(
            f"sed -i '/^[^#]*timeout/Id; s/^# \\(.*timeout.*\\)/\\1/I' {home.config}",
            f"supervisorctl restart {name}",
        ),
        wrong={
            "restarting": [f"supervisorctl restart {name} || true"],
            "only the file": [f"touch {home.config}"],
        },
        stays=(third.config, *kept),
    )
