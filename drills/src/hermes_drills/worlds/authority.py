"""A certificate authority of a world. Its key is made once on a machine and kept in the cache: what
is checked from outside trusts that one, whatever is done in the box."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from hermes_drills.errors import DrillError
from hermes_drills.needs import find

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_SETTINGS = """\
[ca]
default_ca = lab
[lab]
new_certs_dir = .
database = index
serial = serial
default_md = sha256
policy = any
copy_extensions = copy
x509_extensions = leaf
[leaf]
basicConstraints = CA:FALSE
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[any]
commonName = supplied
"""


def authority() -> tuple[str, str]:
    """Its certificate and its key."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hermes-drills"
    kept = cache / "authority-2.pem"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _openssl(
                ["req", "-x509", *KEY, "-keyout", "key", "-out", "pem", "-days", "7300",
                 "-subj", "/CN=Internal Authority",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
                folder,
            )  # fmt: skip
            both = Path(folder) / "both"
            both.write_text("".join((Path(folder) / n).read_text() for n in ("pem", "key")))
            both.chmod(0o600)
            both.replace(kept)
    pem, _, key = kept.read_text().partition("-----BEGIN PRIVATE")
    return pem, f"-----BEGIN PRIVATE{key}"


def issued(host: str, now: datetime, first: timedelta, last: timedelta) -> tuple[str, str]:
    """A certificate for a host and its key, valid between two moments from now."""
    pem, key = authority()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        texts = {"ca.pem": pem, "ca.key": key, "settings": _SETTINGS, "index": "", "serial": ""}
        texts["serial"] = f"{int(now.timestamp() * 1000):016X}\n"
        for name, text in texts.items():
            (place / name).write_text(text)
        _openssl(
            ["req", *KEY, "-keyout", "key", "-out", "csr", "-subj", f"/CN={host}",
             "-addext", f"subjectAltName=DNS:{host}"],
            folder,
        )  # fmt: skip
        begin, end = (f"{now + shift:%Y%m%d%H%M%SZ}" for shift in (first, last))
        _openssl(
            ["ca", "-batch", "-notext", "-config", "settings", "-cert", "ca.pem", "-keyfile",
             "ca.key", "-in", "csr", "-out", "pem", "-startdate", begin, "-enddate", end],
            folder,
        )  # fmt: skip
        return (place / "pem").read_text(), (place / "key").read_text()


def _openssl(words: Sequence[str], folder: str) -> None:
    program = find("openssl")
    if program is None:
        raise DrillError("openssl is not installed", "apt-get install openssl")
    done = subprocess.run(
        [program, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DrillError(f"openssl {words[0]}: {done.stderr.strip()[-300:]}")
