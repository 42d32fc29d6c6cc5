"""Whatever a channel hands in, the router deals with it and goes on."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_agent.core.gateway import Chat, InboundMessage, Person
from hermes_agent.core.messages import Media
from hermes_agent.gateway.inbound.inbox import storable
from tests.support.fake_channel import room
from tests.support.runtime_fixture import script

ODD = st.text(st.characters(), max_size=30)
TEXT = st.one_of(
    ODD,
    st.text(max_size=200),
    st.sampled_from(
        ["/", "//", "/new", "/resume x", "/approve", "/answer a b", "/parked skip x", "/model a b",
         "/status@bot", "/task", "q:", "q::", "q:0:0", "p:0:retry", "2345-6789-ABCD", "/pair owner",
         "/deny \x00", "/effort max", "/sessions", "(edited)", "\n\n", "/stop", "/interrupt"]
    ),
)  # fmt: skip
MEDIA = st.builds(Media, ODD, st.binary(max_size=40), ODD)
ARRIVED = st.builds(
    InboundMessage,
    st.integers(0, 40).map(str) | ODD,
    st.builds(Chat, st.just("pad"), st.sampled_from(["a", "b"]) | ODD, ODD),
    st.builds(Person, st.sampled_from(["ada", "bob"]) | ODD, ODD),
    TEXT,
    st.sampled_from(["message", "press", "edited", "alert"]),
    st.booleans(),
    st.booleans(),
    st.lists(MEDIA, max_size=2).map(tuple),
    st.lists(MEDIA, max_size=1).map(tuple),
    ODD,
    st.floats(),
)


@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(ARRIVED, min_size=30, max_size=40))
async def test_nothing_that_arrives_breaks_the_router(
    tmp_path_factory: pytest.TempPathFactory, many: list[InboundMessage]
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    model = script(folder, "m", {"say": "Hello"})
    async with room(folder, model, channel={"listen": "all", "allow": ["group:a"]}) as r:
        await r.know("ada")
        await r.know("bob", role="member")
        for arrived in many:
            kept = await r.runtime.context.store.gateway.add_inbound(storable(arrived))
            if kept is not None:
                dealt = await r.router.handle(kept)
                await r.runtime.context.store.gateway.dealt(kept.number, *dealt)
        assert not await r.runtime.context.store.gateway.new()
        await r.rest()
