"""A service that takes jobs, as keeper.py takes items, and gives out what became of them.

    GET /results/KEY   the result, when there is one

Further settings: results (folder).
"""

from configparser import SectionProxy
from pathlib import Path

from hermes_agent.incidents.drills.services.keeper import Answer, Service, serve


class Desk(Service):
    def __init__(self, own: SectionProxy) -> None:
        super().__init__(own)
        self.routes["GET", "results"] = self.result

    def result(self, key: str, body: bytes) -> Answer:
        return 200, (Path(self.own["results"]) / key).read_bytes()


if __name__ == "__main__":
    serve(Desk)
