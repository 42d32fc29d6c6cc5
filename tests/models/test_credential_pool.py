import pytest

from hermes_agent.core.errors import ModelError
from hermes_agent.models.routing.credential_pool import (
    AUTH_SECONDS,
    QUOTA_SECONDS,
    RATE_SECONDS,
    CoolingKey,
    CredentialPool,
    LeasedCredential,
)
from hermes_agent.models.wires.base import Credential
from tests.support.failing_models import Key, Time

SLOW = ModelError("rate_limit", "slow down")
REFUSED = ModelError("auth", "bad key")
BROKE = ModelError("quota", "no credit")


def pool(*keys: Key) -> tuple[CredentialPool, Time]:
    time = Time(1_000.0)
    return CredentialPool(keys, time), time


async def lent(pool: CredentialPool, model: str = "m", *, anyway: bool = False) -> LeasedCredential:
    found = await pool.lease(model, anyway=anyway)
    assert found is not None
    return found


async def label(pool: CredentialPool, model: str = "m") -> str:
    return (await lent(pool, model)).credential.label


async def test_the_first_key_is_used_as_long_as_it_works() -> None:
    keys, _ = pool(Key("one"), Key("two"))
    assert [await label(keys) for _ in range(3)] == ["one"] * 3


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (SLOW, RATE_SECONDS),
        (ModelError("rate_limit", "slow", retry_after=7.0), 7.0),
        (BROKE, QUOTA_SECONDS),
        (REFUSED, AUTH_SECONDS),
    ],
)
async def test_a_key_that_was_turned_away_rests_and_comes_back(
    error: ModelError, seconds: float
) -> None:
    keys, time = pool(Key("one"), Key("two"))
    assert await keys.failed(await lent(keys), "m", error)
    assert await label(keys) == "two"
    time.now += seconds - 0.01
    assert await label(keys) == "two"
    time.now += 0.01
    assert await label(keys) == "one"


async def test_a_rate_limit_is_about_one_model_and_no_credit_about_all() -> None:
    keys, _ = pool(Key("one"), Key("two"))
    await keys.failed(await lent(keys), "big", SLOW)
    assert await label(keys, "big") == "two"
    assert await label(keys, "small") == "one"
    await keys.failed(await lent(keys, "small"), "small", BROKE)
    assert await label(keys, "small") == "two"


async def test_when_all_rest_it_is_known_when_the_first_is_back() -> None:
    keys, time = pool(Key("one"), Key("two"), Key("three"))
    for seconds in (30.0, 20.0):
        error = ModelError("rate_limit", "slow", retry_after=seconds)
        await keys.failed(await lent(keys), "m", error)
    assert keys.bound("m", time.now) == (time.now, None)
    assert not await keys.failed(await lent(keys), "m", REFUSED)
    assert await keys.lease("m") is None
    until, why = keys.bound("m", time.now)
    assert until == time.now + 20.0
    assert why is not None
    assert why.kind == "rate_limit"


async def test_a_key_that_rests_is_given_anyway_where_nothing_else_is_left() -> None:
    one = Key("one")
    keys, time = pool(one, Key("two"))
    await keys.failed(await lent(keys), "m", BROKE)
    await keys.failed(await lent(keys), "m", SLOW)
    last = await lent(keys, anyway=True)
    assert last.credential.label == "two"
    assert last.forced
    keys.answered(last)
    assert await label(keys) == "two"
    assert keys.resting(time.now) == (CoolingKey("one", "quota", time.now + QUOTA_SECONDS),)


async def test_what_a_service_asked_for_holds_though_another_call_was_answered() -> None:
    keys, _ = pool(Key("one"))
    first = await lent(keys)
    await keys.failed(first, "m", SLOW)
    anyway = await lent(keys, anyway=True)
    await keys.failed(first, "m", ModelError("rate_limit", "slow", retry_after=9.0))
    keys.answered(anyway)
    assert await keys.lease("m") is None


async def test_a_key_that_was_exchanged_is_used_at_once() -> None:
    key = Key("one", "old", "new")
    keys, time = pool(key)
    old = await lent(keys)
    assert await keys.failed(old, "m", REFUSED)
    assert (await lent(keys)).credential.secret == "new"
    assert await keys.failed(old, "m", REFUSED), "a call that was still under way with the old one"
    assert key.refusals == 1
    assert keys.resting(time.now) == ()


async def test_a_key_that_cannot_be_had_makes_room_for_the_next() -> None:
    one, two = Key("one"), Key("two")
    one.error = ModelError("auth", "the command failed")
    keys, time = pool(one, two)
    assert await label(keys) == "two"
    assert [rest.label for rest in keys.resting(time.now)] == ["one"]
    two.error = ModelError("unreachable", "cannot renew the token")
    with pytest.raises(ModelError, match="cannot renew"):
        await keys.lease("m")
    two.error = None
    assert await label(keys) == "two", "trouble that passes is no reason to rest"


async def test_a_key_that_is_gone_at_the_second_look_rests() -> None:
    key = Key("one")
    keys, _ = pool(key)
    old = await lent(keys)
    key.error = ModelError("auth", "not set any more")
    assert not await keys.failed(old, "m", REFUSED)
    assert await keys.lease("m") is None


async def test_a_service_that_wants_no_key_gets_an_empty_one() -> None:
    keys, _ = pool()
    assert (await lent(keys)).credential == Credential()
    assert not await keys.failed(await lent(keys), "m", REFUSED)


async def test_new_settings_keep_what_services_asked_for_and_look_at_refused_keys_anew() -> None:
    old, time = pool(Key("one"), Key("two"))
    await old.failed(await lent(old), "m", SLOW)
    await old.failed(await lent(old), "m", REFUSED)
    new = CredentialPool([Key("two"), Key("one")], time)
    new.keep_cooldowns(old)
    assert [rest.label for rest in new.resting(time.now)] == ["one"]


@pytest.mark.parametrize("asked", [1e300, float("inf"), float("nan")])
async def test_no_key_rests_for_longer_than_an_hour(asked: float) -> None:
    keys, time = pool(Key("one"))
    one = await lent(keys)
    await keys.failed(one, "m", ModelError("rate_limit", "slow", retry_after=asked))
    assert keys.bound("m", time.now)[0] == time.now + 3600.0
    (resting,) = keys.resting(time.now)
    assert resting.until == time.now + 3600.0
