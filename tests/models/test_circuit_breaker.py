import asyncio

import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.models.routing.circuit_breaker import MAX_SECONDS, CircuitBreaker

BUSY = ModelError("overload", "too busy")


def opened(at: float = 0.0) -> CircuitBreaker:
    circuit = CircuitBreaker(3, 30.0)
    assert [circuit.failed(at, BUSY, None) for _ in range(3)] == [None, None, 30.0]
    return circuit


def test_a_circuit_opens_after_so_many_failures_in_a_row() -> None:
    circuit = opened()
    assert circuit.state(29.9) == "open"
    assert not circuit.admits(29.9)


def test_an_answer_in_between_starts_the_count_again() -> None:
    circuit = CircuitBreaker(3, 30.0)
    for _ in range(2):
        circuit.failed(0.0, BUSY, None)
    assert not circuit.answered()
    for _ in range(2):
        circuit.failed(0.0, BUSY, None)
    assert circuit.state(0.0) == "closed"


def test_one_call_probes_when_the_time_is_over() -> None:
    circuit = opened()
    assert circuit.state(30.0) == "half-open"
    probe = circuit.enter(30.0)
    assert probe is not None
    assert circuit.enter(30.0) is None
    assert not circuit.admits(30.0)


def test_a_probe_that_is_answered_closes_the_circuit() -> None:
    circuit = opened()
    probe = circuit.enter(30.0)
    assert circuit.answered()
    circuit.leave(probe)
    assert circuit.state(30.0) == "closed"
    assert circuit.admits(30.0)


def test_each_probe_that_fails_doubles_the_time_up_to_ten_minutes() -> None:
    circuit, now, lengths = opened(), 0.0, []
    for _ in range(7):
        now = circuit.until
        probe = circuit.enter(now)
        lengths.append(circuit.failed(now, BUSY, probe))
        circuit.leave(probe)
    assert lengths == [60.0, 120.0, 240.0, 480.0, *[MAX_SECONDS] * 3]
    assert circuit.answered()
    assert opened().until == 30.0


def test_a_probe_that_was_given_up_leaves_the_place_to_the_next() -> None:
    circuit = opened()
    circuit.leave(circuit.enter(30.0))
    assert circuit.enter(30.0) is not None


def test_failures_of_calls_from_before_change_nothing() -> None:
    circuit = opened()
    assert circuit.failed(10.0, BUSY, None) is None
    assert circuit.until == 30.0
    probe = circuit.enter(31.0)
    assert circuit.failed(31.0, BUSY, None) is None
    assert circuit.probe is probe


def test_a_late_probe_does_not_end_the_one_that_came_after_it() -> None:
    circuit = opened()
    old = circuit.enter(30.0)
    circuit.leave(old)
    new = circuit.enter(30.0)
    circuit.leave(old)
    assert circuit.probe is new


def test_a_pause_that_a_service_asks_for_holds_the_model_and_a_rate_limit_does_not() -> None:
    circuit = CircuitBreaker(3, 30.0)
    circuit.failed(0.0, ModelError("rate_limit", "slow", retry_after=9.0), None)
    assert circuit.admits(0.0)
    circuit.failed(0.0, ModelError("overload", "busy", retry_after=9.0), None)
    assert not circuit.admits(8.9)
    assert circuit.admits(9.0)


async def test_those_who_wait_for_a_probe_go_on_when_it_ends() -> None:
    circuit = opened()
    probe = circuit.enter(30.0)
    assert probe is not None
    waiting = [asyncio.create_task(probe.ended()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    circuit.leave(probe)
    await asyncio.gather(*waiting)


@pytest.mark.parametrize("asked", [1e300, float("inf"), float("nan")])
def test_nobody_is_left_alone_for_longer_than_an_hour(asked: float) -> None:
    circuit = CircuitBreaker(3, 30.0)
    circuit.failed(0.0, ModelError("overload", "busy", retry_after=asked), None)
    assert circuit.held_until == 3600.0
