"""Search: any script, any query, every filter, the best first."""

import random
from pathlib import Path

import pytest

from hermes_agent.core.events import (
    CallFinished,
    Compacted,
    MessageTaken,
    NoticeIssued,
    Replied,
    TurnFinished,
)
from hermes_agent.core.messages import ToolCall
from hermes_agent.core.records import ImportedTurn, SearchFilter, SessionMessage
from hermes_agent.store.store import Store
from tests.store.helpers import Clock, a_session, a_turn, opened


async def say(store: Store, *texts: str) -> str:
    session = await a_session(store)
    turn = await a_turn(store, session, "begin")
    await store.append(turn, *(Replied(n, text) for n, text in enumerate(texts)))
    return session.id


async def numbers(store: Store, query: str, **wanted: object) -> list[int]:
    found = await store.search(query, SearchFilter(**{"limit": 1_000, **wanted}))
    return sorted(one.number for one in found)


TEXTS = [
    "The quick brown fox jumps over the lazy dog",  # 4
    "Café déjà-vu in the Ångström unit",  # 5
    "run foo-bar --baz=3 on host a.b.c:8080 with user_name",  # 6
    "quickly now: brown bread AND butter, NOT jam",  # 7
    'she said "brown fox" twice; fox, fox!',  # 8
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("quick", [4]),
        ("QUICK Fox", [4]),
        ("quick*", [4, 7]),
        ("qu*", [4, 7]),
        ("q*", []),
        ("brown fox", [4, 8]),
        ('"brown fox"', [4, 8]),
        ('"fox brown"', []),
        ('"quick brown" lazy', [4]),
        ("cafe deja", [5]),
        ("CAFÉ angstrom", [5]),
        ("cafe\u0301", [5]),
        ("foo-bar", [6]),
        ("bar-foo", []),
        ("a.b.c:8080", [6]),
        ("user_name", [6]),
        ("--baz=3", [6]),
        ("AND", [7]),
        ("butter NOT jam", [7]),
        ('"brown fo', []),
        ('fox "', [4, 8]),
        ("fox*) OR (", []),
        ("text:fox", []),
        ("^fox", [4, 8]),
        ("", []),
        ('""', []),
        ("* ?! --", []),
    ],
)
async def test_words_phrases_and_prefixes_are_found(
    tmp_path: Path, query: str, expected: list[int]
) -> None:
    async with opened(tmp_path) as store:
        await say(store, *TEXTS)
        assert await numbers(store, query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("数据", [4, 5]),
        ("数据库", [4]),
        ("据", [4, 5]),
        ("库", [4]),
        ("昨", [4]),
        ("python数据", [5]),
        ("python", [5, 6]),
        ("用python", [5]),
        ("python 数据", [5]),
        ("库昨", []),
        ("パイソン", [6]),
        ("ソ", [6, 8]),
        ("ﾊﾟｲｿﾝ", [6]),
        ("東京タワー", [6]),
        ("京都", []),
        ("데이터베이스", [7]),
        ("데이터", [7]),
        ("\u1103\u1166\u110b\u1175", [7]),
        ("オープン・ソース", [8]),
        ('"数据库"', [4]),
        ("数据*", [4, 5]),
    ],
)
async def test_text_without_spaces_is_found_by_any_part_of_it(
    tmp_path: Path, query: str, expected: list[int]
) -> None:
    texts = [
        "数据库,昨天坏了",
        "请用python数据处理",
        "パイソン python で東京タワー",
        "데이터베이스가 고장났다",
        "オープン・ソースの話",
    ]
    async with opened(tmp_path) as store:
        await say(store, *texts)
        assert await numbers(store, query) == expected


async def test_everything_that_contains_chinese_words_is_found_and_nothing_else(
    tmp_path: Path,
) -> None:
    pick = random.Random(11)
    signs = [chr(0x4E00 + n) for n in pick.sample(range(18_000), 60)]
    texts = []
    for _ in range(2_000):
        runs = ("".join(pick.choices(signs, k=pick.randint(1, 9))) for _ in range(4))
        texts.append(pick.choice([" ", "，", "", "ok"]).join(runs))  # noqa: RUF001
    async with opened(tmp_path) as store:
        await say(store, *texts)
        for length in (1, 2, 3, 4):
            for _ in range(25):
                source = pick.choice(texts)
                start = pick.randrange(max(1, len(source) - length))
                word = source[start : start + length]
                if not all(sign in signs for sign in word):
                    continue
                fits = {n for n, text in enumerate(texts, 4) if word in text}
                found = set(await numbers(store, word))
                assert found <= fits, word
                assert found == fits or len(found) >= 400, word


