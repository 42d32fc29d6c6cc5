"""All rules, and what they make of a case."""

from functools import lru_cache

from hermes_agent.models.responder import (
    rules_absent,
    rules_added,
    rules_astray,
    rules_cascade,
    rules_certificate,
    rules_clock,
    rules_config,
    rules_database,
    rules_entry,
    rules_flood,
    rules_inodes,
    rules_jobs,
    rules_last,
    rules_leaks,
    rules_load,
    rules_lock,
    rules_lookup,
    rules_names,
    rules_network,
    rules_permission,
    rules_pool,
    rules_port,
    rules_reach,
    rules_release,
    rules_said,
    rules_space,
    rules_start,
    rules_state,
    rules_statement,
    rules_values,
)
from hermes_agent.models.responder.case import Case
from hermes_agent.models.responder.ideas import Idea, Rule, ranked

RULES: tuple[Rule, ...] = (
    *rules_space.RULES,
    *rules_inodes.RULES,
    *rules_flood.RULES,
    *rules_start.RULES,
    *rules_entry.RULES,
    *rules_state.RULES,
    *rules_absent.RULES,
    *rules_added.RULES,
    *rules_port.RULES,
    *rules_lock.RULES,
    *rules_load.RULES,
    *rules_leaks.RULES,
    *rules_config.RULES,
    *rules_values.RULES,
    *rules_release.RULES,
    *rules_said.RULES,
    *rules_permission.RULES,
    *rules_clock.RULES,
    *rules_names.RULES,
    *rules_lookup.RULES,
    *rules_network.RULES,
    *rules_reach.RULES,
    *rules_cascade.RULES,
    *rules_pool.RULES,
    *rules_certificate.RULES,
    *rules_database.RULES,
    *rules_statement.RULES,
    *rules_jobs.RULES,
    *rules_astray.RULES,
    *rules_last.RULES,
)


def ideas(case: Case) -> list[Idea]:
    """What may be the matter, the likeliest first."""
    return list(_ideas(case))


@lru_cache(64)
def _ideas(case: Case) -> tuple[Idea, ...]:
    return tuple(ranked(idea for rule in RULES for idea in rule(case)))
