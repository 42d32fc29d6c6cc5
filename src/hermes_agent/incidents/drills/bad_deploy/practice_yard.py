"""In another house: the traffic was switched to a release that cannot read what the one before
wrote, and a release was unpacked in place and is not whole."""

import io
import tarfile

from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth


def switched(pick: Pick) -> Scene:
    (main, other), (port, blue, green, other_port) = pick.services(2), pick.ports(4)
    old, new = f"3.{pick.size(1, 9)}.{pick.size(0, 9)}", f"4.0.{pick.size(0, 5)}"
    route = "/etc/nginx/sites-enabled/00-route.conf"
    text = tiers.program_text("depot.py")
    line = '            return (Path(self.settings["store"]) / key).read_bytes()\n'
    worse = text.replace(line, line.replace("/ key", '/ "by-key" / key[:2] / key'))
    if worse == text:
        raise ValueError("the program has no such line")
    kept = yard.notes(main, pick)
    colours = []
    for colour, number, code in (("blue", blue, text), ("green", green, worse)):
        version = old if colour == "blue" else new
        about = f"release {version} of {main}; {route} says which one serves"
        where = {"store": yard.store_of(main)}
        colours.append(yard.depot(f"{main}-{colour}", number, where, code=code, about=about))
    site = yard.proxy(port, f"http://{main}_live")
    world = tiers.joined(
        [*colours, yard.depot(other, other_port),
         tiers.nginx({main: site}, [f"{main}-blue", f"{main}-green"], port)],
        files={
            **kept,
            **yard.days_ago(other, pick),
            route: File(f"upstream {main}_live {{ server 127.0.0.1:{blue}; }}  # blue, {old}\n",
                        age=tiers.MONTH),
            "/var/log/releases.log": File(f"2026-08-02 09:14 {main} {old} live on blue\n"),
        },
        hostname=pick.host(),
    )  # fmt: skip
    first, note = next(iter(kept.items()))
    return Scene(
        world=world,
        check=yard.fetches(main, port, first, note.text),
        healthy=lambda probe: said(
            yard.stores(probe, port),
            *(f"{path} cannot be had" for path, file in kept.items()
              if probe.http(port, f"{yard.NOTES}/{path.rpartition('/')[2]}").text != file.text),
        ),
        truth=Truth(
            (main, f"{main}-green", "nginx"), ("bad-deploy",), rf"green|{new}|{route}",
            rf"{new}|green|by-key",
        ),
        inject=lines(
            f"cp -p {route} /etc/nginx/route.previous",
            f"sed -i 's/:{blue};/:{green};/; s/blue.*/green, {new}/' {route}",
            f"echo \"$(date '+%F %H:%M') {main} {new} live on green\" >> /var/log/releases.log",
            "nginx -s reload; sleep 0.3",
        ),
        fix=(f"cp -p /etc/nginx/route.previous {route}", "nginx -t && nginx -s reload"),
        wrong={
            "restarting": [f"supervisorctl restart {main}-green nginx; sleep 0.3"],
            "notes put where it looks": [
                (f"cd {yard.store_of(main)} && for n in note-*; do mkdir -p by-key/no; "
                "mv $n by-key/no/; done"),
            ],
        },
        stays=(*kept, yard.settings_of(other)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip


def _packed(name: str, text: str) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for path, content in (("depotd.py", text), ("VERSION", f"{name}\n")):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content.encode()), 0o644
            archive.addfile(entry, io.BytesIO(content.encode()))
    return made.getvalue()


def half_copied(pick: Pick) -> Scene:
    (main, other, front), (port, front_port, other_port) = pick.services(3), pick.ports(3)
    old = f"{pick.size(11, 40)}"
    new = str(int(old) + 1)
    text = tiers.program_text("depot.py")
    at = text.index("    def forward(")
    cut = text[: at + pick.size(200, 420)]
    kept = yard.notes(main, pick)
    code = f"/opt/{main}/bin/depotd.py"
    store = yard.depot(main, port, start_seconds=1)
    files = {
        **kept,
        **yard.days_ago(other, pick),
        f"/opt/{main}/dist/build-{old}.tar.gz": File(data=_packed(old, text), age=tiers.MONTH),
        f"/opt/{main}/bin/VERSION": File(f"{old}\n", age=tiers.MONTH),
        "/var/log/releases.log": File(f"2026-09-11 16:40 {main} build {old} unpacked\n"),
    }
    world = tiers.joined(
        [store, yard.depot(other, other_port),
         yard.depot(front, front_port, {"backend": f"http://127.0.0.1:{port}"}, needs=(main,))],
        files=files,
        hostname=pick.host(),
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.write(code, cut)
        box.write(f"/opt/{main}/bin/VERSION", f"{new}\n")
        told = f"{main} build {new} unpacked"
        box.run(f"echo \"$(date '+%F %H:%M') {told}\" >> /var/log/releases.log")
        box.run(f"supervisorctl restart {main}", check=False)

    def healthy(probe: Probe) -> list[str]:
        version = probe.text(f"/opt/{main}/bin/VERSION").strip()
        return said(yard.stores(probe, port, front_port),
                    "" if version == old else f"build {version} is in place")  # fmt: skip

    return Scene(
        world=world,
        check=yard.passes(front, front_port),
        healthy=healthy,
        truth=Truth(
            (main,), ("bad-deploy",), rf"build.{new}|depotd\.py|/opt/{main}/bin",
            r"SyntaxError|was never closed|IndentationError|unexpected EOF|expected '|"
            rf"unterminated|build {new} unpacked",
        ),
        inject=inject,
        fix=(f"tar xzf /opt/{main}/dist/build-{old}.tar.gz -C /opt/{main}/bin",
             f"supervisorctl restart {main}"),
        wrong={
            "restarting": [f"supervisorctl restart {main} {front}"],
            "another server at its port": [
                (f"supervisorctl stop {main}; cd /tmp; setsid python3 -m http.server {port} "
                "--bind 127.0.0.1 &>/dev/null & sleep 0.4"),
            ],
        },
        stays=(*kept, yard.settings_of(main), yard.settings_of(front)),
        harm=lambda probe: said(yard.stores(probe, other_port)),
    )  # fmt: skip
