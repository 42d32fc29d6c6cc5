"""Configuration files in the formats that people use: flat keys and values."""

import json
import re
from collections.abc import Mapping

from hermes_drills.types import Format

ENDINGS: Mapping[Format, str] = {
    "ini": "conf", "env": "env", "yaml": "yaml", "json": "json", "toml": "toml",
}  # fmt: skip


def rendered(format: Format, settings: Mapping[str, str]) -> str:
    if format == "json":
        return json.dumps(dict(settings), indent=2) + "\n"
    lines = ["[service]"] if format == "ini" else []
    return "\n".join([*lines, *(line(format, k, v) for k, v in settings.items()), ""])


def line(format: Format, key: str, value: str) -> str:
    """As one setting is written."""
    match format:
        case "env":
            return f"{key.upper()}={value}"
        case "yaml":
            return f"{key}: {value}"
        case "toml":
            return f'{key} = "{value}"'
        case "json":
            return f'  "{key}": {json.dumps(value)},'
        case _:
            return f"{key} = {value}"


def changed(format: Format, text: str, key: str, value: str | None) -> str:
    """The text with another value, or without the setting where it is None."""
    if format == "json":
        settings = json.loads(text)
        settings.pop(key, None)
        if value is not None:
            settings[key] = value
        return rendered(format, settings)
    pattern = re.compile(rf"^{re.escape(key)}\s*[:=].*$\n?", re.MULTILINE | re.IGNORECASE)
    new = "" if value is None else f"{line(format, key, value)}\n"
    if pattern.search(text):
        return pattern.sub(lambda _: new, text, count=1)
    return text + new


def value_of(format: Format, text: str, key: str) -> str | None:
    """What a file says a setting is."""
    if format == "json":
        try:
            found = json.loads(text).get(key)
        except ValueError:
            return None
        return None if found is None else str(found)
    pattern = re.compile(rf"^{re.escape(key)}\s*[:=]\s*(.*)$", re.MULTILINE | re.IGNORECASE)
    match = pattern.search(text)
    return match[1].strip().strip("\"'") if match else None
