import subprocess
import sys

import pytest

HEAVY = ("httpx", "trafilatura", "lxml", "pypdf", "docx", "openpyxl", "pptx")


@pytest.mark.parametrize("module", ["web.search", "web.fetch", "files"])
def test_a_tool_that_is_not_used_loads_no_library(module: str) -> None:
    code = (
        f"import sys, hermes_agent.tools.{module}; print([n for n in {HEAVY} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
