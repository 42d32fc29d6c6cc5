"""Which of the contracts' cases only `make test-all` goes through."""

import pytest

CONTRACT = "test_terminal.py"
SAMPLED = {"docker", "modal", "e2b", "daytona"}
"""Places at whose end the same shell and the same engine work as at `local`, `far` and `ssh`: of a
test with many cases, they get the first; their ways are tested in test_transport.py."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known: set[tuple[str, str]] = set()
    for item in items:
        case = getattr(item, "callspec", None)
        place = case.params.get("place") if case is not None else None
        if not isinstance(item, pytest.Function) or item.path.name != CONTRACT:
            continue
        if place not in SAMPLED:
            continue
        if (item.originalname, place) in known:
            item.add_marker(pytest.mark.slow)
        known.add((item.originalname, place))
