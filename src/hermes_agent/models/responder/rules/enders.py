"""What ends a service again and again: a job or a script that ends processes by their names, their
files or their ports, and is run by cron or by somebody who runs. To start it anew is no cure as
long as that goes on."""

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from hermes_agent.models.responder.rules import crontabs
from hermes_agent.models.responder.rules.config import swapped
from hermes_agent.models.responder.rules.ideas import Idea, lines, undo_of
from hermes_agent.models.responder.rules.port import silenced
from hermes_agent.models.responder.view import parse, probes, settings
from hermes_agent.models.responder.view.case import KEEPERS, Case

_ENDS = (
    r"\b(pkill|pgrep|pidof|killall|skill)\b|\bps (-e|-A|a)|\bkill (-|\"?\$|`|[0-9])|"
    r"xargs (-\S+ )*kill|fuser .*-k|os\.kill\(|"
    r"(supervisorctl|systemctl|service) .*\b(stop|restart|kill|signal)\b|"
    r"nginx -s (quit|stop)"
)
ENDERS = (
    "grep -rnsIE --exclude-dir='.*' --exclude-dir=init.d --exclude-dir=supervisor "
    f"--exclude-dir=node_modules -- {shlex.quote(_ENDS)} /etc/cron* /var/spool/cron /etc/periodic "
    "/etc/logrotate.d /usr/local/bin /usr/local/sbin /usr/local/lib /usr/local/libexec /opt /srv "
    "/root /home /var/www /data /app 2>/dev/null | cut -c 1-300 | head -n 60"
)
"""Lines that end processes, where people put their scripts and tables."""
_HARMLESS = re.compile(
    r"kill(?:all)?\s+(?:-s ?)?-?(?:0|HUP|SIGHUP|1|USR1|USR2|SIGUSR\d|WINCH|CONT|STOP|l)\b|trap\b"
)
_BY_NAME = re.compile(
    r"\b(?P<how>pkill|pgrep|killall|pidof)\s+(?P<rest>(?:[^|;&)\"'`]|\"[^\"]*\"|'[^']*')*)"
)
_SEARCHED = re.compile(r"(?:grep|awk)\s+(?:-\w+\s+)*(?:\"([^\"]+)\"|'([^']+)'|([^\s|;&)]+))")
_PID_FILE = re.compile(r"(?:cat|<)\s*\"?(/[\w./@+-]+)")
_PORT = re.compile(r"fuser\b.*?\b(\d{2,5})/tcp|(?:lsof|ss)\b.*?:(\d{2,5})\b")
_MINDED = re.compile(r"\b(?:supervisorctl|systemctl|service)\b(?P<rest>[^|;&]*)")
_ORDERLY = re.compile(r"\b(?:supervisorctl|systemctl|service)\b.*\b(?:stop|restart)\b")
"""Whoever minds a service ends it so by itself, and writes that down otherwise."""
_OPTION = re.compile(r"-(?:u|U|g|G|P|t|s)\s*\S+|--?\w[\w-]*(?:=\S+)?")
_LOOKS = re.compile(r"\b(?:curl|wget|nc|health\w*|alive|ping)\b", re.IGNORECASE)
_WAS_ENDED = re.compile(
    r"exited: \S+ \((?:terminated by SIG(?:TERM|KILL|INT|QUIT)|exit status 1(?:30|31|37|43);)"
)
_SAYS_SO = (
    r"\bSIG(?:TERM|INT|QUIT|KILL)\b|signal (?:15|2|3|9)\b|\bterminated\b|\bKilled\b"
    r"|(?:caught|received|got) (?:a )?(?:signal|term)|terminating|asked to (?:stop|quit|end)"
)
_MAY = re.compile(r"\bcron|^(?:/\S*/)?(?:ba|da|z|k)?sh |\.sh\b")
"""Those who run what people wrote."""
_ONE = re.compile(
    r"(?:sudo )?(?:/\S*/)?(?:pkill|killall|kill|fuser|nginx|supervisorctl|systemctl)\s"
)
_SELDOM, _LATE = 12 * 60, 10
"""Minutes between two runs, and after one of them."""
_JOINED = re.compile(r"[;&|\\{}]|\bthen\b|\bdo\b")
_TIMES = re.compile(
    r"\s*(?:@\w+|(?:\S+\s+){4}\S+)\s+(?:[a-z_][\w-]*\s+)??(?=[\w/.]*k|nginx|su|sy|fu)"
)


