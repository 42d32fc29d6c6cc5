"""What is kept in git belongs to the project, not to the machine it was written on."""

import re

from tests.support.source import ROOT, tracked_files

# Written in pieces, so that this file does not contain what it looks for.
REGISTRIES = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com"]
HOMES = r"/(?:home|Users)/\w+|/root"
MACHINE_PATHS = re.compile(rf"(?:{HOMES})/(?:\.venv|\.pyenv|\.cache|src|work|code|projects|git)/")


def texts() -> list[tuple[str, str]]:
    return [
        (path.relative_to(ROOT).as_posix(), path.read_bytes().decode(errors="replace"))
        for path in tracked_files()
    ]


def test_no_file_names_the_host_of_a_package_registry() -> None:
    named = [(path, host) for path, text in texts() for host in REGISTRIES if host in text.lower()]
    assert named == []


def test_no_file_names_a_path_of_a_developers_machine() -> None:
    here = f"{ROOT}/" if len(ROOT.parts) > 2 else None
    named = [
        path
        for path, text in texts()
        if MACHINE_PATHS.search(text) or (here is not None and here in text)
    ]
    assert named == []


def test_no_file_is_a_build_product_or_a_secret() -> None:
    unwanted = {".pyc", ".db", ".whl", ".log", ".sock", ".pem", ".key", ".env"}
    assert [str(path) for path in tracked_files() if {path.suffix, path.name} & unwanted] == []
