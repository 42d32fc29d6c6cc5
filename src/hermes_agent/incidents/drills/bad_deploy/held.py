"""Releases that are worse than the ones before, in other houses."""

import io
import json
import re
import secrets
import tarfile
from collections.abc import Mapping

from msgspec.structs import replace

from hermes_agent.core.incidents import WatchedCheck
from hermes_agent.core.skills import Check, Expect
from hermes_agent.incidents.drills import database, harbour, kiosk, tiers
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, lines, said
from hermes_agent.incidents.drills.webshop import Store
from hermes_agent.incidents.drills.world import File, Truth

TOLD = (
    "        except Trouble as trouble:\n",
    """\
        except Exception as error:
            usual = isinstance(error, Trouble)
            trouble = error if usual else Trouble(f"{type(error).__name__}: {error}", 500)
""",
)
"""Whatever goes wrong is logged."""
DEPLOYS = "/data/deploys.log"


def _text(name: str, *changes: tuple[str, str]) -> str:
    """A program with some of its lines changed."""
    text = tiers.program_text(name)
    for was, now in changes:
        if was not in text:
            raise ValueError(f"the program has no {was!r}")
        text = text.replace(was, now)
    return text


def _launched(part: tiers.Part, home: str, texts: Mapping[str, str], used: str) -> tiers.Part:
    """An app whose launcher reads which of its releases is to be run."""
    launch, choice = f"{home}/bin/launch.sh", f"{home}/config/release"
    script = (
        f"#!/bin/sh\n. {choice}\n"
        f'exec python3 "{home}/dist/$RELEASE/parcels.py" {home}/config/application.properties\n'
    )
    files = {path: file for path, file in part.files.items() if "/app/" not in path}
    line = File(tiers.program_text("pgline.py"), age=tiers.MONTH)
    for number, text in texts.items():
        age = tiers.MONTH if number == used else 2400.0
        files[f"{home}/dist/{number}/parcels.py"] = File(text, age=age)
        files[f"{home}/dist/{number}/pgline.py"] = line
    files[launch] = File(script, mode=0o755, age=9e6)
    files[choice] = File(f"RELEASE={used}\n", age=tiers.MONTH)
    return replace(part, program=replace(part.program, command=launch), files=files)


def _deployed(text: str, ago: str) -> str:
    return f"echo \"$(date -u -d '-{ago}' +%FT%TZ) {text}\" >> {DEPLOYS}"


def _finds(service: str, port: int) -> WatchedCheck:
    """The check of the people at the desk: a parcel of last year is found."""
    run = f"curl -sS -m 3 http://127.0.0.1:{port}{harbour.PARCELS}/old-7"
    check = Check(run, Expect(output="^[0-9a-f]{32}$"), timeout=6.0)
    return WatchedCheck(f"{service} finds old parcels", check, service, severity="P1")


def _wants(column: str) -> tuple[tuple[str, str], ...]:
    """Changes of a program that has a number in each row, and looks at it."""
    check = (
        f'        if int(rows[0][1]) < 0:\n            raise Trouble("{column}: negative", 422)\n'
    )
    insert = f"(key, body, {column}) values ('{{key}}', '{{text}}', {{len(text)}})"
    return (
        ("(key, body) values ('{key}', '{text}')", insert),
        ("set body = excluded.body", f"set body = excluded.body, {column} = excluded.{column}"),
        ("select body from", f"select body, {column} from"),
        ("        return rows[0][0]\n", f"{check}        return rows[0][0]\n"),
    )


