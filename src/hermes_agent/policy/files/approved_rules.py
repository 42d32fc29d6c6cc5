"""Rules that a person allowed permanently, when asked."""

from pathlib import Path

from hermes_agent.core.errors import HermesError
from hermes_agent.core.files import write_durably
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.grants import appended

FILE = "approved.yaml"


def adopt(folder: Path, rules: str) -> Path:
    """Add these rules to the user's approved ones. The file is replaced whole or not at all, and
    not by one that would be refused."""
    path = folder / FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = appended(path.read_text(encoding="utf-8") if path.exists() else "", rules)
        _, problems = read_file(path.stem, str(path), text)
        if problems:
            raise HermesError(f"the rule cannot be added: {problems[0]}", problems[0].hint)
        write_durably(path, text.encode())
    except OSError as error:
        raise HermesError(
            f"{path} cannot be written: {error.strerror}", "answer yes to allow it once"
        ) from None
    return path
