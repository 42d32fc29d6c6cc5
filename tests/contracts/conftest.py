"""Which cases of the terminals' contract only `make test-all` runs."""

import pytest

CONTRACT = "test_terminal.py"
WHOLE = "local"
"""The cheapest terminal: it goes through every case."""
SAMPLED = "far"
"""The remote agent, on this machine: of a test with many cases, it gets the first."""
SMOKE = {
    "test_a_command_gives_its_output_and_exit_code_apart",
    "test_a_background_command_is_followed_to_its_end",
    "test_a_new_terminal_on_the_same_place_finds_everything",
    "test_a_secret_is_seen_by_its_command_alone",
    "test_cancelling_stops_the_command_and_leaves_the_shell_usable",
    "test_files_are_written_whole_and_read_back",
    "test_lines_are_found_by_regular_expression",
    "test_paths_and_globs_are_traced_to_where_they_lead",
}
"""What every other terminal shows. They run the same shell and the same agent; how each is reached
is tested in test_transport.py."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known: set[str] = set()
    for item in items:
        if not isinstance(item, pytest.Function) or item.path.name != CONTRACT:
            continue
        case = getattr(item, "callspec", None)
        place = case.params.get("place") if case is not None else None
        if place == SAMPLED and item.originalname not in known:
            known.add(item.originalname)
        elif place not in (None, WHOLE) and item.originalname not in SMOKE:
            item.add_marker(pytest.mark.slow)
