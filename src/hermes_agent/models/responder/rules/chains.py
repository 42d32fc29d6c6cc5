"""Files in which one certificate follows another: one between the root and the site that has run
out, and one that is lacking."""

import re
import shlex
from collections.abc import Iterator
from posixpath import basename, dirname, join, normpath

from msgspec import Struct

from hermes_agent.models.responder.rules.certificate import (
    SPOKEN,
    date,
    doubt,
    facts,
    field,
    paths,
    reading,
    validity,
)
from hermes_agent.models.responder.rules.ideas import Idea, keeping, kept_as, lines, undo_of
from hermes_agent.models.responder.view import parse
from hermes_agent.models.responder.view.case import Case

CHAINS = (
    r"find /etc /srv /opt /var/lib /var/www /root /home /data /app /usr/local /run -xdev -type f "
    r"\( -name '*.crt' -o -name '*.pem' -o -name '*.cert' -o -name '*.cer' -o -name '*.chain' "
    r"-o -name '*.bundle' \) -size -64k -not -name 'ca-certificates.crt' 2>/dev/null | head -n 60 "
    '| while read -r f; do n=$(grep -c -e "-BEGIN CERTIFICATE-" "$f"); '
    'for i in $(seq 1 $((n < 8 ? n : 8))); do echo; echo "==> $f#$i <=="; '
    'c=$(awk -v n="$i" \'/-BEGIN CERTIFICATE-/ {c++} c == n\' "$f" | openssl x509 -noout '
    "-subject -issuer -serial -startdate -enddate -pubkey 2>/dev/null); "
    'echo "$c" | grep -E \'^(subject|issuer|serial|not)\'; echo "public=$(echo "$c" | '
    "grep -vE '^(subject|issuer|serial|not)' | sha256sum | cut -c 1-16)\"; done; done"
)
"""All certificates of all files, one by one, with the keys for which they are."""
_LACKING = re.compile(
    r"local issuer|verify the first certificate|unknown (?:ca|authority)|incomplete|path building"
    r"|unable to get issuer|self.signed certificate in certificate chain",
    re.IGNORECASE,
)
_TRUSTS = re.compile(r"(?:^|[._-])(?:ca|roots?|trust\w*|authorit\w*)(?![a-z])", re.IGNORECASE)
"""How files are called that hold whom a service trusts."""
PREVENT = ("renew what lies between a site and its root, too", "check whole chains, not only ends")


class Part(Struct, frozen=True):
    """A certificate, and where it lies: the how manieth of its file."""

    path: str
    at: int
    text: str

    @property
    def name(self) -> str:
        return field(self.text, "subject")

    @property
    def issuer(self) -> str:
        return field(self.text, "issuer")

    @property
    def key(self) -> str:
        return field(self.text, "public")

    @property
    def ends(self) -> float:
        return date(field(self.text, "notAfter"))


def chains(case: Case) -> Iterator[Idea]:
    symptom = case.symptom if SPOKEN.search(case.symptom) else ""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if SPOKEN.search(x)), "")
        if not (symptom or spoken):
            continue
        for path in paths(case, service):
            if wants := case.missing((CHAINS,)):
                yield Idea("certificate-expired", service, f"what {path} goes on with may have run "
                           "out", 0.5, path, lines(spoken), wants)  # fmt: skip
                return
            own = [one for one in parts(case) if one.path == _led_to(case, path)]
            yield from _ended(case, service, own)
            if _LACKING.search(f"{symptom} {spoken}"):
                yield from _lacking(case, service, own, spoken)


def parts(case: Case) -> list[Part]:
    found = []
    for place, rows in parse.files(case.text(CHAINS)).items():
        path, _, at = place.rpartition("#")
        if at.isdigit() and any(row.startswith("subject=") for row in rows):
            found.append(Part(path, int(at), "\n".join(rows)))
    return found


def _led_to(case: Case, path: str) -> str:
    """Where a certificate really lies, which may be named by a link."""
    seen = set[str]()
    while path not in seen and (link := field(facts(case, path), "link")):
        seen.add(path)
        path = normpath(join(dirname(path), link))
    return path


def _ended(case: Case, service: str, own: list[Part]) -> Iterator[Idea]:
    """One behind the first has run out; one for the same key lies elsewhere, or nowhere."""
    for old in own[1:]:
        state = validity(old.text, case.now)
        again = [one for one in own if (one.name, one.key) == (old.name, old.key)]
        if not state or any(not validity(one.text, case.now) for one in again):
            continue
        same = [x for x in parts(case) if (x.name, x.key) == (old.name, old.key)]
        new = _newest(case, old.path, same)
        shown = [line for line in old.text.splitlines() if line.startswith(("notA", "subject"))]
        yield Idea(
            "certificate-expired", service,
            f"the certificate of {old.name} in {old.path}, behind that of the site, is {state}",
            0.93 - doubt(case, service, own[0].text, heard=True), f"{old.path}: {old.name}",
            lines(*shown[::-1]), (),
            (keeping(old.path), replaced(old, new), *reading(case, service)) if new else (),
            undo_of(old.path), PREVENT,
        )  # fmt: skip


def _lacking(case: Case, service: str, own: list[Part], spoken: str) -> Iterator[Idea]:
    """The last one of a file was issued by one that no root knows, and that is not in the file."""
    last = own[-1] if own else None
    if last is None or last.name == last.issuer or validity(last.text, case.now):
        return
    issues = any(one.issuer == own[0].name for one in parts(case))
    if issues or _TRUSTS.search(basename(last.path)):
        return  # whom a service trusts is for people to say
    issuers = [one for one in parts(case) if one.name == last.issuer and one.path != last.path]
    between = _newest(case, last.path, [one for one in issuers if one.name != one.issuer])
    if between is None or any(one.name == one.issuer for one in issuers):
        return
    yield Idea(
        "certificate-expired", service,
        f"{last.path} does not go on with the certificate of {last.issuer}, which lies in "
        f"{between.path}", 0.86, f"{last.path}: {last.issuer}",
        lines(*between.text.splitlines()[:2], case.symptom, spoken), (),
        (keeping(last.path), f"{{ echo; {taken(between)}; }} >> {shlex.quote(last.path)}",
         *reading(case, service)),
        undo_of(last.path), PREVENT,
    )  # fmt: skip


def _newest(case: Case, path: str, found: list[Part]) -> Part | None:
    """Nothing comes from homes of people into a file that lies elsewhere."""
    valid = [one for one in found if not validity(one.text, case.now)]
    if not path.startswith("/home/"):
        valid = [one for one in valid if not one.path.startswith("/home/")]
    return max(valid, key=lambda one: one.ends, default=None)


def taken(part: Part) -> str:
    """The command that prints one certificate of a file."""
    one = f"/-BEGIN CERTIFICATE-/ {{c++; on = c == {part.at}}} on {{print}} /-END CERTIFICATE-/ "
    return f"awk '{one}{{on = 0}}' {shlex.quote(part.path)}"


def replaced(old: Part, new: Part) -> str:
    """The command that puts a certificate in the place of another; the rest of the file stays, and
    all of it where no copy could be kept."""
    script = (
        f"/-BEGIN CERTIFICATE-/ {{c++; off = c == {old.at}}} !off {{print}} "
        '/-END CERTIFICATE-/ {if (off) print ENVIRON["NEW"]; off = 0}'
    )
    kept, own = shlex.quote(kept_as(old.path)), shlex.quote(old.path)
    return f"cmp -s {kept} {own} && NEW=\"$({taken(new)})\" awk '{script}' {kept} > {own}"


RULES = (chains,)
