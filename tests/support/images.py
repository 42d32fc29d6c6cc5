"""A small image of static programs, made in a moment and from nothing but what is installed."""

import io
import shutil
import subprocess
import tarfile
from functools import cache
from pathlib import Path

IMAGE = "localhost/hermes-test:latest"
NAMED_USER = "worker"
NAMED_NUMBERS = (1234, 4321)
FOLDERS = ("bin", "etc", "home", "tmp", "usr", "usr/bin", "var")
FILES = {
    "etc/passwd": f"root:x:0:0::/:/bin/bash\n{NAMED_USER}:x:1234:4321::/:/bin/bash\n",
    "etc/group": f"root:x:0:\n{NAMED_USER}:x:4321:\n",
}


def program(name: str, package: str) -> Path:
    found = shutil.which(name)
    assert found, f"{name} is not here: apt-get install {package}"
    return Path(found)


@cache
def small_root() -> bytes:
    """A root file system as tar: busybox, bash and a few folders."""
    busybox = program("busybox", "busybox-static")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        add(tar, "bin/busybox", busybox.read_bytes(), 0o755)
        add(tar, "bin/bash", program("bash-static", "bash-static").read_bytes(), 0o755)
        listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
        for name in set(listed.stdout.split()) - {"bash", "busybox"}:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for path, text in FILES.items():
            add(tar, path, text.encode(), 0o644)
    return packed.getvalue()


def add(tar: tarfile.TarFile, path: str, data: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))
