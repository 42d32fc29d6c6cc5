"""All rules, and what they make of a case."""

from functools import lru_cache

from hermes_agent.models.responder.rules import (
    absent,
    added,
    astray,
    builds,
    cascade,
    certificate,
    chains,
    clock,
    config,
    database,
    enders,
    entry,
    flood,
    fresh,
    inodes,
    jobs,
    kept,
    last,
    leaks,
    listed,
    load,
    lock,
    lookup,
    names,
    network,
    permission,
    pool,
    port,
    reach,
    release,
    said,
    space,
    start,
    state,
    statement,
    values,
)
from hermes_agent.models.responder.rules.ideas import Idea, Rule, ranked
from hermes_agent.models.responder.view.case import Case

RULES: tuple[Rule, ...] = (
    *space.RULES,
    *inodes.RULES,
    *flood.RULES,
    *start.RULES,
    *enders.RULES,
    *entry.RULES,
    *listed.RULES,
    *state.RULES,
    *absent.RULES,
    *added.RULES,
    *port.RULES,
    *lock.RULES,
    *load.RULES,
    *leaks.RULES,
    *config.RULES,
    *values.RULES,
    *release.RULES,
    *builds.RULES,
    *said.RULES,
    *permission.RULES,
    *clock.RULES,
    *names.RULES,
    *lookup.RULES,
    *network.RULES,
    *reach.RULES,
    *fresh.RULES,
    *cascade.RULES,
    *kept.RULES,
    *pool.RULES,
    *certificate.RULES,
    *chains.RULES,
    *database.RULES,
    *statement.RULES,
    *jobs.RULES,
    *astray.RULES,
    *last.RULES,
)


def ideas(case: Case) -> list[Idea]:
    """What may be the matter, the likeliest first."""
    return list(_ideas(case))


@lru_cache(64)
def _ideas(case: Case) -> tuple[Idea, ...]:
    found = ranked(idea for rule in RULES for idea in rule(case))
    return tuple(enders.unproven(case, found))
