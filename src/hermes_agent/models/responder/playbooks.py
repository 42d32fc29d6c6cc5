"""What is known of each category of incidents, as skills: signs, procedure, pitfalls and a runbook
that finds out everything about the case at hand by itself."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

FOLDER = Path(__file__).parent / "playbooks"


class Playbook(Struct, frozen=True, forbid_unknown_fields=True):
    description: str
    title: str
    tags: str
    signs: tuple[str, ...]
    procedure: tuple[str, ...]
    pitfalls: tuple[str, ...]
    verification: tuple[str, ...]
    runbook: str

    def files(self, name: str) -> Mapping[str, str]:
        """The files of the skill."""
        front = (
            f"---\nname: {name}\ndescription: {self.description}\nmetadata:\n"
            "  hermes-category: incidents\n"
            f"  hermes-tags: {self.tags}\n"
            "  hermes-platforms: linux\n"
            "  hermes-requires-tools: terminal\n"
            "  hermes-parameters: |\n"
            "    service: the service of the alert, as its supervisor calls it\n"
            "---\n"
        )
        steps = "\n".join(f"{at}. {text}" for at, text in enumerate(self.procedure, 1))
        body = (
            f"\n# {self.title}\n\n## When to Use\n\n{_list(self.signs)}\n\n## Procedure\n\n{steps}"
            f"\n\n## Pitfalls\n\n{_list(self.pitfalls)}\n\n## Verification\n\n"
            f"{_list(self.verification)}\n"
        )
        return {"SKILL.md": front + body, "runbook.yaml": self.runbook}


def _list(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {item}" for item in items)


@cache
def playbook(category: str) -> Playbook | None:
    path = FOLDER / f"{category}.yaml"
    if "/" in category or not path.is_file():
        return None
    return msgspec.yaml.decode(path.read_bytes(), type=Playbook)