def unweighed(pick: Pick) -> Scene:
    """As `old-rows`: the new release of an app with properties wants a number that rows of
    PostgreSQL from before its migration do not have; a launcher reads which release is run."""
    (main, other), (port, base_port, other_port) = pick.services(2), pick.ports(3)
    store, home = Store(pick, main, base_port), harbour.home_of(main)
    column = pick.choice(("grams", "millimetres", "cents", "zone_id"))
    major, minor = pick.size(2, 9), pick.size(3, 40)
    old, new = f"{major}.{minor}.{pick.size(0, 4)}", f"{major}.{minor + 1}.0"
    before = _text("parcels.py", TOLD)
    after = _text("parcels.py", TOLD, *_wants(column))
    about = f"parcels; {home}/bin/launch.sh, log {harbour.log_of(main)}"
    app = harbour.app(main, port, harbour.in_base(store), needs=(database.NAME,), about=about)
    beside, choice = harbour.home_of(other), f"{home}/config/release"
    world = tiers.joined(
        [store.server(), _launched(app, home, {old: before, new: after}, old),
         _launched(harbour.app(other, other_port), beside, {"1.7.2": before}, "1.7.2")],
        files={**harbour.weeks_ago(main, pick), **harbour.weeks_ago(other, pick)},
        setup=[_deployed(f"{main} {old} migrations=0 ok", "33 days"),
               _deployed(f"{other} 1.7.2 migrations=0 ok", "50 min")],
        hostname=pick.host(),
    )  # fmt: skip
    again = f"supervisorctl restart {main}; sleep 0.8"
    return Scene(
        world=world,
        check=_finds(main, port),
        healthy=lambda probe: said(
            harbour.stores(probe, port),
            *(f"old-{n} cannot be fetched" for n in (1, 7, 25)
              if len(probe.http(port, f"{harbour.PARCELS}/old-{n}").text) != 32),
        ),
        truth=Truth(
            (main,), ("bad-deploy",),
            rf"{re.escape(new)}|config/release\b|{home}/dist|\b{column}\b|parcels\.py",
            rf"ParcelController.*ValueError|{re.escape(new)}|\b{column}\b",
        ),
        inject=lines(
            f"{store.psql} -c 'alter table {store.table} add column {column} int'",
            f"echo RELEASE={new} > {choice}", _deployed(f"{main} {new} migrations=1 ok", "40 min"),
            again, f"curl -s http://127.0.0.1:{port}{harbour.PARCELS}/old-3",
        ),
        fix=(f"echo RELEASE={old} > {choice}", again),
        wrong={
            "it is restarted": [f"supervisorctl restart {main} {database.NAME}; sleep 1"],
            "old rows go": [f"{store.psql} -c 'delete from {store.table} where {column} is null'",
                            again],
            "the column goes": [f"{store.psql} -c 'alter table {store.table} drop {column}'",
                                again],
        },
        stays=(harbour.settings_of(main), harbour.settings_of(other),
               f"{home}/dist/{old}/parcels.py"),
        harm=lambda probe: said(harbour.stores(probe, other_port), store.lost(probe)),
    )  # fmt: skip


WRITES = "  fs.writeFileSync(place + '~', body)\n"
GARBLED = (
    "body.toString('latin1')",
    "body.toString('ascii')",
    "encodeURI(body.toString())",
    "body.toString().replace(/[^\\x20-\\x7e]/g, '?')",
)
"""What the new release writes instead."""


def _package(name: str, version: str, program: str) -> dict[str, str]:
    about = {"name": name, "version": version, "private": True, "main": "server.js"}
    return {"package.json": json.dumps(about, indent=2) + "\n", "server.js": program}


