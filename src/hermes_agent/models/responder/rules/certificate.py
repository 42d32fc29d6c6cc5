"""Certificates that are no longer, or not yet, valid."""

import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

from msgspec.structs import replace

from hermes_agent.models.responder.rules import issuing
from hermes_agent.models.responder.rules.config import is_near
from hermes_agent.models.responder.rules.ideas import KEEP, Idea, lines, put_back, undo_of
from hermes_agent.models.responder.rules.issuing import Wanted
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case, paths_in

SPOKEN = re.compile(r"certificate|\bssl\b|\btls\b|CERT_|x509|handshake", re.IGNORECASE)
_DATE = re.compile(r"^(notBefore|notAfter)=(.+)$", re.MULTILINE)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_FILE = re.compile(
    r"(/[\w./@+-]+(?:\.(?:crt|pem|cert|cer|bundle|x509)|/(?:cert|certificate|fullchain)))(?![\w./-])"
)
_RENEWS = re.compile(r"renew|certbot|acme|lego|dehydrated|certificate", re.IGNORECASE)
_TRUSTED = re.compile(
    r"(?:^|[/._-])(?:ca|roots?|trust\w*|bundle|chain|authorit\w*)(?![a-z])", re.IGNORECASE
)
_HOMES = "/home/"
_UNLIKE = re.compile(
    r"key values mismatch|KEY_VALUES_MISMATCH|does not match|key mismatch", re.IGNORECASE
)
_JOB = re.compile(r"^(?:\S+\s+){5}(?:(?P<user>[a-z_][\w-]*)\s+)?(?P<run>/.+)$")


def certificate(case: Case) -> Iterator[Idea]:
    symptom = case.symptom if SPOKEN.search(case.symptom) else ""
    for service in case.suspects:
        spoken = next((x for x in case.troubles(service) if SPOKEN.search(x)), "")
        spoken = spoken or _told_by_others(case, service)
        definition = case.definitions.get(service)
        unread = case.missing((probes.SITES, probes.CERTIFICATES, probes.JOBS))
        if definition is not None and "nginx" in definition.command and symptom and unread:
            yield Idea(
                "certificate-expired", service, f"{service} may serve one that is not valid", 0.6,
                service, (), unread,
            )  # fmt: skip
        for path in paths(case, service):
            if service not in case.programs and any(path in paths(case, x) for x in case.programs):
                continue
            wants = case.missing((probes.CERTIFICATES, probes.JOBS))
            dates = facts(case, path)
            state = validity(dates, case.now)
            if wants:
                yield Idea(
                    "certificate-expired", service, f"{path} may not be valid",
                    0.35 + 0.3 * bool(symptom or spoken), path, lines(spoken), wants,
                )  # fmt: skip
            elif state:
                heard = bool(symptom or spoken)
                for idea in _renewing(case, service, path, state):
                    yield replace(idea, score=idea.score - doubt(case, service, dates, heard))
            else:
                yield from _unlike_its_key(case, service, path)
                if symptom or spoken:
                    yield from _unloaded(case, service, path, spoken)


def _told_by_others(case: Case, service: str) -> str:
    """What somebody says of the certificate of one whom they ask: by its port."""
    ports = [port for port in case.ports(service) if case.listens(service, port)]
    asks = re.compile(rf":(?:{'|'.join(map(str, ports))})\b") if ports else None
    return next(
        (
            line
            for one in case.suspects
            if one != service and asks is not None
            for line in case.troubles(one)
            if SPOKEN.search(line) and asks.search(line)
        ),
        "",
    )


def doubt(case: Case, service: str, text: str, heard: bool) -> float:
    """How much less sure it is where nobody speaks of certificates, and where what is asked for is
    called otherwise."""
    check = case.brief.check.command if case.brief.check else ""
    silent = 0.15 if is_near(case, service) else 0.35
    return (0.0 if heard else silent) + (0.0 if _name(text) in check else 0.03)


def facts(case: Case, path: str) -> str:
    """What openssl tells of a certificate."""
    return "\n".join(parse.files(case.text(probes.CERTIFICATES)).get(path, []))


