"""Random choice for drills: names, ports and sizes. What is held out has pools of its own."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

NAMES = {
    False: ("shop", "ledger", "orders", "billing", "catalog", "cart", "search", "mailer", "profile",
            "stock", "invoice", "gateway", "reviews", "pricing", "tickets", "uploads"),
    True: ("lantern", "quarry", "orchard", "tannery", "saddle", "mason", "cooper", "ferry", "mill",
           "granary", "smithy", "tiller", "drover", "weaver", "chandler", "glazier"),
}  # fmt: skip
HOSTS = {
    False: ("app-01", "web-2", "node-17", "prod-a3", "eu-west-5", "srv-08", "core-4", "api-12"),
    True: ("osl-r2-n4", "vm-0c11", "green-7", "hyp3-guest2", "pdx-b-19", "edge-lis-1"),
}
JOBS = {
    False: ("report", "export", "rollup", "sync", "index", "feed", "digest", "summary"),
    True: ("backfill", "statements", "enrich", "thumbs", "audit", "translate", "reconcile"),
}
PORTS = {False: range(7000, 9000), True: range(10200, 19800)}
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


class Pick:
    def __init__(self, seed: str, *, held: bool = False) -> None:
        self.random = Random(seed)
        self.held = held

    def choice(self, among: Sequence[T]) -> T:
        return self.random.choice(among)

    def some(self, among: Sequence[T], count: int) -> list[T]:
        """So many different ones."""
        return self.random.sample(among, count)

    def names(self, count: int) -> list[str]:
        return self.some(NAMES[self.held], count)

    def jobs(self, count: int) -> list[str]:
        return self.some(JOBS[self.held], count)

    def ports(self, count: int) -> list[int]:
        return self.some(PORTS[self.held], count)

    def host(self) -> str:
        return self.choice(HOSTS[self.held])

    def token(self, length: int = 6) -> str:
        return "".join(self.random.choices(LETTERS, k=length))

    def size(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def version(self) -> str:
        return f"{self.size(1, 9)}.{self.size(0, 20)}.{self.size(0, 9)}"
