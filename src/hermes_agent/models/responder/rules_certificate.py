"""Certificates that are no longer, or not yet, valid."""

import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath

from hermes_agent.models.responder import parse, probes
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import Idea, lines, put_back, undo_of

_SPOKEN = re.compile(r"certificate|\bssl\b|\btls\b|CERT_|x509|handshake", re.IGNORECASE)
_DATE = re.compile(r"^(notBefore|notAfter)=(.+)$", re.MULTILINE)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_FILE = re.compile(r"(/[\w./@+-]+\.(?:crt|pem|cert|cer))\b")
_RENEWS = re.compile(r"renew|certbot|acme|lego|dehydrated|certificate", re.IGNORECASE)
TOOLS = (
    r"find /opt /srv /etc /usr/local/bin /usr/local/sbin /root /home -xdev -maxdepth 4 -type f "
    r"-perm -u+x \( -name '*renew*' -o -name '*cert*' -o -name '*issue*' -o -name '*acme*' "
    r"-o -name '*sign*' \) 2>/dev/null | head -n 6 | while read -r f; do "
    'echo "==> $f <=="; head -n 30 "$f"; done'
)
"""Scripts that may make certificates."""
_JOB = re.compile(r"^(?:\S+\s+){5}(?:[a-z_][\w-]*\s+)?(/.+)$")


def certificate(case: Case) -> Iterator[Idea]:
    symptom = case.symptom if _SPOKEN.search(case.symptom) else ""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if _SPOKEN.search(x)), "")
        definition = case.definitions.get(service)
        unread = case.missing((probes.SITES, probes.CERTIFICATES, probes.JOBS))
        if definition is not None and "nginx" in definition.command and symptom and unread:
            yield Idea(
                "certificate-expired", service, f"{service} may serve one that is not valid", 0.6,
                service, (), unread,
            )  # fmt: skip
        for path in _paths(case, service):
            if service not in case.programs and any(path in _paths(case, x) for x in case.programs):
                continue
            wants = case.missing((probes.CERTIFICATES, probes.JOBS))
            dates = _facts(case, path)
            state = validity(dates, case.now)
            if wants:
                yield Idea(
                    "certificate-expired", service, f"{path} may not be valid",
                    0.35 + 0.3 * bool(symptom or spoken), path, lines(spoken), wants,
                )  # fmt: skip
            elif state:
                yield from _renewing(case, service, path, state)
            elif symptom or spoken:
                yield from _unloaded(case, service, path, spoken)


def _facts(case: Case, path: str) -> str:
    """What openssl tells of a certificate."""
    return "\n".join(parse.files(case.text(probes.CERTIFICATES)).get(path, []))


def _paths(case: Case, service: str) -> list[str]:
    """Certificates that the configuration of a service names."""
    listed = parse.files(case.text(probes.CERTIFICATES))
    found = [path for path in case.named(service) if path in listed or _FILE.fullmatch(path)]
    whole = "\n".join(case.settings(service).values())
    for one in case.observed:
        if one.command.startswith(("cat ", "tail -v")) and service in one.command:
            whole += "\n" + "\n".join(one.having(r"ssl_certificate\s|cert"))
    found += _FILE.findall(whole)
    return [
        path
        for path in dict.fromkeys(found)
        if not re.search(r"[-_.]key\.", path)
        and (path not in listed or "subject=" in "\n".join(listed[path]))
    ]


def validity(text: str, now: float) -> str:
    """What is wrong with the dates of a certificate; empty where nothing is."""
    dates = {kind: date(value) for kind, value in _DATE.findall(text)}
    if not now or "notAfter" not in dates:
        return ""
    if dates["notAfter"] < now:
        return "expired"
    return "not yet valid" if dates.get("notBefore", 0.0) > now else ""


def date(text: str) -> float:
    """As openssl prints it."""
    found = re.match(r"(\w{3})\s+(\d+) (\d\d):(\d\d):(\d\d) (\d{4})", text)
    if not found or found[1] not in _MONTHS:
        return 0.0
    month, day, hour, minute, second, year = (
        _MONTHS.index(found[1]) + 1, *(int(part) for part in found.groups()[1:]),
    )  # fmt: skip
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _renewing(case: Case, service: str, path: str, state: str) -> Iterator[Idea]:
    """Put a valid one of the same name in its place, or have the machine's own job make one."""
    mine = _facts(case, path)
    shown = [line for line in mine.splitlines() if line.startswith("not")]
    shown = shown[::-1] if state == "expired" else shown
    locus = f"{path} serial {_field(mine, 'serial')}"
    claim = f"the certificate {path} of {service} is {state}"
    subject = _field(mine, "subject")
    good = [
        one
        for one in parse.files(case.text(probes.CERTIFICATES))
        if one != path
        and (text := _facts(case, one))
        and _field(text, "subject") == subject
        and _field(text, "issuer") == _field(mine, "issuer")
        and not validity(text, case.now)
        and (_key_beside(case, one) or _field(text, "public") == _field(mine, "public"))
    ]
    fixes = [_installing(case, service, path, one) for one in good]
    fixes += [(job,) for job in _jobs(case, subject)]
    wants = () if fixes else case.missing((TOOLS,))
    fixes += [(tool,) for tool in _tools(case, subject)] if not fixes else []
    for at, fix in enumerate(fixes[:3]):
        yield Idea(
            "certificate-expired", service, claim, 0.92 - 0.03 * at, locus, lines(*shown), (),
            (*fix, case.restart(service)), undo_of(path),
            ("see why the job that renews it did not", "alert 14 days before the end"),
        )  # fmt: skip
    if not fixes:
        yield Idea("certificate-expired", service, claim, 0.8, locus, lines(*shown), wants)


