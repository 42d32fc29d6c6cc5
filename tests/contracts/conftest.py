"""Which cases of the contracts of terminals and transports only `make test-all` runs."""

import pytest

from tests.support.sampling import sampled

PARAMETER = {"test_terminal.py": "place", "test_transport.py": "way"}
WHOLE = "local"
"""The cheapest implementation of each: it goes through every case."""
SAMPLED, CASES = "far", 12
"""The remote agent, on this machine: it goes through a sample, another one in each run."""
SMOKE = {
    "test_a_command_gives_its_output_and_exit_code_apart",
    "test_a_new_terminal_on_the_same_place_finds_everything",
    "test_a_secret_is_seen_by_its_command_alone",
    "test_cancelling_stops_the_command_and_leaves_the_shell_usable",
    "test_a_program_gets_its_words_as_they_are",
    "test_megabytes_of_any_bytes_go_both_ways_in_a_call",
    "test_a_channel_carries_bytes_both_ways_as_they_come",
    "test_a_cut_way_is_seen_by_whoever_uses_it",
    "test_the_place_and_what_runs_there_outlive_the_connection",
    "test_a_place_can_be_destroyed_twice_and_by_somebody_else",
}
"""What every other implementation shows: they run the same shell and the same agent, and differ in
how they are reached."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    others: list[pytest.Item] = []
    remote: list[pytest.Item] = []
    for item in items:
        case = getattr(item, "callspec", None)
        if not isinstance(item, pytest.Function) or case is None:
            continue
        name = case.params.get(PARAMETER.get(item.path.name, ""), WHOLE)
        if name != WHOLE and item.originalname not in SMOKE:
            (remote if name == SAMPLED else others).append(item)
    kept = set(sampled(remote, CASES, SAMPLED))
    for item in (*others, *remote):
        if item not in kept:
            item.add_marker(pytest.mark.slow)
