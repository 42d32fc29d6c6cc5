"""Downloads. The browser stores them under ids; complete files get a safe name."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_BYTES = 100 * 1024 * 1024
MAX_NAME = 80
ENDING = 15
_STRANGE = re.compile(r"[^\w.()+,@ -]+")


@dataclass
class Download:
    name: str
    url: str
    state: str = "running"
    """running, done, failed or too large."""
    size: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.state == "done":
            return f"downloaded {self.path} ({self.size} bytes)"
        if self.state == "too large":
            return f"download of {self.name!r} refused: more than {MAX_BYTES // 1024**2} MB"
        return f"download of {self.name!r} {self.state} ({self.size} bytes)"


class Downloads:
    """`folder` is None where downloads are not possible."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._known: dict[str, Download] = {}
        self._changed: dict[str, Download] = {}

    @property
    def all(self) -> tuple[Download, ...]:
        return tuple(self._known.values())

    @property
    def running(self) -> bool:
        return any(download.state == "running" for download in self._known.values())

    def news(self) -> tuple[Download, ...]:
        """Downloads that began or ended since the last call."""
        changed = tuple(self._changed.values())
        self._changed.clear()
        return changed

    def begin(self, params: dict[str, Any]) -> None:
        name = harmless(str(params.get("suggestedFilename", "")))
        guid = str(params["guid"])
        self._known[guid] = self._changed[guid] = Download(name, str(params.get("url", "")))

    def progress(self, params: dict[str, Any]) -> bool:
        """Process an event; True where the download must be cancelled."""
        guid = str(params["guid"])
        download = self._known.get(guid)
        if download is None or download.state != "running":
            return False
        download.size = int(params.get("receivedBytes", 0))
        too_large = max(download.size, int(params.get("totalBytes", 0))) > MAX_BYTES
        state = params.get("state")
        if too_large:
            download.state = "too large"
            self._remove(guid)
        elif state == "canceled":
            download.state = "failed"
            self._remove(guid)
        elif state == "completed":
            self._take(guid, download)
        if download.state != "running":
            self._changed[guid] = download
        return too_large and state == "inProgress"

    def _take(self, guid: str, download: Download) -> None:
        """Give a complete file its name, with a number where that is taken."""
        assert self.folder is not None
        file = Path(download.name)
        goal = self.folder / file
        number = 1
        while goal.exists():
            number += 1
            goal = self.folder / f"{file.stem}-{number}{file.suffix}"
        try:
            (self.folder / guid).rename(goal)
        except OSError:
            download.state = "failed"
            return
        download.state, download.path = "done", str(goal)
        download.size = goal.stat().st_size

    def _remove(self, guid: str) -> None:
        if self.folder is not None:
            for left in self.folder.glob(f"{guid}*"):
                left.unlink(missing_ok=True)


def harmless(name: str) -> str:
    """A file name without path or hidden parts."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    kept = _STRANGE.sub("_", bare).strip(". ")
    file = Path(kept or "download")
    return f"{file.stem[: MAX_NAME - ENDING]}{file.suffix[:ENDING]}"
