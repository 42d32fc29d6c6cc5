"""Certificates that have run out, in other houses."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hermes_agent.incidents.drills import kiosk, tiers, vhosts
from hermes_agent.incidents.drills.authority import authority, issued
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.expired_certificate.practice_quarter import _ends, _pairs
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

DAY = timedelta(days=1)
FETCHED = "/var/log/certfetch.log"


def _shut(probe: Probe, *paths: str) -> list[str]:
    """Keys that others may read."""
    facts = {path: probe.stat(path) for path in paths}
    return [f"{path} is open to others" for path, stat in facts.items()
            if stat and stat.kind == "file" and stat.mode & 0o077]  # fmt: skip


def _folder(place: str, pair: tuple[str, str], age: float) -> dict[str, File]:
    return {f"{place}/tls.crt": File(pair[0], age=age),
            f"{place}/tls.key": File(pair[1], mode=0o600, age=age)}  # fmt: skip


def _fetched(top: str, host: str, days: tuple[str, str], over: timedelta) -> Callable[[Box], None]:
    """The old pair ran out; the new one came a week before, and its link went astray."""

    def inject(box: Box) -> None:
        now = datetime.now(UTC)
        spans = (-over - 90 * DAY, -over), (-over - 8 * DAY, 82 * DAY - over)
        for day, span in zip(days, spans, strict=True):
            pair = issued(host, now, *span)
            box.write(f"{top}/{day}/tls.crt", pair[0])
            box.write(f"{top}/{day}/tls.key", pair[1], 0o600)
            box.run(f"touch -d {day}T04:00:07Z {top}/{day}/tls.*")
        box.run(f"cd {top} && ln -sf {days[1]} current; touch -hd {days[1]}T04:00:07Z {days[0]} "
                f"{days[0]}/{days[1]} {days[1]}")  # fmt: skip
        box.run(f"echo '{days[1]} 04:00:07 {host}: wrote {days[1]}/tls.crt {days[1]}/tls.key; "
                f"ln -sf {days[1]} current; told the service' >> {FETCHED}")  # fmt: skip
        box.run("supervisorctl signal HUP all; sleep 0.5", check=False)

    return inject


def dated_folder(pick: Pick) -> Scene:
    """As `live-link`: a program of Node.js reads its pair through a link to a folder by date; the
    new folder is there, but `ln` without `-n` put the link into the old one."""
    (main, other), (port, other_port) = pick.services(2), pick.ports(2)
    zone, pem = pick.choice(("tills.example", "shop.example")), authority()[0]
    host, beside, now = f"{main}.{zone}", f"{other}.{zone}", datetime.now(UTC)
    over, base = timedelta(hours=pick.size(2, 90)), pick.choice(("/etc/pki/tls", "/opt/tls"))
    top, third, trusted = f"{base}/{host}", f"{base}/{beside}", "/etc/ssl/certs/company.pem"
    old, new = (f"{now - over - ago * DAY:%Y-%m-%d}" for ago in (90, 8))
    tls = {one: (f"{base}/{one}/current/tls.crt", f"{base}/{one}/current/tls.key")
           for one in (host, beside)}  # fmt: skip
    kept, their = kiosk.vouchers(main, pick), f"{now - 84 * DAY:%Y-%m-%d}"
    world = tiers.joined(
        [kiosk.kiosk(main, port, tls=tls[host]), kiosk.kiosk(other, other_port, tls=tls[beside])],
        files={
            **kept, **kiosk.once(main, pick), **kiosk.once(other, pick),
            **_folder(f"{top}/{old}", issued(host, now, -80 * DAY, 10 * DAY), 7e6),
            **_folder(f"{third}/{their}", issued(beside, now, -84 * DAY, 6 * DAY), 7e6),
            **_folder(f"{base}/gifts.{zone}/2025-02-11",
                      issued(f"gifts.{zone}", now, -500 * DAY, -410 * DAY), 4e7),
            f"{top}/current": File(link=old), f"{third}/current": File(link=their),
            trusted: File(pem, age=9e7),
            FETCHED: File(f"{old} 04:00:06 {host}: wrote {old}/tls.crt {old}/tls.key\n"
                          f"{their} 04:00:05 {beside}: wrote {their}/tls.crt {their}/tls.key\n"),
        },
        hostname=pick.host(),
        hosts={host: "127.0.0.1", beside: "127.0.0.1"},
    )  # fmt: skip
    again = f"supervisorctl signal HUP {main}; sleep 0.5"
    own = f"-keyout {top}/{old}/tls.key -out {top}/{old}/tls.crt -subj /CN={host}"
    return Scene(
        world=world,
        check=kiosk.status(main, f"https://{host}:{port}", f"--cacert {trusted}"),
        healthy=lambda probe: said(
            kiosk.keeps(probe, port, ca=pem, name=host), _ends(probe, port, host)
        ),
        truth=Truth(
            (main,), ("certificate-expired",), rf"{top}\b|{base}|tls\.crt|{host}(?!:\d)|\b{old}",
            r"(?i)has expired|not ?after|expire date|will expire|certificate expired",
        ),
        inject=_fetched(top, host, (old, new), over),
        fix=(f"ln -sfn {new} {top}/current", again),
        wrong={
            "both are restarted": [f"supervisorctl restart {main} {other}; sleep 0.6"],
            "the link once more": [f"cd {top} && ln -sf {new} current", again],
            "signed by itself": [f"openssl req -x509 -newkey rsa:2048 -nodes {own}", again],
            "not read anew": [f"ln -sfn {new} {top}/current"],
            "the certificate without its key": [f"cp {top}/{new}/tls.crt {top}/{old}/tls.crt",
                                                f"supervisorctl restart {main}; sleep 0.6"],
        },
        stays=(*kept, trusted, f"{third}/{their}/tls.crt", kiosk.CODE, kiosk.settings_of(other)),
        harm=lambda probe: said(
            kiosk.keeps(probe, other_port, ca=pem, name=beside),
            *_shut(probe, *(f"{top}/{day}/tls.key" for day in (old, new))),
        ),
    )  # fmt: skip


PKI = "/opt/pki"
RENEW = """#!/bin/bash
# renew HOST KEY OUT [DAYS]: another certificate of the company for a key that a host has, into OUT.
# Whoever reads OUT has to be told.
set -euo pipefail
umask 022
top=$(cd "$(dirname "$0")/.." && pwd)
wish=$(mktemp)
openssl req -new -key "$2" -subj "/CN=$1" -addext "subjectAltName=DNS:$1" -out "$wish"
openssl x509 -req -in "$wish" -CA "$top/root.crt" -CAkey "$top/private/root.key" \\
    -set_serial "$(date +%s%N)" -copy_extensions copy -days "${4:-120}" -out "$3.part"
