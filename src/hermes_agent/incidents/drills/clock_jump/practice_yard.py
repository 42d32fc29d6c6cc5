"""In another house: an issuer whose start script still pretends another day, and one that was told
to live in another time zone and takes its local time for that of all."""

import time

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.incidents.drills import tiers, yard
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.world import File, Truth, World

ISSUER = '''
class Issuer(Depot):
    """GET /v1/notes/pass gives a pass that is good for a minute from now."""

    def get(self, key: str) -> bytes:
        if key != "pass":
            return super().get(key)
        now = int(time.mktime(time.localtime())) if not self.settings.get("wall") else wall()
        return f"{now}\\n".encode()


def wall() -> int:
    """What the clock on the wall shows, as seconds."""
    import calendar

    return calendar.timegm(time.localtime())


if __name__ == "__main__":
    run(Issuer)
'''
GATE = '''
class Gate(Depot):
    """Stores a note only with a pass of the issuer that is of this minute."""

    def put(self, key: str, body: bytes) -> None:
        with urllib.request.urlopen(f"{self.settings['issuer']}/v1/notes/pass", timeout=2) as told:
            off = int(told.read()) - time.time()
        if off > 60:
            raise Failure(f"the pass is not valid yet: issued {off:.0f} s ahead of our clock", 401)
        if off < -60:
            raise Failure(f"the pass has run out: issued {-off:.0f} s behind our clock", 401)
        super().put(key, body)


if __name__ == "__main__":
    run(Gate)
'''


class Names:
    """The services of both variants."""

    def __init__(self, pick: Pick) -> None:
        self.gate, self.issuer, self.other = pick.services(3)
        self.port, self.issuer_port, self.other_port = pick.ports(3)
        self.kept = yard.notes(self.gate, pick)
        self.hostname = pick.host()
        self.old = yard.days_ago(self.other, pick)

    def world(self, start: str, files: dict[str, File], **settings: object) -> World:
        issuer = yard.depot(
            self.issuer, self.issuer_port, settings, code=yard.program(ISSUER), command=start
        )
        url = f"http://127.0.0.1:{self.issuer_port}"
        gate = yard.depot(
            self.gate, self.port, {"issuer": url}, code=yard.program(GATE), needs=(self.issuer,)
        )
        return tiers.joined(
            [issuer, gate, yard.depot(self.other, self.other_port)],
            files={**self.kept, **self.old, **files},
            hostname=self.hostname,
        )

    def check(self) -> WatchedCheck:
        return yard.passes(self.gate, self.port)

    def healthy(self, probe: Probe) -> list[str]:
        told = probe.http(self.issuer_port, f"{yard.NOTES}/pass").text.strip()
        off = abs(int(told) - time.time()) if told.isdecimal() else 1e9
        return said(
            yard.stores(probe, self.port), f"passes are off by {off:.0f} s" if off > 10 else ""
        )

    def harm(self, probe: Probe) -> list[str]:
        return said(yard.stores(probe, self.other_port))

    def stays(self) -> tuple[str, ...]:
        gate = f"/opt/{self.gate}/bin/depotd.py"
        return (*self.kept, gate, *map(yard.settings_of, (self.gate, self.issuer, self.other)))

    def wrong(self) -> dict[str, list[str]]:
        gate = f"/opt/{self.gate}/bin/depotd.py"
        return {
            "restarting": [f"supervisorctl restart {self.issuer} {self.gate}"],
            "tolerating it": [
                f"sed -i 's/off > 60/off > 1e12/; s/off < -60/off < -1e12/' {gate}",
                f"supervisorctl restart {self.gate}",
            ],
        }


def start_script(pick: Pick) -> Scene:
    names = Names(pick)
    start = f"/opt/{names.issuer}/bin/{pick.choice(('start', 'launch', 'serve'))}"
    shift = f"{pick.choice('+-')}{pick.size(3, 60)}{pick.choice('dh')}"
    run = f"exec python3 /opt/{names.issuer}/bin/depotd.py {yard.settings_of(names.issuer)}\n"
    plain = f"#!/bin/sh\n# Starts the issuer of passes.\nexport LC_ALL=C\n{run}"
    shifted = plain.replace(
        "exec ", f'# month end, to be tried out\nexport LD_PRELOAD={find("faketime")}\n'
        f'export FAKETIME="{shift}"\nexec ',
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.write(start, shifted, 0o755)
        box.run(f"supervisorctl restart {names.issuer}")
        box.wait(f"tcp:{names.issuer_port}")

    return Scene(
        world=names.world(start, {start: File(plain, mode=0o755, age=tiers.MONTH)}),
        check=names.check(),
        healthy=names.healthy,
        truth=Truth(
            (names.issuer,), ("clock-jump",), rf"{start}|FAKETIME|faketime",
            r"of our clock|FAKETIME|our clock",
        ),
        inject=inject,
        fix=(f"sed -i '/FAKETIME/d; /LD_PRELOAD/d; /month end/d' {start}",
             f"supervisorctl restart {names.issuer}"),
        wrong=names.wrong(),
        stays=names.stays(),
        harm=names.harm,
    )  # fmt: skip


def zone(pick: Pick) -> Scene:
    names = Names(pick)
    place = f"/etc/default/{names.issuer}"
    start = f"/opt/{names.issuer}/bin/run"
    far = pick.choice(("Asia/Kolkata", "America/Denver", "Asia/Seoul", "Pacific/Auckland"))
    run = f"exec python3 /opt/{names.issuer}/bin/depotd.py {yard.settings_of(names.issuer)}\n"
    usual = f"# read by {start}\nTZ=UTC\nLANG=C.UTF-8\n"
    return Scene(
        world=names.world(
            start,
            {
                start: File(
                    f"#!/bin/sh\nset -a\n. {place}\nset +a\n{run}", mode=0o755, age=tiers.MONTH
                ),
                place: File(usual, age=tiers.MONTH),
            },
            wall=True,
        ),
        check=names.check(),
        healthy=names.healthy,
        truth=Truth(
            (names.issuer,),
            ("clock-jump", "bad-config"),
            rf"{place}|TZ|{far}",
            rf"of our clock|{far}",
        ),
        inject=lines(
            f"cp -p {place} {place}.dpkg-old",
            f"sed -i 's#^TZ=.*#TZ={far}#' {place}",
            f"supervisorctl restart {names.issuer}; sleep 0.4",
        ),
        fix=(f"sed -i 's#^TZ=.*#TZ=UTC#' {place}", f"supervisorctl restart {names.issuer}"),
        wrong=names.wrong(),
        stays=names.stays(),
        harm=names.harm,
    )
