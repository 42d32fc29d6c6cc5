"""Mem0 as its official SDK speaks to it: the same requests, the same answers."""

from pathlib import Path
from typing import Any

from hermes_agent.core.settings.root import MemorySettings
from hermes_agent.learning.providers.registry import open_provider
from tests.support.fake_mem0 import KEY, FakeMem0, ask_sdk
from tests.support.patience import PATIENCE

SAID = [("user", "The staging host is kestrel"), ("assistant", "Noted")]
CALLS: list[tuple[str, dict[str, Any]]] = [
    (
        "add",
        {
            "messages": [{"role": who, "content": text} for who, text in SAID],
            "user_id": "anna",
            "metadata": {"session": "one"},
        },
    ),
    ("search", {"query": " staging host ", "filters": {"user_id": "anna"}, "top_k": 3}),
    ("get_all", {"filters": {"user_id": "anna"}, "page": 1, "page_size": 1}),
]


def settings(server: FakeMem0) -> MemorySettings:
    return MemorySettings(
        provider="mem0", address=server.root, workspace="anna", timeout_seconds=PATIENCE
    )


async def test_we_ask_as_the_sdk_asks_and_hear_what_it_hears(tmp_path: Path) -> None:
    with FakeMem0() as ours, FakeMem0() as theirs:
        provider = open_provider(settings(ours), lambda _name: KEY)
        await provider.remember("one", SAID)
        found = await provider.recall(" staging host ", 3)
        checked = await provider.check()
        await provider.close()
        added, searched, listed = await ask_sdk(tmp_path, theirs.root, *CALLS)
        address = ours.root

    assert ours.asked() == theirs.asked()
    assert added["status"] == "PENDING"
    assert found == tuple(each["memory"] for each in searched["results"])
    assert found == ("The staging host is kestrel",)
    assert checked == f"{address} answers; {listed['count']} memories of 'anna'"


async def test_memories_of_one_user_are_not_those_of_another() -> None:
    with FakeMem0() as server:
        anna = open_provider(settings(server), lambda _name: KEY)
        await anna.remember("one", [("user", "my name is Anna")])
        berta = open_provider(
            MemorySettings(provider="mem0", address=server.root, workspace="berta"),
            lambda _name: KEY,
        )
        assert await berta.recall("my name", 5) == ()
        assert await anna.recall("my name", 5) == ("my name is Anna",)
        await anna.close()
        await berta.close()
