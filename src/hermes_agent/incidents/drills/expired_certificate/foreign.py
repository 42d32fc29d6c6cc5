"""A root that has run out."""

import re
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermes_agent.incidents.drills import tiers, vhosts
from hermes_agent.incidents.drills.authority import authority, issued
from hermes_agent.incidents.drills.box import Box
from hermes_agent.incidents.drills.expired_certificate.practice_quarter import DAY, _pairs
from hermes_agent.incidents.drills.needs import find
from hermes_agent.incidents.drills.pick import Pick
from hermes_agent.incidents.drills.probe import Probe
from hermes_agent.incidents.drills.scene import Scene, said
from hermes_agent.incidents.drills.world import File, Truth

ROOT = """[ca]
default_ca = own
[own]
new_certs_dir = .
database = index
serial = serial
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


def _earlier_root(end: datetime) -> str:
    """The certificate that the authority had for its key before the one of today."""
    openssl = find("openssl") or "openssl"
    begin = end - 3650 * DAY
    name = ["-subj", "/CN=Internal Authority", "-addext", "basicConstraints=critical,CA:TRUE"]
    dates = ["-startdate", f"{begin:%Y%m%d%H%M%SZ}", "-enddate", f"{end:%Y%m%d%H%M%SZ}"]
    with tempfile.TemporaryDirectory() as folder:
        texts = {"key": authority()[1], "settings": ROOT, "index": "", "serial": "0A11\n"}
        for file, text in texts.items():
            Path(folder, file).write_text(text)
        for words in (
            ["req", "-new", "-key", "key", "-out", "csr", *name],
            ["ca", "-batch", "-notext", "-selfsign", "-config", "settings", "-keyfile", "key",
             "-in", "csr", "-out", "pem", *dates],
        ):  # fmt: skip
            subprocess.run([openssl, *words], cwd=folder, capture_output=True, check=True)
        return Path(folder, "pem").read_text()


def _asked(probe: Probe, conf: str) -> str:
    """Why it no longer looks at whom it asks; empty when it does."""
    text = probe.text(conf)
    loose = re.search(r"(?im)^\s*verify\s*=\s*(no|off|false|0)", text)
    safe = re.search(r"(?m)^\s*url\s*=\s*https://", text) and "ca_bundle" in text
    return "" if safe and not loose else f"{conf} does without a look at the certificate"


def old_root(pick: Pick) -> Scene:
    """Whoever asks trusts a root that has run out; what is served is good."""
    (main, store, other), ports = pick.services(3), pick.ports(4)
    port, tls_port, inner, other_port = ports
    host, now = f"{store}.{pick.choice(('corp.example', 'int.example'))}", datetime.now(UTC)
    bundle = f"{vhosts.TOP}/{main}/conf/{pick.choice(('ca-bundle.crt', 'trusted.pem', 'ca.pem'))}"
    newer, keys = f"/etc/ssl/certs/company-root-{pick.choice(('g2', 'r2', '2026'))}.pem", "/etc/ssl"
    hours, pem = timedelta(hours=pick.size(2, 60)), authority()[0]
    kept, conf = vhosts.pages(store, pick), vhosts.conf_of(main)
    site = f"""server {{
    listen 127.0.0.1:{tls_port} ssl;
    server_name {host};
    ssl_certificate {keys}/{host}.crt;
    ssl_certificate_key {keys}/{host}.key;
    location / {{ proxy_pass http://127.0.0.1:{inner}; }}
}}
"""
    asks = {"kind": "remote", "url": f"https://{host}:{tls_port}", "ca_bundle": bundle}
    world = tiers.joined(
        [vhosts.site(main, port, asks, needs=("nginx", store)), vhosts.site(store, inner),
         vhosts.site(other, other_port), tiers.nginx({store: site}, [store], tls_port)],
        files={
            **kept, **vhosts.months_ago(main, pick), **vhosts.months_ago(store, pick),
            **_pairs(keys, {host: issued(host, now, -20 * DAY, 70 * DAY)}),
            bundle: File(_earlier_root(now + 5 * DAY), age=9e7),
            newer: File(pem, age=tiers.MONTH),
        },
        hostname=pick.host(),
        hosts={host: "127.0.0.1"},
    )  # fmt: skip

    def inject(box: Box) -> None:
        box.write(bundle, _earlier_root(datetime.now(UTC) - hours))
        box.run(f"touch -d '-3 years' {bundle}; supervisorctl restart {main}; sleep 0.6")

    return Scene(
        world=world,
        check=vhosts.sound(main, port),
        healthy=lambda probe: said(vhosts.writes(probe, port)),
        truth=Truth(
            (main,), ("certificate-expired",),
            rf"{bundle}|{bundle.rpartition('/')[2]}|ca_bundle|Internal Authority|[Rr]oot c",
            r"(?i)certificate has expired|not ?after|certificate will expire|expire date",
        ),
        inject=inject,
        fix=(f"cp {newer} {bundle}", f"supervisorctl restart {main}; sleep 0.6"),
        wrong={
            "all are restarted": [f"supervisorctl restart {main} {store} nginx; sleep 0.6"],
            "nobody looks at it": [f"sed -i 's/^ca_bundle/verify = no\\n&/' {conf}",
                                   f"supervisorctl restart {main}; sleep 0.6"],
            "it goes past nginx": [f"sed -i 's#^url = .*#url = http://127.0.0.1:{inner}#' {conf}",
                                   f"supervisorctl restart {main}; sleep 0.6"],
        },
        stays=(*kept, newer, f"{keys}/{host}.crt", tiers.site_file(store), vhosts.conf_of(store),
               f"{vhosts.TOP}/{main}/app/folio.py"),
        harm=lambda probe: said(vhosts.writes(probe, other_port), _asked(probe, conf)),
    )  # fmt: skip
