"""Random choice for drills: names, ports and sizes from pools. What is held out for evaluation has
pools of its own."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

SERVICES = (
    "shop", "ledger", "orders", "billing", "catalog", "cart", "search", "mailer", "profile",
    "stock", "invoice", "gateway", "reviews", "pricing", "tickets", "uploads",
)  # fmt: skip
HELD_SERVICES = (
    "lantern", "quarry", "orchard", "tannery", "saddle", "mason", "cooper", "ferry", "mill",
    "granary", "smithy", "tiller", "drover", "weaver", "chandler", "glazier",
)  # fmt: skip
HOSTS = ("app-01", "web-2", "node-17", "prod-a3", "eu-west-5", "srv-08", "core-4", "api-12")
HELD_HOSTS = ("osl-r2-n4", "vm-0c11", "green-7", "hyp3-guest2", "pdx-b-19", "edge-lis-1")
WORDS = (
    "nightly", "export", "report", "batch", "sync", "import", "cleanup", "rollup", "index", "feed",
)  # fmt: skip
HELD_WORDS = (
    "backfill", "purge", "invoice-run", "enrich", "thumbs", "statements", "audit", "translate",
)  # fmt: skip
PORTS = range(7000, 9000)
HELD_PORTS = range(10200, 19800)
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


class Pick:
    def __init__(self, random: Random, *, held: bool) -> None:
        self.random = random
        self.held = held

    def choice(self, among: Sequence[T]) -> T:
        return self.random.choice(among)

    def some(self, among: Sequence[T], count: int) -> list[T]:
        """So many different ones."""
        return self.random.sample(among, count)

    def service(self) -> str:
        return self.services(1)[0]

    def services(self, count: int) -> list[str]:
        return self.some(HELD_SERVICES if self.held else SERVICES, count)

    def port(self) -> int:
        return self.ports(1)[0]

    def ports(self, count: int) -> list[int]:
        return self.some(HELD_PORTS if self.held else PORTS, count)

    def host(self) -> str:
        return self.choice(HELD_HOSTS if self.held else HOSTS)

    def word(self) -> str:
        return self.words(1)[0]

    def words(self, count: int) -> list[str]:
        return self.some(HELD_WORDS if self.held else WORDS, count)

    def token(self, length: int = 6) -> str:
        return "".join(self.random.choices(LETTERS, k=length))

    def size(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def version(self) -> str:
        return f"{self.size(1, 9)}.{self.size(0, 20)}.{self.size(0, 9)}"
