"""Scripts of a machine that make certificates, and how they are called: as somebody called them
before, as they say themselves, or as their variables are named."""

import re
import shlex
from pathlib import PurePosixPath

from msgspec import Struct

from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

TOOLS = (
    r"find /opt /srv /etc /usr/local/bin /usr/local/sbin /usr/local/lib /root /home /data /app "
    r"-xdev -maxdepth 4 -type f -perm -u+x ! -perm -o+w \( ! -path '/home/*' -o -user root \) "
    r"\( -iname '*renew*' -o -iname '*cert*' "
    r"-o -iname '*issue*' -o -iname '*acme*' -o -iname '*sign*' -o -iname '*tls*' -o -iname '*ssl*'"
    r" -o -iname '*pki*' -o -iname '*mkca*' -o -iname 'ca' -o -iname 'ca[-._]*' "
    r"-o -iname '*[-_]ca' -o -iname '*[-_]ca.*' \) 2>/dev/null | head -n 8 | "
    'while read -r f; do echo; echo "==> $f <=="; head -n 60 "$f"; done'
)
"""Scripts that may make certificates."""
_MAKES = re.compile(
    r"openssl[\"', ]+(?:req|x509|ca)\b|certbot|acme|step ca|cfssl|lego|CertificateBuilder|certtool"
    r"|mkcert|easyrsa|keytool"
)
_ROLES = (
    ("key", re.compile(r"key", re.IGNORECASE)),
    ("days", re.compile(r"days?|valid|lifetime", re.IGNORECASE)),
    (
        "folder",
        re.compile(r"dir|folder|dest|target|\bout|where|into|place", re.IGNORECASE),
    ),
    ("path", re.compile(r"file|cert|crt|pem|path", re.IGNORECASE)),
    ("name", re.compile(r"host|name|domain|cn\b|fqdn|subject|site|server|service", re.IGNORECASE)),
)
"""What a word for an argument stands for."""


class Wanted(Struct, frozen=True):
    """The certificate that is to be made."""

    name: str
    path: str
    key: str = ""

    @property
    def values(self) -> dict[str, str]:
        folder = str(PurePosixPath(self.path).parent)
        key = self.key or f"{PurePosixPath(self.path).with_suffix('.key')}"
        return {
            "name": self.name, "folder": folder, "path": self.path, "key": key, "days": "90",
        }  # fmt: skip


def calls(case: Case, wanted: Wanted) -> tuple[list[str], tuple[str, ...]]:
    """Commands that make a certificate anew, the likeliest first, and what else is to be looked
    at."""
    if wants := case.missing((TOOLS,)):
        return [], wants
    found: list[str] = []
    for path, rows in parse.files(case.text(TOOLS)).items():
        text = "\n".join(rows)
        if not rows or not rows[0].startswith("#!") or not _MAKES.search(text):
            continue
        tool = shlex.quote(path)
        if not re.search(r"\$\{?[1-9@*]|sys\.argv|argparse|\bgetopts\b", text):
            found.append(tool)
            continue
        seen = probes.mentions(PurePosixPath(path).name)
        if wants := case.missing((seen,)):
            return [], wants
        found += _called_before(case.text(seen), path, wanted)
        given = arguments(text, PurePosixPath(path).name, wanted)
        found += [f"{tool} {given}"] if given else []
    return list(dict.fromkeys(found)), ()


def _called_before(text: str, path: str, wanted: Wanted) -> list[str]:
    """How somebody called it for the same certificate: in a job, a remark, or a guide."""
    name, folder = PurePosixPath(path).name, wanted.values["folder"]
    found = []
    for line in text.splitlines():
        place, _, rest = line.partition(":")
        row = rest.partition(":")[2]
        call = re.search(rf"(?:/[\w./-]*/)?{re.escape(name)}((?: +[\w./:@=+-]+)+)", row)
        if call is None or place == path:
            continue
        words = call[1].split()
        if wanted.name in words or folder in [word.rstrip("/") for word in words]:
            found.append(" ".join(shlex.quote(word) for word in (path, *words)))
    return found


def arguments(text: str, tool: str, wanted: Wanted) -> str:
    """What a script is to be given, by what it says of its use or how it names what it is given;
    empty where that is not clear."""
    values = wanted.values
    told = re.search(
        rf"(?i)(?:usage:?\s+)?(?:\S*/)?(?:{re.escape(tool)}|\$0|%\(prog\)s)"
        r"((?:[ \t]+(?:--?[\w-]+[ =])?(?:<[\w ./-]+>|\[[\w ./-]+\]|\{[\w|]+\}|[A-Z][A-Z_-]*)"
        r"(?:\.\.\.)?)+)",
        text,
    )
    if told:
        words = re.findall(r"(--?[\w-]+[ =])?(<[^>]+>|\[[^\]]+\]|\{[^}]+\}|[A-Z][A-Z_-]*)", told[1])
        return _given([(flag.strip(" ="), word.strip("<>{}")) for flag, word in words], values)
    named = re.findall(r"^\s*(?:local |readonly )?(\w+)=[\"']?\$\{?(\d)", text, re.MULTILINE)
    if named:
        ordered = sorted({int(number): name for name, number in named}.items())
        return _given([("", name) for _, name in ordered], values)
    added = re.findall(r"add_argument\(\s*[\"'](-{0,2}[\w-]+)[\"']([^)]*)\)", text)
    if added:
        pairs = [
            (name if name.startswith("-") else "", name.lstrip("-"))
            for name, rest in added
            if not name.startswith("-") or "required=True" in rest
        ]
        return _given(pairs, values)
    return shlex.quote(wanted.name) if not re.search(r"\$\{?2", text) else ""


def _given(pairs: list[tuple[str, str]], values: dict[str, str]) -> str:
    found = []
    for flag, word in pairs:
        if word.startswith("["):
            continue
        role = next((role for role, pattern in _ROLES if pattern.search(word)), "")
        if not role:
            return ""
        found += [flag, shlex.quote(values[role])] if flag else [shlex.quote(values[role])]
    return " ".join(found)
