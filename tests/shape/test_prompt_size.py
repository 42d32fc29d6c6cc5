"""What every first request costs, counted by a real tokenizer: the one of the model that the tests
carry, whose small vocabulary counts more than those of large models do."""

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import xllamacpp
from msgspec.structs import replace

from hermes_agent.agent.prompt import PromptContext, build_prompt
from hermes_agent.core.messages import Prompt
from hermes_agent.core.settings.root import McpServerSettings, Settings
from hermes_agent.learning.knowledge import SHIPPED
from hermes_agent.learning.skills.file import parse
from hermes_agent.learning.skills.prompt_index import SkillIndexEntry, index
from hermes_agent.models.local.files import find_model
from hermes_agent.runtime.tools.builtin import TABLE, missing, specs
from hermes_agent.runtime.tools.searchable import SearchableTools
from hermes_agent.tools.mcp.provider import Servers

IN_PROMPT = [name for name, row in TABLE.items() if row.in_prompt]
AROUND = PromptContext("/srv/shop", "Linux x86_64", "2026-11-15")


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


def sent(prompt: Prompt) -> str:
    """As services get it."""
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in prompt.tools
    ]
    wire = [{"type": "function", "function": tool} for tool in tools]
    return f"{prompt.system}\n{json.dumps(wire)}"


def test_a_first_request_with_all_tools_costs_less_than_5000_tokens(
    count: Callable[[str], int],
) -> None:
    assert [name for name in TABLE if missing(name)] == []
    found = [
        parse((folder / "SKILL.md").read_text(), folder.name).facts
        for folder in sorted(SHIPPED.iterdir())
        if (folder / "SKILL.md").is_file()
    ]
    skills = index(
        [
            SkillIndexEntry(
                one.name, one.description, one.category, "given", "", one.incident, True
            )
            for one in found
        ]
    )
    more = SearchableTools(Settings).about()
    prompt = build_prompt(replace(AROUND, skills=skills), specs(IN_PROMPT), more)
    assert len(prompt.tools) == len(IN_PROMPT)
    assert "disk-full" in prompt.system
    assert 1_000 < count(sent(prompt)) < 5_000


def test_fifty_mcp_servers_add_less_than_1000_tokens(
    count: Callable[[str], int], tmp_path: Path
) -> None:
    servers = Servers(
        settings=lambda: {
            f"server-number-{number}": McpServerSettings(command=("false",)) for number in range(50)
        },
        folder=tmp_path,
        secret=lambda name: name,
        environ={},
        clock=lambda: 0.0,
    )
    plain = count(sent(build_prompt(AROUND, specs(IN_PROMPT))))
    more = count(sent(build_prompt(AROUND, specs(IN_PROMPT), servers.about())))
    assert 0 < more - plain < 1_000
