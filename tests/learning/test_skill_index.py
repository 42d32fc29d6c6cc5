"""The list of skills in a prompt is short, however many there are."""

import itertools
import json
import random
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import xllamacpp

from hermes_agent.learning.skills.prompt_index import MAX_TOKENS, SkillIndexEntry, index
from hermes_agent.models.local.files import find_model
from tests.support.skills import BUNDLED, skill_home

THINGS = (
    "kubernetes-pod", "postgres-replica", "nginx-proxy", "redis-cache", "kafka-consumer",
    "tls-certificate", "systemd-unit", "docker-image", "terraform-state", "git-branch",
    "dns-record", "s3-bucket", "cron-job", "jvm-heap", "grafana-alert", "prometheus-rule",
    "ssh-key", "helm-release", "vault-secret", "elasticsearch-index",
)  # fmt: skip
TROUBLES = (
    "crashloop", "lag", "timeout", "eviction", "rebalance", "expiry", "failed", "bloat",
    "drift", "conflict", "outage", "growth", "missed", "out-of-memory", "noise", "mismatch",
    "rotation", "rollback", "sealed", "unassigned", "latency", "restore", "audit", "upgrade",
    "cleanup",
)  # fmt: skip


def many(count: int, categories: int = 12, words: int = 18) -> Sequence[SkillIndexEntry]:
    pick = random.Random(7)
    names = itertools.islice(itertools.product(THINGS, TROUBLES, ("", "-2", "-3", "-4")), count)
    return [
        SkillIndexEntry(
            f"{thing}-{trouble}{more}",
            f"Find out why a {thing} has {trouble} and mend it. Use when "
            + " ".join(pick.choices(TROUBLES, k=words)) + ".",
            f"area-{at % categories}",
            "given",
            "",
        )
        for at, (thing, trouble, more) in enumerate(names)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def count() -> Callable[[str], int]:
    settings = xllamacpp.CommonParams()
    settings.model.path = str(find_model("smollm2"))
    settings.n_ctx, settings.warmup = 64, False
    server = xllamacpp.Server(settings)

    def count(text: str) -> int:
        body = json.dumps({"content": text}).encode()
        request = urllib.request.Request(f"{server.listening_address}/tokenize", body)
        with urllib.request.urlopen(request) as answer:
            return len(json.load(answer)["tokens"])

    return count


def test_few_skills_are_listed_with_what_they_are_for() -> None:
    entries = [
        SkillIndexEntry("a", "Does\n a.", "x", "given", ""),
        SkillIndexEntry("b", "Does b.", "", "proven", ""),
    ]
    assert index(entries) == "- a: Does a.\n- b: Does b."


@pytest.mark.parametrize("number", [1, 20, 60, 100, 200, 350, 500, 900, 2_000])
def test_any_number_of_skills_costs_at_most_3000_tokens(
    count: Callable[[str], int], number: int
) -> None:
    text = index(many(number))
    assert 0 < count(text) <= MAX_TOKENS
    if number > 200:
        assert count(text) > MAX_TOKENS // 2, "and says as much as it can"


def test_most_of_five_hundred_skills_are_named(count: Callable[[str], int]) -> None:
    entries = many(500)
    text = index(entries)
    assert count(text) <= 3_000
    assert 250 < sum(f"{entry.name}," in text for entry in entries) <= 500
    assert text.startswith("500 skills, too many to name. Find more with `recall`")


def test_what_is_said_of_each_shrinks_as_they_become_more() -> None:
    some = index(many(20)).splitlines()
    assert len(some) == 20
    assert all(line.endswith(".") for line in some)
    more = index(many(80)).splitlines()
    assert len(more) == 80
    assert all(line.endswith("…") for line in more)
    grouped = index(many(200)).splitlines()
    assert len(grouped) == 12
    assert "more" not in grouped[0]
    head, *cut = index(many(2_000)).splitlines()
    assert head == "2,000 skills, too many to name. Find more with `recall`, kind skill."
    assert len(cut) == 12
    shown = cut[0].partition(" and ")[0].count(",") + 1
    assert cut[0].endswith(f" and {167 - shown} more")
    odd = index(many(2_000, categories=2_000)).splitlines()
    assert odd[1] == "- area-0: 1"
    assert odd[-1].endswith(" more categories")


def test_other_scripts_cost_no_more(count: Callable[[str], int]) -> None:
    entries = [
        SkillIndexEntry(f"名前-{at}", "磁盘已满时查找原因并释放空间。" * 4, "运维", "given", "")
        for at in range(300)
    ]
    assert count(index(entries)) <= MAX_TOKENS


async def test_the_bundled_skills_cost_little(count: Callable[[str], int], tmp_path: Path) -> None:
    async with skill_home(tmp_path, shipped=BUNDLED) as (book, _folder, _knowledge):
        text = index(await book.offered(["terminal", "write_skill"]))
        assert len(text.splitlines()) == 3
        assert count(text) < 200