def paths(case: Case, service: str) -> list[str]:
    """Certificates that the configuration of a service names."""
    listed = parse.files(case.text(probes.CERTIFICATES))
    found = [path for path in case.named(service) if path in listed or _FILE.fullmatch(path)]
    if service == case.brief.service and case.brief.check is not None:
        found += _FILE.findall(case.brief.check.command)
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
    mine = facts(case, path)
    shown = [line for line in mine.splitlines() if line.startswith("not")]
    shown = shown[::-1] if state == "expired" else shown
    locus = f"{path} serial {field(mine, 'serial')}"
    claim = f"the certificate {path} of {service} is {state}"
    good, aside = _good(case, path), put_back(path, path)[0]
    fixes = [_installing(case, service, path, one) for one in good]
    fixes += [(aside, job) for job in _jobs(case, _name(mine))]
    wants: tuple[str, ...] = ()
    if not good:
        wanted = Wanted(_name(mine), path, _key_of(case, service, path))
        calls, wants = issuing.calls(case, wanted)
        fixes += [(aside, call) for call in calls]
    for at, fix in enumerate(fixes[:4]):
        yield Idea(
            "certificate-expired", service, claim, 0.92 - 0.03 * at, locus, lines(*shown), (),
            (*fix, *reading(case, service)), _undo(case, fix),
            ("see why the job that renews it did not", "alert 14 days before the end"),
        )  # fmt: skip
    if not fixes or wants:
        yield Idea("certificate-expired", service, claim, 0.8, locus, lines(*shown), wants)


def _good(case: Case, path: str) -> list[str]:
    """Valid ones for the same name, those that last longest first; of another issuer only after
    all others, and never one that signed itself in the place of one that did not. Nothing comes
    from homes of people into a file that lies elsewhere: its key may be known to them."""
    mine = facts(case, path)
    found = list[tuple[bool, float, str]]()
    for one in parse.files(case.text(probes.CERTIFICATES)):
        text = facts(case, one)
        same = field(text, "issuer") == field(mine, "issuer")
        if one == path or not text or _name(text) != _name(mine) or validity(text, case.now):
            continue
        if not same and field(text, "subject") == field(text, "issuer"):
            continue
        if not path.startswith(_HOMES) and f"{one} {_key_beside(case, one)}".count(_HOMES):
            continue
        own = field(text, "public") == field(mine, "public")
        if _key_beside(case, one) or own or _is_trusted(mine, path):
            ends = dict(_DATE.findall(text)).get("notAfter", "")
            found.append((not same, -date(ends), one))
    return [one for _, _, one in sorted(found)]


def _name(text: str) -> str:
    """For whom a certificate is."""
    subject = field(text, "subject")
    common = re.search(r"CN\s*=\s*([^,/]+)", subject)
    return common[1].strip() if common else subject


def _is_trusted(text: str, path: str) -> bool:
    """Whether it is one by which others are judged: no key goes with it."""
    own = field(text, "subject") == field(text, "issuer")
    return own or _TRUSTED.search(path) is not None


def _installing(case: Case, service: str, path: str, new: str) -> tuple[str, ...]:
    """A certificate in the place of another, with its key where that is another one, too."""
    key, new_key = _key_of(case, service, path), _key_beside(case, new)
    same = field(facts(case, path), "public") == field(facts(case, new), "public")
    if key == path and new_key and new_key != new:
        aside = put_back(path, new)[0]
        both = " ".join(shlex.quote(one) for one in (new, new_key))
        return aside, f"cat {both} > {shlex.quote(path)}"
    fix = _led(case, path, new)
    if same or not key or not new_key or key == path:
        return fix
    return (*fix, *_led(case, key, new_key))


def _led(case: Case, path: str, new: str) -> tuple[str, ...]:
    """A link is led to the new file: what it led to stays as it is."""
    if not field(facts(case, path), "link"):
        return put_back(path, new)
    return (f"ln -sfn {shlex.quote(new)} {shlex.quote(path)}",)


def _undo(case: Case, fix: Sequence[str]) -> str:
    """What takes back what was copied and led elsewhere."""
    found = []
    for words in map(shlex.split, fix):
        if words[0] == "cp" and words[-1].startswith(KEEP):
            found.append(undo_of(words[-2]))
        elif words[0] == "ln":
            led = field(facts(case, words[-1]), "link")
            found.append(f"ln -sfn {shlex.quote(led)} {shlex.quote(words[-1])}")
    return "; ".join(found)


def _is_postgres(case: Case, service: str) -> bool:
    words = case.command(service)
    return any(PurePosixPath(word).name in ("postgres", "postmaster") for word in words)


def served(case: Case, service: str, port: int, name: str) -> str:
    """What a port shows as its certificate."""
    look = probes.served(port, name)
    if _is_postgres(case, service):
        return look.replace("-connect", "-starttls postgres -connect")
    return look


def reading(case: Case, service: str) -> tuple[str, ...]:
    """Have a service read its certificate anew; a database is not started anew for that."""
    if _is_postgres(case, service):
        name = case.programs[service].name if service in case.programs else service
        told = f"supervisorctl signal HUP {shlex.quote(name)}"
        return (told if case.supervised else f"systemctl reload {shlex.quote(name)}",)
    return (case.restart(service),)


