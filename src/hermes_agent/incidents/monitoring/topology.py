"""Services and their dependencies: from `topology.yaml` in the home, from checks, and from earlier
incidents.

services:
  shop: {needs: [database], owner: ann, about: "nginx, /etc/nginx/sites-enabled/shop", vital: true}
  database: {terminal: db-1}
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from hermes_agent.core.incidents import MonitoredService
from hermes_agent.policy.files.reader import PolicyReader
from hermes_agent.policy.files.schema import PolicyProblem
from hermes_agent.policy.yaml_nodes import BadYaml, Node, parse

NAME = "topology.yaml"
DRILL = "drill-"
"""Prefix of the terminals of drills."""
_TEXTS = ("owner", "about", "terminal")
_SERVICE = ("needs", *_TEXTS, "vital")


def load(home: Path) -> tuple[tuple[MonitoredService, ...], tuple[PolicyProblem, ...]]:
    """The services in the home's topology, and the problems in the file."""
    return _load(home / NAME)


def load_drill(home: Path, terminal: str) -> tuple[MonitoredService, ...]:
    """The services of a drill, none of which is real."""
    id = terminal.removeprefix(DRILL)
    return () if not id or "/" in id else _load(home / "drills" / id / NAME)[0]


def _load(path: Path) -> tuple[tuple[MonitoredService, ...], tuple[PolicyProblem, ...]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        if isinstance(error, FileNotFoundError):
            if not path.is_symlink():
                return (), ()
            why = "broken link"
        return (), (PolicyProblem(NAME, 1, 1, f"cannot be read: {why}", "fix or remove it"),)
    return read(text)


def read(text: str) -> tuple[tuple[MonitoredService, ...], tuple[PolicyProblem, ...]]:
    try:
        root = parse(NAME, text)
    except BadYaml as bad:
        return (), (bad.problem,)
    if root is None or root.is_null:
        return (), ()
    reader = PolicyReader(NAME)
    given = reader.mapping(root, "a topology", ("services",))
    services = given.get("services")
    if services is None or services.is_null:
        return (), tuple(reader.problems)
    if services.pairs is None:
        reader.wrong(services, "services must be a mapping of names to facts")
    found = [_service(reader, key.text or "", node) for key, node in services.pairs or ()]
    return tuple(found), tuple(reader.problems)


def _service(reader: PolicyReader, name: str, node: Node) -> MonitoredService:
    if node.is_null:
        return MonitoredService(name)
    said = reader.mapping(node, f"the service {name}", _SERVICE)
    needs = said.get("needs")
    owner, about, terminal = (
        reader.string(said[key], key) if key in said else "" for key in _TEXTS
    )
    needed = () if needs is None or needs.items == [] else reader.strings(needs, "needs")
    vital = "vital" in said and reader.boolean(said["vital"], "vital")
    return MonitoredService(name, needed, owner, about, terminal, vital=vital)


def together(*sources: Iterable[MonitoredService]) -> tuple[MonitoredService, ...]:
    """Merge sources by name: dependencies are joined, other fields come from the first that has
    them."""
    found: dict[str, MonitoredService] = {}
    for service in (one for source in sources for one in source):
        known = found.get(service.name)
        found[service.name] = service if known is None else MonitoredService(
            service.name,
            tuple(dict.fromkeys((*known.needs, *service.needs))),
            known.owner or service.owner,
            known.about or service.about,
            known.terminal or service.terminal,
            known.learned and service.learned,
            known.vital or service.vital,
        )  # fmt: skip
    return tuple(found.values())


def named(topology: Sequence[MonitoredService], name: str) -> MonitoredService | None:
    return next((one for one in topology if one.name == name), None)