def _installing(case: Case, service: str, path: str, new: str) -> tuple[str, ...]:
    """A certificate in the place of another, with its key where that is another one, too."""
    key, new_key = _key_of(case, service, path), _key_beside(case, new)
    same = _field(_facts(case, path), "public") == _field(_facts(case, new), "public")
    if key == path and new_key and new_key != new:
        aside = put_back(path, new)[0]
        both = " ".join(shlex.quote(one) for one in (new, new_key))
        return aside, f"cat {both} > {shlex.quote(path)}"
    fix = put_back(path, new)
    if same or not key or not new_key or key == path:
        return fix
    return (*fix, *put_back(key, new_key))


def _jobs(case: Case, subject: str) -> list[str]:
    """Jobs of cron that are about this certificate, and those that renew all."""
    name = subject.rpartition("=")[2].strip()
    found, others = [], []
    for lines_of in parse.files(case.text(probes.JOBS)).values():
        for line in lines_of:
            job = _JOB.match(line.strip())
            if job and name and name in job[1]:
                found.append(job[1])
            elif job and _RENEWS.search(job[1]) and "." not in job[1].rpartition(" ")[2][1:-1]:
                others.append(job[1])
    return found or others


def _tools(case: Case, subject: str) -> list[str]:
    """Scripts of the machine that make certificates."""
    name = subject.rpartition("=")[2].strip()
    found = []
    for path, rows in parse.files(case.text(TOOLS)).items():
        text = "\n".join(rows)
        if rows and rows[0].startswith("#!") and re.search(r"openssl|certbot|acme|step ca", text):
            takes = re.search(r"\$\{?1|sys\.argv|\$@", text)
            found.append(f"{shlex.quote(path)} {shlex.quote(name)}" if takes else shlex.quote(path))
    return found


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}=\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _key_of(case: Case, service: str, certificate: str) -> str:
    """The key that is used with a certificate: one that its service names, or that lies beside."""
    listed = parse.files(case.text(probes.CERTIFICATES))
    public = _field(_facts(case, certificate), "public")
    fitting = [
        path for path, rows in listed.items() if public and _field("\n".join(rows), "key") == public
    ]
    named = [*case.named(service), *_beside(certificate)]
    if certificate in fitting:
        return certificate
    for one in case.observed:
        if certificate in one.output and one.command.startswith(("cat ", "tail -v")):
            after = one.output[one.output.index(certificate) :]
            found = re.search(r"(?:ssl_certificate_key|\bkey\s*=)\s*(/[\w./@+-]+)", after)
            if found:
                return found[1]
    folder = PurePosixPath(certificate).parent
    near = [path for path in fitting if PurePosixPath(path).parent == folder]
    return next((path for path in [*named, *near] if path in fitting), "")


def _key_beside(case: Case, certificate: str) -> str:
    """The key that belongs to a certificate: by what it holds, or by its name."""
    listed = parse.files(case.text(probes.CERTIFICATES))
    public = _field(_facts(case, certificate), "public")
    for path, rows in listed.items():
        if public and _field("\n".join(rows), "key") == public:
            return path
    return "" if public else next((name for name in _beside(certificate) if name in listed), "")


def _beside(certificate: str) -> list[str]:
    stem = re.sub(r"\.(crt|pem|cert|cer)$", "", certificate)
    folder = PurePosixPath(certificate).parent
    return [f"{stem}.key", f"{stem}-key.pem", f"{folder}/privkey.pem", f"{folder}/key.pem"]


def _unloaded(case: Case, service: str, path: str, said: str) -> Iterator[Idea]:
    """The file is right: the server has not read it yet."""
    mine = _field(_facts(case, path), "serial")
    name = _field(_facts(case, path), "subject").rpartition("=")[2].strip()
    if _field(_facts(case, path), "subject") == _field(_facts(case, path), "issuer"):
        return
    ports = case.ports(service)[:6]
    wants = case.missing(probes.served(port, name) for port in ports)
    for port in ports:
        text = case.text(probes.served(port, name))
        serial = _field(text, "serial")
        if validity(text, case.now) or (serial and serial != mine and name in text):
            yield Idea(
                "certificate-expired", service,
                f"{service} still serves an old certificate; {path} is valid and was not loaded",
                0.9, f"{path} served serial {serial}", lines(*text.splitlines()[::-1], said),
                wants, (case.restart(service),), "",
                ("reload the server when a certificate was renewed",),
            )  # fmt: skip
            return
    if wants:
        yield Idea(
            "certificate-expired", service, f"{service} may serve another one than {path}", 0.5,
            path, lines(said), wants,
        )  # fmt: skip


RULES = (certificate,)