def _jobs(case: Case, name: str) -> list[str]:
    """Jobs of cron that are about this certificate, and those that renew all."""
    found, others = [], []
    for table, lines_of in parse.files(case.text(probes.JOBS)).items():
        for line in lines_of:
            job = _JOB.match(line.strip())
            if job and not _is_of_root(table, job["user"] or ""):
                continue
            if job and name and name in job["run"]:
                found.append(job["run"])
            elif (
                job
                and _RENEWS.search(job["run"])
                and "." not in job["run"].rpartition(" ")[2][1:-1]
            ):
                others.append(job["run"])
    return found or others


def _is_of_root(table: str, user: str) -> bool:
    """Whether cron runs a line of a table as whoever looks after the machine: what others have run
    as themselves is not run with more than they may."""
    if table.startswith("/var/spool/"):
        return table.endswith("/root")
    return user in ("", "root")


def field(text: str, name: str) -> str:
    found = re.search(rf"^{name}=\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else ""


def _key_of(case: Case, service: str, certificate: str) -> str:
    """The key that is used with a certificate: one that its service names, or that lies beside."""
    listed = parse.files(case.text(probes.CERTIFICATES))
    public = field(facts(case, certificate), "public")
    fitting = [
        path for path, rows in listed.items() if public and field("\n".join(rows), "key") == public
    ]
    named = [*case.named(service), *_beside(certificate)]
    if certificate in fitting:
        return certificate
    if found := _named_key(case, certificate):
        return found
    folder = PurePosixPath(certificate).parent
    near = [path for path in fitting if PurePosixPath(path).parent == folder]
    return next((path for path in [*named, *near] if path in fitting), "")


def _named_key(case: Case, certificate: str) -> str:
    """The key that settings name after a certificate."""
    for one in case.observed:
        if certificate in one.output and one.command.startswith(("cat ", "tail -v")):
            after = one.output[one.output.index(certificate) :]
            found = re.search(
                r"(?:ssl_certificate_key|\b\w*key\w*\"?\s*[=:])\s*[\"']?(/[\w./@+-]+)", after
            )
            if found:
                return found[1]
    return ""


def _key_beside(case: Case, certificate: str) -> str:
    """The key that belongs to a certificate: by what it holds, or by its name."""
    listed = parse.files(case.text(probes.CERTIFICATES))
    public = field(facts(case, certificate), "public")
    for path, rows in listed.items():
        if public and field("\n".join(rows), "key") == public:
            return path
    return "" if public else next((name for name in _beside(certificate) if name in listed), "")


def _beside(certificate: str) -> list[str]:
    stem = re.sub(r"\.(crt|pem|cert|cer)$", "", certificate)
    folder = PurePosixPath(certificate).parent
    return [f"{stem}.key", f"{stem}-key.pem", f"{folder}/privkey.pem", f"{folder}/key.pem"]


def _unlike_its_key(case: Case, service: str, path: str) -> Iterator[Idea]:
    """The key that is named with it belongs to another one, and its own lies somewhere."""
    said = next((x for x in case.troubles(service) if _UNLIKE.search(x)), "")
    key = next((one for one in paths_in(said) if one != path), "")
    key = key if key.endswith((".key", "key.pem")) else _named_key(case, path)
    right = _key_beside(case, path)
    if not said or not key or not right or right == key:
        return
    fix = _led(case, key, right)
    yield Idea(
        "certificate-expired", service, f"{key} is not the key of {path}: {right} is", 0.88, path,
        lines(said), (), (*fix, case.restart(service)), _undo(case, fix),
        ("install a certificate together with its key",),
    )  # fmt: skip


def _unloaded(case: Case, service: str, path: str, said: str) -> Iterator[Idea]:
    """The file is right: the server has not read it yet."""
    mine = field(facts(case, path), "serial")
    name = field(facts(case, path), "subject").rpartition("=")[2].strip()
    if field(facts(case, path), "subject") == field(facts(case, path), "issuer"):
        return
    looks = [served(case, service, port, name) for port in case.ports(service)[:6]]
    wants = case.missing(looks)
    for look in looks:
        text = case.text(look)
        serial = field(text, "serial")
        if validity(text, case.now) or (serial and serial != mine and name in text):
            yield Idea(
                "certificate-expired", service,
                f"{service} still serves an old certificate; {path} is valid and was not loaded",
                0.9, f"{path} served serial {serial}", lines(*text.splitlines()[::-1], said),
                wants, reading(case, service), "",
                ("reload the server when a certificate was renewed",),
            )  # fmt: skip
            return
    if wants:
        yield Idea(
            "certificate-expired", service, f"{service} may serve another one than {path}", 0.5,
            path, lines(said), wants,
        )  # fmt: skip


RULES = (certificate,)
