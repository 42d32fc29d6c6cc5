"""Services of our own that run in boxes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_agent.incidents.drills.world import File, Program

SOURCE = Path(__file__).parent / "server.py"


def source(version: str = "1.0.0") -> str:
    """The web service as a text, for a box."""
    text = SOURCE.read_text()
    return text.replace('VERSION = "1.0.0"', f'VERSION = "{version}"', 1)


def web(
    name: str,
    port: int,
    *,
    version: str = "1.0.0",
    code: str = "",
    settings: Mapping[str, object] | None = None,
    **program: Any,
) -> tuple[Program, dict[str, File], dict[str, int]]:
    """A web service in its usual places: its program, files and folders. `code` is where its
    program lies, else /srv/NAME/server.py; `settings` go into its configuration."""
    code = code or f"/srv/{name}/server.py"
    config = {
        "port": port, "data": f"/var/lib/{name}", "log": f"/var/log/{name}/{name}.log",
        "level": "info", "workers": 8, **(settings or {}),
    }  # fmt: skip
    lines = "".join(f"{key} = {value}\n" for key, value in config.items())
    files = {f"/etc/{name}/{name}.conf": File(f"[service]\n{lines}")}
    if not code.startswith(f"/srv/{name}/current"):
        files[code] = File(source(version))
    folders = {f"/var/lib/{name}": 0o755, f"/var/log/{name}": 0o755, f"/run/{name}": 0o755}
    made = {
        "name": name, "command": f"python3 {code} /etc/{name}/{name}.conf",
        "directory": f"/srv/{name}", "ready": f"tcp:{port}",
        "about": f"web service at port {port}; configuration /etc/{name}/{name}.conf, "
        f"data /var/lib/{name}, log /var/log/{name}/{name}.log", **program,
    }  # fmt: skip
    return Program(**made), files, folders