mv "$3.part" "$3"
rm "$wish"
echo "$(date -u +%F) $1 ${4:-120} days $3" >> "$top/issued.log"
"""


def _pki(log: str) -> dict[str, File]:
    """Where certificates come from."""
    pem, key = authority()
    return {
        f"{PKI}/root.crt": File(pem, age=9e7),
        f"{PKI}/private/root.key": File(key, mode=0o600, age=9e7),
        f"{PKI}/bin/renew": File(RENEW, mode=0o755, age=9e6),
        f"{PKI}/issued.log": File(log, age=8e6),
    }


def _tls_site(port: int, host: str, inner: int, keys: str) -> str:
    return f"""server {{
    listen 127.0.0.1:{port} ssl;
    server_name {host};
    ssl_certificate     {keys}/{host}.crt;
    ssl_certificate_key {keys}/{host}.key;
    ssl_protocols TLSv1.2 TLSv1.3;

    location /pages/ {{
        proxy_pass http://127.0.0.1:{inner};
    }}
}}
"""


def _lapsed(stem: str, host: str, over: timedelta) -> Callable[[Box], None]:
    """What nginx shows ran out."""

    def inject(box: Box) -> None:
        pair = issued(host, datetime.now(UTC), -over - 120 * DAY, -over)
        box.write(f"{stem}.crt", pair[0])
        box.write(f"{stem}.key", pair[1], 0o600)
        box.run(f"touch -d '-120 days' {stem}.crt {stem}.key; nginx -s reload; sleep 0.5")

    return inject


def _evaded(main: str, stem: str, host: str, inner: int) -> dict[str, list[str]]:
    """What people do instead."""
    conf, anew = vhosts.conf_of(main), f"supervisorctl restart {main}; sleep 0.6"
    own = f"-key {stem}.key -out {stem}.crt -subj /CN={host} -addext subjectAltName=DNS:{host}"
    return {
        "nobody looks at it": [f"sed -i 's/^ca_bundle/verify = no\\n&/' {conf}", anew],
        "it goes past nginx": [
            f"sed -i 's#^url = .*#url = http://127.0.0.1:{inner}#' {conf}",
            anew,
        ],
        "signed by itself": [f"openssl req -x509 {own}", "nginx -s reload; sleep 0.5"],
    }


def partner(pick: Pick) -> Scene:
    """As `behind-nginx`: here nginx shows the certificate that ran out, to a site with INI settings
    which has its pages from another and looks at it; a script renews for the same key."""
    (main, store, other), ports = pick.services(3), pick.ports(5)
    port, tls_port, inner, other_port, other_tls = ports
    zone, now, pem = (
        pick.choice(("intra.example", "backend.example")),
        datetime.now(UTC),
        authority()[0],
    )
    host, beside = f"{store}.{zone}", f"{other}.{zone}"
    keys = pick.choice(("/etc/nginx/tls", "/etc/ssl/private", "/srv/vhosts/.certs"))
    stem, bundle = f"{keys}/{host}", f"{vhosts.TOP}/{main}/conf/partner-ca.pem"
    over, kept, conf = (
        timedelta(hours=pick.size(2, 100)),
        vhosts.pages(store, pick),
        vhosts.conf_of(main),
    )
    asks = {"kind": "remote", "url": f"https://{host}:{tls_port}", "ca_bundle": bundle}
    pairs = {host: issued(host, now, -110 * DAY, 10 * DAY),
             beside: issued(beside, now, -112 * DAY, 8 * DAY)}  # fmt: skip
    sites = {store: _tls_site(tls_port, host, inner, keys),
             other: _tls_site(other_tls, beside, other_port, keys)}  # fmt: skip
    world = tiers.joined(
        [vhosts.site(main, port, asks, needs=("nginx", store)), vhosts.site(store, inner),
         vhosts.site(other, other_port), tiers.nginx(sites, [store, other], tls_port)],
        files={
            **kept, **vhosts.months_ago(main, pick), **vhosts.months_ago(store, pick),
            **_pairs(keys, pairs),
            **_pki("".join(f"{now - ago * DAY:%F} {one} 120 days\n"
                           for ago, one in ((112, beside), (110, host)))),
            bundle: File(pem, age=9e7),
        },
        hostname=pick.host(),
        hosts={host: "127.0.0.1", beside: "127.0.0.1"},
    )  # fmt: skip
    renew = f"{PKI}/bin/renew {host} {stem}.key {stem}.crt"
    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(
            vhosts.writes(probe, port), vhosts.writes(probe, tls_port, ca=pem, name=host),
            _ends(probe, tls_port, host),
        ),
        truth=Truth(
            ("nginx", store), ("certificate-expired",), rf"{stem}|{host}|{keys}",
            r"(?i)certificate has expired|not ?after|expire date|certificate will expire",
        ),
        inject=_lapsed(stem, host, over),
        fix=(renew, "nginx -t && nginx -s reload", "sleep 0.5"),
        wrong={
            "all are restarted": [f"supervisorctl restart {main} {store} nginx; sleep 0.8"],
            **_evaded(main, stem, host, inner), "made and not read": [renew],
        },
        stays=(*kept, conf, bundle, vhosts.conf_of(store), vhosts.conf_of(other), f"{PKI}/root.crt",
               f"{PKI}/private/root.key", f"{keys}/{beside}.crt"),
        harm=lambda probe: said(
            vhosts.writes(probe, other_tls, ca=pem, name=beside), *_shut(probe, f"{stem}.key")
        ),
    )  # fmt: skip
