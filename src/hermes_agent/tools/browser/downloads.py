"""Files that pages hand out. They come under a name of the browser's making and get a harmless one
when they are whole."""

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
    """`folder` is None where files cannot be taken."""

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
        """Those that began or ended since this was asked last."""
        changed = tuple(self._changed.values())
        self._changed.clear()
        return changed

    def begin(self, params: dict[str, Any]) -> None:
        name = harmless(str(params.get("suggestedFilename", "")))
        guid = str(params["guid"])
        self._known[guid] = self._changed[guid] = Download(name, str(params.get("url", "")))

    def progress(self, params: dict[str, Any]) -> bool:
        """Take news of a download in; True where it must be stopped."""
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
        """Give the whole file its name, or another where there is one of that name."""
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
    """A file name that leads nowhere else and hides nothing."""
    bare = name.replace("\\", "/").rpartition("/")[2]
    kept = _STRANGE.sub("_", bare).strip(". ")
    file = Path(kept or "download")
    return f"{file.stem[: MAX_NAME - ENDING]}{file.suffix[:ENDING]}"
