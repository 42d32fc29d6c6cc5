"""What became of a remedy after which not all is well: whether it eased something, and taking it
back where it did not."""

import re
import shlex
from collections.abc import Generator, Sequence

from hermes_agent.models.responder.brief import Brief
from hermes_agent.models.responder.moves import Answer, Move
from hermes_agent.models.responder.rulebook import ideas
from hermes_agent.models.responder.rules.ideas import ACT, Idea
from hermes_agent.models.responder.steps import apart, through_links
from hermes_agent.models.responder.tried import Tried, hypothesis, terminal
from hermes_agent.models.responder.view.case import Case, case_of, paths_in
from hermes_agent.models.responder.view.grown import new_troubles
from hermes_agent.models.responder.view.seen import Seen

_UNDONE = re.compile(
    r"(?:[\w./-]*on-node [\w.-]+ |[\w./-]*ip netns exec [\w.-]+ )?"
    r"(cp|mv|chmod|chown|chgrp|ln -sfn|ip|iptables|arptables|ebtables|bridge|tc|kill -STOP"
    r"|kill -CONT|git|sed -i|sysctl -w|psql|supervisorctl (?:start|update)|systemctl start) "
)
"""How an undo begins that can be carried out as it is written."""
_PARTS = re.compile(r"(?:'[^']*'|\"[^\"]*\"|;(?! )|[^;'\"])+")
"""Commands that are joined by `; `: in quotes that is part of a name."""
_READS = re.compile(
    r" restart | signal HUP |\breload\b|_reload_conf|kill -HUP |supervisorctl (?:reread|update)"
)
"""By what a service comes to know what was changed: it is told again once that is taken back."""


def undoing(idea: Idea) -> tuple[str, ...]:
    """Commands that take a remedy back; none where it cannot be."""
    parts = [part.strip() for part in _PARTS.findall(idea.undo)]
    return tuple(parts) if parts and all(_UNDONE.match(part) for part in parts) else ()


def eased(before: Case, after: Case, idea: Idea) -> bool:
    """Whether a remedy changed something for the better, though not all is well: its component
    runs again, or is silent, or what it was for is not to be seen any more and its component does
    not say what it said."""
    now = after.programs.get(idea.component)
    if now is not None and not now.up:
        return False
    if brought_up(before, after, idea):
        return True
    old = {_gist(line) for line in before.troubles(idea.component)}
    new = {_gist(line) for line in new_troubles(before, after, idea.component)}
    if now is not None and undoing(idea) and old and not new:
        return True
    again = [one for one in ideas(after) if one.score >= ACT and one.evidence]
    if any((one.category, one.component) == (idea.category, idea.component) for one in again):
        return False
    if not undoing(idea):
        return idea.score >= ACT
    return now is not None and bool(old) and not old & new


def brought_up(before: Case, after: Case, idea: Idea) -> bool:
    """Whether what a remedy was for did not run before it, and does now."""
    was, now = before.programs.get(idea.component), after.programs.get(idea.component)
    return was is not None and not was.up and (now is None or now.up)


def given_back(tried: Tried) -> Generator[Move, Answer, None]:
    """Whoever is handed a machine that is not well finds it as it was: what seemed to ease
    something and did not mend it is taken back, the last first. What something changed again that
    stays is left: to take it back would take that with it."""
    stays = set[str]()
    for idea in reversed([one for one in tried.ideas if tried.carried(one)]):
        if idea not in tried.useful or idea in tried.kept or _touched(idea) & stays:
            stays |= _touched(idea)
        elif undoing(idea):
            yield from _taken_back(idea, tried, "It is not mended: I take back what I changed.")


def _touched(idea: Idea) -> set[str]:
    return {path for command in (*idea.fix, *undoing(idea)) for path in paths_in(command)}


def looked_back(brief: Brief, known: Sequence[Seen], tried: Tried) -> Generator[Move, Answer, bool]:
    """Judge the last remedy by what is seen now; one that eased nothing is taken back. Whether
    anything was."""
    if not tried.ideas or tried.judged == len(tried.ideas):
        return False
    idea = tried.ideas[-1]
    tried.judged = len(tried.ideas)
    before, after = case_of(brief, tried.seen), case_of(brief, known)
    if eased(before, after, idea):
        tried.useful.append(idea)
        tried.kept += [idea] if brought_up(before, after, idea) else []
        tried.since = len(tried.ideas)
        return False
    if not undoing(idea) or not tried.carried(idea):
        return False
    yield from _taken_back(idea, tried, "That eased nothing: I take it back.")
    return True


def _taken_back(idea: Idea, tried: Tried, text: str) -> Generator[Move, Answer, None]:
    starts = tuple(command for command in idea.fix if _READS.search(command))
    none = [f" {shlex.quote(one)} " for one in tried.bare]
    undo = [one for one in apart(undoing(idea), idea, tried.ideas)
            if not any(kept in one for kept in none)]  # fmt: skip
    calls = [terminal(through_links(command)) for command in (*undo, *starts)]
    calls.append(hypothesis(idea, 0.05, state="refuted"))
    yield Move(text, tuple(calls))
    tried.done = [command for command in tried.done if command not in idea.fix]
    tried.done.append(f"taken back: {idea.claim}")


_LASTING = (
    "cat /", 'echo "==> link', "git ", "command -v ", "grep -rnsIF ", "find /etc /srv ",
    "tail -v -n +1 /etc/nginx/",
)  # fmt: skip
"""How looks begin at what nobody changes but whoever mends."""
_PASSING = ("/proc/", "/run/", "/sys/", "/var/run/", "/var/spool/", "/dev/", "/tmp/")  # noqa: S108


def lasting(known: Sequence[Seen], tried: Tried) -> list[Seen]:
    """What need not be looked at again after a remedy: settings, copies, programs, as far as what
    was done did not touch them."""
    done = [command for idea in tried.ideas for command in (*idea.fix, *undoing(idea))]
    touched = {path for command in done for path in paths_in(command)}
    names = {one for path in touched for one in (path, path.rpartition("/")[2]) if len(one) > 3}
    return [
        one
        for one in known
        if one.exit is not None
        and one.command.startswith(_LASTING)
        and not any(part in one.command for part in _PASSING)
        and not any(name in one.command for name in names)
        and not any(path in one.output for path in touched)
    ]


def _gist(line: str) -> str:
    """What a line says, without when and with which numbers."""
    return re.sub(r"[\d.:,+TZ-]+", " ", line).strip()