class Ender(Struct, frozen=True):
    """A line that ends a service, and will do so again."""

    path: str
    text: str
    by: str
    """What has it done: a line of a table, or a process."""
    alone: bool
    """Whether it does nothing else, so that it can be put out."""

    @property
    def proof(self) -> str:
        """Comes out well once it does so no more."""
        return f"! grep -qxF -- {shlex.quote(self.text)} {shlex.quote(self.path)}"


def ended(case: Case) -> Iterator[Idea]:
    """Whoever ends it is kept from it, where that is one line that does nothing else."""
    for service in (case.brief.service, *case.needs(case.brief.service)):
        line = was_ended(case, service)
        if not line or not any(_MAY.search(one.command) for one in case.processes):
            continue
        if wants := case.missing((ENDERS, probes.JOBS)):
            yield Idea("service-crash", service, f"somebody may end {service}", 0.61, service,
                       lines(line), wants)  # fmt: skip
            continue
        for one in enders(case, service):
            fix: tuple[str, ...] = ()
            if one.alone:
                fix = (*_put_out(one), case.restart(service))
            yield Idea(
                "service-crash", service,
                f"{service} is ended by {one.path} ({one.text.strip()[:80]}), time and again",
                0.91, f"{one.path}: {one.text.strip()[:80]}", lines(one.text, line, one.by), (),
                fix, undo_of(one.path),
                ("have jobs end only what they started", "tell whose job it is"), one.proof,
            )  # fmt: skip


def _put_out(one: Ender) -> tuple[str, ...]:
    """A line of a table is made a remark; one of a script does nothing in its place."""
    bare = one.text.strip()
    return (
        silenced(one.text, one.path)
        if one.by == one.text
        else swapped(one.path, bare, f": # {bare}", whole=True)
    )


def was_ended(case: Case, service: str) -> str:
    """A line by which it was ended by a signal, and not by its supervisor; empty where none is."""
    name = service.rpartition(":")[2]
    log = case.text(probes.SUPERVISOR_LOG).splitlines()
    said = [one for one in log if re.search(rf"exited: {re.escape(name)} ", one)]
    by_signal = [one for one in said if _WAS_ENDED.search(one)]
    if by_signal:
        return by_signal[-1]
    program = case.programs.get(service)
    if not said or program is None:
        return ""
    return next(case.said(service, _SAYS_SO), "")


def enders(case: Case, service: str) -> list[Ender]:
    """Lines that would end a service, or choose it to be ended, of what is run by itself."""
    files = dict[str, list[str]]()
    for row in case.text(ENDERS).splitlines():
        path, _, rest = row.partition(":")
        text = rest.partition(":")[2]
        if text.strip()[:1] not in ("", "#", ";") and not _HARMLESS.search(text):
            files.setdefault(path, []).append(text)
    found, line = list[Ender](), was_ended(case, service)
    for path, rows in files.items():
        ends = [row for row in rows if re.search(r"kill|fuser|ctl |service |nginx", row)]
        for text in rows if ends else ():
            by = _run_by(case, path, text)
            if _ORDERLY.search(text) or _is_rare(by, line):
                continue
            if by and _is_meant(case, service, text):
                bare = _TIMES.sub("", text, count=1) if by == text else text
                alone = text in ends and not _LOOKS.search(text) and _is_alone(bare)
                found.append(Ender(path, text, by, alone))
    return found


