"""Certificates that are no longer, or not yet, valid."""

import re
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
    whole = "\n".join(case.settings(service).values())
    for one in case.observed:
        if one.command.startswith(("cat ", "tail -v")) and service in one.command:
            whole += "\n" + "\n".join(one.having(r"ssl_certificate\s|cert"))
    found = dict.fromkeys(_FILE.findall(whole))
    return [path for path in found if not re.search(r"[-_.]key\.|/ca[-_.]", path)]


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
    ]
    fixes = [_installing(case, path, one) for one in good]
    fixes += [(job,) for job in _jobs(case, subject)]
    for at, fix in enumerate(fixes[:3]):
        yield Idea(
            "certificate-expired", service, claim, 0.92 - 0.03 * at, locus, lines(*shown), (),
            (*fix, case.restart(service)), undo_of(path),
            ("see why the job that renews it did not", "alert 14 days before the end"),
        )  # fmt: skip
    if not fixes:
        yield Idea("certificate-expired", service, claim, 0.8, locus, lines(*shown))


def _installing(case: Case, path: str, new: str) -> tuple[str, ...]:
    """A certificate in the place of another, with its key where that lies beside it."""
    fix = put_back(path, new)
    key, new_key = _key_of(case, path), _key_beside(case, new)
    return (*fix, *put_back(key, new_key)) if key and new_key else fix


def _jobs(case: Case, subject: str) -> list[str]:
    """Jobs of cron that are about this certificate."""
    name = subject.rpartition("=")[2].strip()
    found = []
    for lines_of in parse.files(case.text(probes.JOBS)).values():
        for line in lines_of:
            job = _JOB.match(line.strip())
            if job and name and name in job[1]:
                found.append(job[1])
    return found


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}=\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _key_of(case: Case, certificate: str) -> str:
    """The key that is configured with a certificate."""
    for one in case.observed:
        if certificate in one.output and one.command.startswith(("cat ", "tail -v")):
            after = one.output[one.output.index(certificate) :]
            found = re.search(r"(?:ssl_certificate_key|\bkey\s*=)\s*(/[\w./@+-]+)", after)
            if found:
                return found[1]
    return ""


def _key_beside(case: Case, certificate: str) -> str:
    """The key that belongs to a certificate by its name, where one was listed."""
    stem = re.sub(r"\.(crt|pem|cert|cer)$", "", certificate)
    folder = PurePosixPath(certificate).parent
    listed = parse.files(case.text(probes.CERTIFICATES))
    for name in (f"{stem}.key", f"{stem}-key.pem", f"{folder}/privkey.pem", f"{folder}/key.pem"):
        if name in listed:
            return name
    return ""


def _unloaded(case: Case, service: str, path: str, said: str) -> Iterator[Idea]:
    """The file is right: the server has not read it yet."""
    mine = _field(_facts(case, path), "serial")
    name = _field(_facts(case, path), "subject").rpartition("=")[2].strip()
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
