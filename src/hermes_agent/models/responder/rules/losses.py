"""What would be lost if a service were started anew: what people gave it and it has in memory only,
or the service itself, where its file system has no room for it to come up again."""

import re

from hermes_agent.models.responder.rules import room
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view import parse, probes
from hermes_agent.models.responder.view.case import Case

FULL = 98
"""Per cent from which on a file system takes nothing any more."""
_MAKES_ROOM = frozenset({"disk-full", "inode-full", "log-flood"})
"""Causes for which it is started anew to give room back."""
_STARTS = re.compile(r"\b(?:supervisorctl|systemctl) (?:restart|stop) ([\w.:@-]+)")
_WORK = (
    r"(?:queue[ds]?|waiting|waits?|pending|unsent|undelivered|backlog|outbox|jobs?|orders?|messages?"
    r"|bookings?|carts?|baskets?|drafts?|tasks?|bids?|votes?|letters?|parcels?|notices?|events?"
    r"|requests?|uploads?|entries|not (?:yet )?(?:sent|fetched|collected|delivered|done))"
)
_HELD = re.compile(
    rf"\b{_WORK}\b[^.\n]{{0,60}}\bin[ -](?:its )?memory\b"
    rf"|\bin[ -](?:its )?memory\b[^.\n]{{0,60}}\b{_WORK}\b"
    r"|\b(?:not|never|nowhere) (?:\w+ )?(?:stored|saved|persisted|written (?:down|to (?:a )?disk))"
    r"|\b(?:lost|gone|forgotten|dropped|lose[sn]?|forgets?)\b[^.\n]{0,40}"
    r"\b(?:restart|stop|start|end|reboot|dies|crash)"
    r"|\b(?:interrupt|restart|stop)\w*\b[^.\n]{0,30}\b(?:costs|loses|lost|begins? anew|from the)"
    r"|\b(?:do not|don't|never|must not be) (?:be )?(?:restart|stop)",
    re.IGNORECASE,
)
"""What is said of a service that has people's work in memory only."""
_CACHE = re.compile(r"\bcach|\bindex\b|made again|rebuilt|copy of", re.IGNORECASE)
"""What is said of what can be made again."""


def lost(case: Case, idea: Idea) -> str:
    """Why a remedy must not be carried out by which a service is started anew; empty where nothing
    would be lost."""
    names = {name for fix in idea.fix for name in _STARTS.findall(fix)}
    for name in sorted(names):
        program = case.programs.get(name)
        if program is None or not program.up:
            continue
        if told := held(case, name):
            return f"{name} has work of people in memory: {told}"
        if idea.category not in _MAKES_ROOM and (place := _stuffed(case, name)):
            return f"{name} might not come up again: {place} is full"
    return ""


def held(case: Case, service: str) -> str:
    """What is said of work that it has in memory only, by people or in remarks of its settings."""
    texts = [case.about(service)]
    for path in case.configs(service):
        rows = case.content(path).splitlines()
        texts += [row.strip() for row in rows if re.match(r"\s*(?:#|;|//|\"_?comment)", row)]
    for text in texts:
        for part in re.split(r"(?<=[.;])\s", text):
            if _HELD.search(part) and not _CACHE.search(part):
                return part[:160]
    return ""


def _stuffed(case: Case, service: str) -> str:
    """A file system without any room on which a service keeps something."""
    rows = f"{case.text(probes.SPACE)}\n{case.text(probes.INODES)}"
    for mount in parse.mounts(rows):
        own = mount.path != "/" and room.below(case, service, mount.path)
        if own and mount.percent >= FULL and mount.source not in ("overlay", "devtmpfs"):
            return mount.path
    return ""
