"""The program that the guide shows works as it stands."""

import asyncio
import re
import sys
from pathlib import Path

from tests.support.source import ROOT
from tests.web.test_openai import TOKEN, served


async def test_the_program_of_the_guide_works(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "guides" / "http-api.md").read_text()
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    async with served(tmp_path) as (_, url):
        program = found.group(1).replace("http://127.0.0.1:9912/v1", url)
        ran = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program.replace('api_key="…"', f'api_key="{TOKEN}"'),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        told, _ = await ran.communicate()
    assert (ran.returncode, told.decode()) == (0, "The answer is forty-two, as ever.\n")