async def test_no_query_is_too_strange(tmp_path: Path) -> None:
    pick = random.Random(5)
    pieces = [
        *'"*()-+:^{}[]\\/.,;!?#@%&|~`<>=_ \t\n\x00\'', "AND", "OR", "NOT", "NEAR(", "fox", "text:",
        "\ue001", "\uf8ff", "数据", "é", "\u0301", "😀", "\u200b", "\ud7ff", "ab", "9", "NEAR/3",
    ]  # fmt: skip
    async with opened(tmp_path) as store:
        await say(store, *TEXTS)
        for _ in range(1_500):
            query = "".join(pick.choices(pieces, k=pick.randint(0, 14)))
            found = await store.search(query, SearchFilter(role=pick.choice(["", "assistant"])))
            assert len(found) <= 5
        assert await numbers(store, "fox " * 5_000) == [4, 8]


async def test_private_characters_in_a_message_are_not_our_marks(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await say(store, "prompt \ue001 \ue003 \ue0b0 branch", "other")
        assert await numbers(store, "branch", role="tool") == []
        assert await numbers(store, "branch", role="assistant") == [4]
        assert await numbers(store, "\ue002") == []


async def test_filters_narrow_the_search(tmp_path: Path) -> None:
    clock = Clock(1_000_000.0)
    async with opened(tmp_path, clock=clock) as store:
        first = await a_session(store, source="cli")
        turn = await a_turn(store, first, "apple from a person")
        calls = (ToolCall.of("c", "terminal", command="grep apple"),)
        clock.now += 100_000
        await store.append(
            turn,
            Replied(1, "", calls),
            CallFinished("e1", "c", "terminal", "apple found", ok=True),
            CallFinished("e2", "d", "read_file", "apple missing", ok=False),
            Compacted(0, 1, "they spoke of an apple"),
            NoticeIssued("apple in a note is not a message"),
            TurnFinished(turn.id, "done", "apple"),
        )
        clock.now += 100_000
        second = await a_session(store, source="telegram")
        await store.receive(second.id, SessionMessage("k", "apple by mail", "mail"))
        turn = await store.start_turn(second.id)
        assert turn is not None
        await store.append(turn, Replied(1, "apple pie"))

        async def found(**wanted: object) -> list[tuple[str, int]]:
            hits = await store.search("apple", SearchFilter(**wanted))
            names = {first.id: "first", second.id: "second"}
            return sorted((names[hit.session], hit.number) for hit in hits)

        one, two = ("first", 3), ("second", 3)
        assert len(await found()) == 7
        assert await found(role="user") == [one, two]
        assert await found(role="assistant") == [("first", 4), ("second", 4)]
        assert await found(role="tool") == [("first", 5), ("first", 6)]
        assert await found(tool="read_file") == [("first", 6)]
        assert await found(tool="unheard_of") == []
        assert await found(ok=True) == [("first", 5)]
        assert await found(ok=False, tool="terminal") == []
        assert await found(source="telegram") == [("second", 4)]
        assert await found(source="mail") == [two]
        assert await found(session=second.id) == [two, ("second", 4)]
        assert await found(session=first.id, role="user") == [one]
        assert await found(since=1_150_000.0) == [two, ("second", 4)]
        assert await found(until=1_050_000.0) == [one]
        assert len(await found(since=1_050_000.0, until=1_150_000.0)) == 4
        assert await found(since=9e9) == []
        assert len(await found(limit=2)) == 2


async def test_a_hit_tells_where_it_is_and_what_stands_around_it(tmp_path: Path) -> None:
    clock = Clock()
    async with opened(tmp_path, clock=clock) as store:
        session = await a_session(store)
        turn = await a_turn(store, session, "Why did it stop?")
        await store.append(turn, Replied(1, "I look", (ToolCall.of("c", "terminal", command="x"),)))
        await store.append(turn, NoticeIssued("between"))
        text = "line\n" * 200 + "kernel: Out of memory: killed process\n" + "line\n" * 200
        await store.append(turn, CallFinished("e", "c", "terminal", text))
        await store.append(turn, Replied(2, "It was killed for memory"))
        (hit,) = await store.search("out memory", SearchFilter(around=2))
        assert (hit.session, hit.title) == (session.id, "Why did it stop?")
        assert (hit.number, hit.time, hit.role, hit.tool) == (6, clock.now, "tool", "terminal")
        assert "kernel: «Out» of «memory»: killed" in hit.snippet
        assert len(hit.snippet) < 250
        assert [(m.number, m.role) for m in hit.around] == [
            (3, "user"),
            (4, "assistant"),
            (7, "assistant"),
        ]
        assert hit.around[0].text == "Why did it stop?"
        (hit,) = await store.search("stop", SearchFilter(around=1))
        assert [m.number for m in hit.around] == [4]


@pytest.mark.parametrize(
    ("query", "text", "snippet"),
    [
        ("fox", "a Fox, a foxglove", "a «Fox», a foxglove"),
        ("fox*", "a Fox, a foxglove", "a «Fox», a «foxglove»"),
        ("cafe", "ein Café", "ein «Café»"),
        ("数据库", "我的数据库坏了", "我的«数据库»坏了"),
        ("坏", "我的数据库坏了", "我的数据库«坏»了"),
        ("foo-bar", "use foo-bar", "use «foo»-«bar»"),
        ("ﬁle", "one file", "one «file»"),
    ],
)
async def test_snippets_mark_what_was_asked_for(
    tmp_path: Path, query: str, text: str, snippet: str
) -> None:
    async with opened(tmp_path) as store:
        await say(store, text)
        (hit,) = await store.search(query)
        assert hit.snippet == snippet


async def test_short_and_recent_messages_that_say_it_often_come_first(tmp_path: Path) -> None:
    clock = Clock()
    filler = " ".join(f"word{n}" for n in range(200))
    async with opened(tmp_path, clock=clock) as store:
        session = await say(store, f"needle {filler}", "needle needle needle", "needle here")
        best = await store.search("needle")
        assert [hit.number for hit in best] == [5, 6, 4]
        assert best[0].score > best[1].score > best[2].score
        clock.now += 400 * 86_400
        turn = await store.unfinished_turn(session)
        assert turn is not None
        await store.append(turn, Replied(9, "needle here"))
        order = [hit.number for hit in await store.search("needle")]
        assert order.index(7) < order.index(6)


async def test_a_very_common_word_gives_the_newest_and_stays_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        session = await a_session(store)
        turn = await a_turn(store, session)
        await store.append(turn, *(MessageTaken(f"k{n}", f"common {n}") for n in range(1_000)))
        hits = await numbers(store, "common", limit=400)
        assert hits == list(range(604, 1_004))
        assert await numbers(store, "common 5") == [9]


async def test_the_index_stays_whole_while_it_is_merged_and_sessions_go(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        ids = []
        for n in range(60):
            ids.append(await say(store, f"shared word{n}", "more text here"))
            if n % 3 == 2:
                await store.delete_session(ids.pop(0))
        found = await store.search("shared", SearchFilter(limit=100))
        assert sorted(hit.session for hit in found) == sorted(ids)
        assert await store.check() == []


async def test_imported_messages_are_found_by_their_own_time(tmp_path: Path) -> None:
    clock = Clock(1_000_000.0)
    async with opened(tmp_path, clock=clock) as store:
        await say(store, "plum now")
        theirs = await a_session(store, source="nanobot")
        turns = [
            ImportedTurn(str(number), time, f"plum {number}", ((time, "plum, too"),))
            for number, time in enumerate([100_000.0, 500_000.0])
        ]
        assert await store.import_turns(theirs.id, "a plum", turns, dry=False) == (2, False)
        assert await store.import_turns(theirs.id, "a plum", turns, dry=False) == (0, False)
        clock.now += 100_000
        await say(store, "plum later")

        async def times(**wanted: object) -> list[float]:
            return sorted(hit.time for hit in await store.search("plum", SearchFilter(**wanted)))

        old, now, later = [100_000.0, 100_000.0, 500_000.0, 500_000.0], 1_000_000.0, 1_100_000.0
        assert await times() == [*old, now, later]
        assert await times(since=1_050_000.0) == [later]
        assert await times(since=400_000.0, until=1_050_000.0) == [*old[2:], now]
        assert await times(until=200_000.0) == old[:2]
        session = await store.session(theirs.id)
        assert (session.title, session.created, session.updated) == ("a plum", 100_000.0, 500_000.0)
        assert (session.state, session.turns, session.messages) == ("idle", 2, 4)
        assert await store.knowledge.due_tasks(9e9) == []
        assert await store.check() == []