def _is_meant(case: Case, service: str, text: str) -> bool:
    """Whether what a line ends is a process of this service."""
    command = " ".join(case.command(service))
    name = service.rpartition(":")[2]
    words = [word for word in case.command(service) if "/" not in word or word[0] == "/"]
    programs = {PurePosixPath(word).name for word in words[:3] if not word.startswith("-")}
    for found in _BY_NAME.finditer(text):
        whole = re.search(r"(?:^|\s)(?:-\w*f\w*|--full)\b", found["rest"]) is not None
        given = settings.split(_OPTION.sub(" ", found["rest"]))
        pattern = given[0] if given else ""
        exact = found["how"] in ("killall", "pidof")
        if pattern and (pattern in programs if exact else _fits(pattern, command, whole, programs)):
            return True
    if any(path in case.named(service) for path in _PID_FILE.findall(text)):
        return True
    ports = {int(one) for pair in _PORT.findall(text) for one in pair if one}
    if ports & set(case.ports(service)):
        return True
    minded = _MINDED.search(text)
    if minded and re.search(rf"(?<![\w-])(?:{re.escape(name)}|all)(?![\w-])", minded["rest"]):
        return True
    if "nginx -s" in text and any(PurePosixPath(word).name == "nginx" for word in words):
        return True
    searched = [one for pair in _SEARCHED.findall(text) for one in pair if one]
    if re.search(r"\bps (?:-e|-A|a)", text) and not any(
        re.match(r"[\w./-]+$", one) for one in searched
    ):
        return True  # by what they take, whoever they are
    return "kill" in text and any(_fits(one, command, True, programs) for one in searched[:1])


def _fits(pattern: str, command: str, whole: bool, programs: set[str]) -> bool:
    """Whether a pattern finds a process; what is not known yet finds none."""
    if "$" in pattern.rstrip("$") or len(pattern) < 2:
        return False
    try:
        wanted = re.compile(pattern.replace("[[:space:]]", r"\s"))
    except re.error:
        return False
    return any(wanted.search(one[:15] if not whole else one)
               for one in ([command] if whole else programs))  # fmt: skip


def _run_by(case: Case, path: str, text: str) -> str:
    """What runs a script: a line of a table that is heeded, or a process; empty where nobody
    does."""
    daemon = any(KEEPERS.search(one.command) for one in case.processes if "cron" in one.command)
    tables = parse.files(case.text(probes.JOBS))
    rows = [row for rows in tables.values() for row in rows if row.strip()[:1] not in ("#", "")]
    name = PurePosixPath(path).name
    if daemon:
        if path in tables:
            return text
        if re.match(r"/etc/cron\.(?:hourly|daily|weekly|monthly)/", path):
            return f"{PurePosixPath(path).parent}"
        if found := next((row for row in rows if _names(row, name)), ""):
            return found
    told = [one.command for one in case.definitions.values()]
    running = [one.line for one in case.processes if _names(one.command, name)]
    return next(iter([*running, *(one for one in told if _names(one, name))]), "")


def _is_rare(by: str, line: str) -> bool:
    """Whether what runs it comes round so seldom that it was another one, as the service was ended
    at another time."""
    times = re.match(r"\s*(@\w+|(?:\S+\s+){4}\S+)\s", by)
    if times is None or crontabs.misread(times[1]) or times[1] == "@reboot":
        return re.match(r"/etc/cron\.(?:daily|weekly|monthly)", by) is not None
    planned = re.match(r"(\d+) (\d+) ", " ".join(times[1].split()) + " ")
    at = re.search(r" (\d\d):(\d\d):\d\d", line)
    late = (
        int(at[1]) * 60 + int(at[2]) - int(planned[2]) * 60 - int(planned[1])
        if at and planned
        else -1
    )
    return crontabs.gap(times[1]) >= _SELDOM and not 0 <= late <= _LATE


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text) is not None


def _is_alone(text: str) -> bool:
    """Whether a line is one command, whole, that can be put out without what is around it."""
    bare = re.sub(r"\s*\|\|\s*(?:true|:)\s*$|\s*\d?>+\s*&?\S+", "", text.strip())
    bare = re.sub(r"\$\([^()]*\)|`[^`]*`", "X", bare)
    return _ONE.match(bare) is not None and _JOINED.search(bare) is None


def unproven(case: Case, found: Iterable[Idea]) -> Iterator[Idea]:
    """Ideas that start a service anew count as a cure only once nobody ends it again."""
    open_ends = {
        one.component: one.proof for one in found if one.proof and one.proof.startswith("! grep")
    }
    for one in found:
        restarts = case.restart(one.component) in one.fix
        proof = open_ends.get(one.component, "") if restarts and not one.proof else ""
        yield replace(one, proof=proof) if proof else one


RULES = (ended,)