def _packed(files: Mapping[str, str]) -> bytes:
    """As `npm pack` makes it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            facts = tarfile.TarInfo(f"package/{name}")
            facts.size, facts.mtime = len(text.encode()), 1_790_000_000
            archive.addfile(facts, io.BytesIO(text.encode()))
    return made.getvalue()


def _installed(part: tiers.Part, name: str, files: Mapping[str, str]) -> tiers.Part:
    """A kiosk with a program of its own."""
    home, settings = f"/app/{name}", kiosk.settings_of(name)
    own = {f"{home}/{one}": File(text, age=tiers.MONTH) for one, text in files.items()}
    program = replace(part.program, command=f"node {home}/server.js {settings}")
    return replace(part, program=program, files={settings: part.files[settings], **own})


def _greets(service: str, port: int) -> WatchedCheck:
    """The check of the shop: what is written on a voucher is what the guest reads."""
    url = f"http://127.0.0.1:{port}{kiosk.VOUCHERS}/shop-check"
    run = (
        f'text="Für Zoë, $(date +%s)"; curl -sS -m 3 -X PUT --data-binary "$text" {url}; echo; '
        f'read=$(curl -sS -m 3 {url}); echo "read: $read"; test "$read" = "$text" && echo same'
    )
    check = Check(run, Expect(output="(?m)^same"), timeout=8.0)
    return WatchedCheck(f"{service} vouchers are readable", check, service, severity="P1")


def _garbled(probe: Probe, port: int) -> str:
    """What became of a text; empty where it is as it was written."""
    text = f"Zwölf Brötchen à 1 €, {secrets.token_hex(4)}"
    url = f"{kiosk.VOUCHERS}/{secrets.token_hex(6)}"
    probe.http(port, url, "PUT", text.encode())
    got = probe.http(port, url)
    return "" if got.body == text.encode() else f"{text!r} became {got.text[:60]!r}"


def umlauts(pick: Pick) -> Scene:
    """As `garbles`: a program of Node.js is installed from packages, and the new one writes other
    letters than it is given where they are not those of English; its status page stays green."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    home, shelf, log = f"/app/{main}", "/srv/packages", "/var/log/install.log"
    major, minor = pick.size(1, 5), pick.size(1, 30)
    old, new = f"{major}.{minor}.{pick.size(3, 9)}", f"{major}.{minor + 1}.0"
    bad = kiosk.PROGRAM.replace(WRITES, WRITES.replace("body)", f"{pick.choice(GARBLED)})"))
    if bad == kiosk.PROGRAM:
        raise ValueError("the program does not write as it did")
    before, after = _package(main, old, kiosk.PROGRAM), _package(main, new, bad)
    beside = _package(other, "0.9.4", kiosk.PROGRAM)
    kept = kiosk.vouchers(main, pick)
    unpack = f"tar xzf {shelf}/{main}-{{}}.tgz -C {home} --strip-components=1 --no-same-owner"
    entry, again = f"/etc/supervisor/conf.d/{main}.conf", f"supervisorctl restart {main}; sleep 0.6"
    world = tiers.joined(
        [_installed(kiosk.kiosk(main, port, environment={"LC_ALL": "C"}), main, before),
         _installed(kiosk.kiosk(other, other_port), other, beside)],
        files={
            **kept, **kiosk.once(main, pick), **kiosk.once(other, pick),
            f"{shelf}/{main}-{old}.tgz": File(data=_packed(before), age=tiers.MONTH),
            f"{shelf}/{main}-{new}.tgz": File(data=_packed(after), age=3000.0),
            f"{shelf}/{other}-0.9.4.tgz": File(data=_packed(beside), age=9e6),
        },
        setup=[f"echo \"$(date -d '-30 days' '+%b %d %T') {main} {old} unpacked\" >> {log}",
               f"echo \"$(date -d '-2 days' '+%b %d %T') {other} 0.9.4 unpacked\" >> {log}"],
        hostname=pick.host(),
    )  # fmt: skip
    return Scene(
        world=world,
        check=_greets(main, port),
        healthy=lambda probe: said(_garbled(probe, port), kiosk.keeps(probe, port)),
        truth=Truth(
            (main,), ("bad-deploy",), rf"{re.escape(new)}|{home}\b|server\.js|{shelf}",
            rf"{re.escape(new)}|toString\(|encodeURI",
        ),
        inject=lines(
            unpack.format(new), f"echo \"$(date '+%b %d %T') {main} {new} unpacked\" >> {log}",
            again,
        ),
        fix=(unpack.format(old), again),
        wrong={
            "both are restarted": [f"supervisorctl restart {main} {other}; sleep 0.6"],
            "another locale": [f"sed -i 's/LC_ALL=\"C\"/LC_ALL=\"C.UTF-8\"/' {entry}",
                               "supervisorctl update; sleep 0.8"],
            "the new one once more": [unpack.format(new), again],
            "not started anew": [unpack.format(old)],
        },
        stays=(*kept, kiosk.settings_of(main), kiosk.settings_of(other),
               f"{shelf}/{main}-{old}.tgz", f"/app/{other}/server.js"),
        harm=lambda probe: said(kiosk.keeps(probe, other_port), _garbled(probe, other_port)),
    )  # fmt: skip
