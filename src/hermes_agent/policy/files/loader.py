"""The policy files of a home and the bundled ones, reread when they change.

For a session of a profile the rules apply in this order: the user's files for every profile or for
this one (by name), the profile's own file, then the same for each profile it extends, and
`always` last. Denies bind wherever they stand."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hermes_agent.core.effects import Unconfined
from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.policy.files.parse import read_file
from hermes_agent.policy.files.rule_lint import near
from hermes_agent.policy.files.schema import PolicyFile, PolicyProblem
from hermes_agent.policy.gate import RuleGate
from hermes_agent.policy.operations import KnownFolders
from hermes_agent.policy.ruleset import RuleSet

BUNDLED = Path(__file__).parents[2] / "policies"
ALWAYS = "always"
ENDINGS = (".yaml", ".yml")
TICK = 50_000_000
"""Nanoseconds within which a second change of a file may go unnoticed."""

Stamp = tuple[tuple[str, int, int, int], ...]


class PolicyFilesInvalid(HermesError):
    """Invalid policy files; until they are corrected every effect is denied."""

    def __init__(self, problems: tuple[PolicyProblem, ...]) -> None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{problems[0]}{more}", problems[0].hint or "`hermes policy check`")


class LoadedPolicies(Struct, frozen=True):
    """Files that were read together."""

    own: tuple[PolicyFile, ...]
    """The user's."""
    bundled: tuple[PolicyFile, ...]
    problems: tuple[PolicyProblem, ...]

    @property
    def files(self) -> tuple[PolicyFile, ...]:
        return (*self.own, *self.bundled)

    @property
    def profiles(self) -> dict[str, str]:
        """Names and descriptions, those of Hermes first."""
        found: dict[str, str] = {}
        for file in (*self.bundled, *self.own):
            if file.profile and not found.get(file.profile):
                found[file.profile] = file.description
        return found

    def order(self, profile: str) -> tuple[PolicyFile, ...]:
        """The files that apply to a profile, in order."""
        chain = self.chain(profile)
        found = [file for file in self.own if file.profile in ("", profile)]
        found += [file for file in self.bundled if file.profile == profile]
        for parent in chain[1:]:
            found += [file for file in self.files if file.profile == parent]
        return (*found, *(file for file in self.bundled if not file.profile))

    def chain(self, profile: str) -> tuple[str, ...]:
        """The profile and those it extends, nearest first."""
        parents = {file.profile: file.extends for file in self.files if file.extends}
        found = [profile]
        while (parent := parents.get(found[-1], "")) and parent not in found:
            found.append(parent)
        return tuple(found)

    def rules(self, profile: str) -> RuleSet:
        """The compiled rules of a profile."""
        found = (rule for file in self.order(profile) for rule in file.rules)
        return RuleSet(found, self.otherwise(profile))

    def otherwise(self, profile: str) -> Literal["ask", "deny"]:
        """The verdict where no rule applies: the nearest profile that says so decides."""
        for one in self.chain(profile):
            said = {file.otherwise for file in self.files if file.profile == one} - {""}
            if said:
                return "deny" if "deny" in said else "ask"
        return "ask"


class Policies:
    """The policies of one home. `folder` holds the user's files. Tests in the bundled files are
    left out unless requested: they are longer than the rules."""

    def __init__(
        self,
        folder: Path,
        homes: KnownFolders,
        bundled: Path = BUNDLED,
        *,
        tests: bool = False,
        clock: Callable[[], int] = time.time_ns,
        unconfined: Unconfined = lambda: None,
    ) -> None:
        self._unconfined = unconfined
        self.folder = folder
        self.homes = homes
        self._bundled = bundled
        self._tests = tests
        self._clock = clock
        self._kept: dict[
            Path, tuple[Stamp | None, tuple[PolicyFile, ...], tuple[PolicyProblem, ...]]
        ] = {}
        self._loaded: LoadedPolicies | None = None
        self._rules: dict[str, RuleSet] = {}

    @classmethod
    def of_home(
        cls,
        home: Path,
        user: Path,
        *,
        tests: bool = False,
        unconfined: Unconfined = lambda: None,
    ) -> "Policies":
        """The policies of a home, for the user whose home folder is `user`."""
        folders = KnownFolders(str(user), str(home))
        return cls(home / "policies", folders, tests=tests, unconfined=unconfined)

    def load(self) -> LoadedPolicies:
        """All files, reread where something has changed."""
        own, bundled = self._read(self.folder), self._read(self._bundled)
        if self._loaded is None or own[0] or bundled[0]:
            found = [*own[2], *bundled[2]]
            found += _misfits(own[1], bundled[1])
            if ALWAYS not in {file.name for file in bundled[1]}:
                hint = "reinstall Hermes"
                found.append(
                    PolicyProblem(str(self._bundled), 1, 1, f"there is no {ALWAYS}.yaml", hint)
                )
            self._loaded = LoadedPolicies(own[1], bundled[1], tuple(found))
            self._rules = {}
        return self._loaded

    def rules(self, profile: str) -> RuleSet:
        """The rules of a profile. Raises `PolicyFilesInvalid` when any file is invalid, and
        `UsageError` for an unknown profile."""
        loaded = self.load()
        if loaded.problems:
            raise PolicyFilesInvalid(loaded.problems)
        if profile not in self._rules:
            _check_profile(loaded, profile)
            self._rules[profile] = loaded.rules(profile)
        return self._rules[profile]

    def gate(self, profile: str, capabilities: frozenset[str] | None = None) -> RuleGate:
        """The gate of a profile, for an agent with these capabilities (None: no limit)."""
        loaded = self.load()
        if not loaded.problems:
            _check_profile(loaded, profile)
        return RuleGate(lambda: self.rules(profile), self.homes, capabilities, self._unconfined)

    def _read(self, folder: Path) -> tuple[bool, tuple[PolicyFile, ...], tuple[PolicyProblem, ...]]:
        """Whether a folder has changed, its files and what is wrong with them."""
        kept = self._kept.get(folder)
        if kept is not None and folder == self._bundled:
            return False, kept[1], kept[2]  # bundled files do not change while we run
        now = self._clock()
        stamp, trouble = _stamp(folder)
        if kept is not None and kept[0] == stamp and not trouble:
            return False, kept[1], kept[2]
        fresh = any(changed > now - TICK for _name, changed, *_facts in stamp)
        files: list[PolicyFile] = []
        problems = list(trouble)
        for name, *_facts in stamp:
            file, found = _read_one(folder / name, self._tests or folder != self._bundled)
            files.append(file)
            problems += found
        self._kept[folder] = (None if fresh else stamp, tuple(files), tuple(problems))
        return True, tuple(files), tuple(problems)


def _check_profile(loaded: LoadedPolicies, profile: str) -> None:
    profiles = loaded.profiles
    if profile not in profiles:
        raise UsageError(f"no policy called {profile!r}", f"available: {', '.join(profiles)}")


def _stamp(folder: Path) -> tuple[Stamp, tuple[PolicyProblem, ...]]:
    """The policy files of a folder by name, with what shows a change."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(ENDINGS) and not entry.name.startswith("."):
                    facts = _facts(entry)
                    found.append((entry.name, *facts))
    except FileNotFoundError:
        return (), ()
    except OSError as error:
        return (), (PolicyProblem(str(folder), 1, 1, f"cannot be listed: {error.strerror}"),)
    return tuple(sorted(found)), ()


def _facts(entry: "os.DirEntry[str]") -> tuple[int, int, int]:
    try:
        facts = entry.stat()
    except OSError:
        return (0, 0, 0)  # reading it will report the problem
    return (facts.st_ctime_ns, facts.st_size, facts.st_ino)


def _read_one(path: Path, tests: bool) -> tuple[PolicyFile, tuple[PolicyProblem, ...]]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        problem = PolicyProblem(
            str(path), 1, 1, f"cannot be read: {error.strerror}", "correct or remove it"
        )
    except UnicodeDecodeError:
        problem = PolicyProblem(str(path), 1, 1, "is not UTF-8", "write it in UTF-8")
    else:
        kept = text if tests else text.partition("\ntests:\n")[0]
        return _understood(path.stem, str(path), kept)
    return PolicyFile(path.stem, str(path)), (problem,)


_understood = lru_cache(maxsize=32)(read_file)
"""Cached: parsing the bundled rules takes a tenth of a second."""


def together(loaded: LoadedPolicies, changed: Sequence[PolicyFile]) -> LoadedPolicies:
    """The policies with these files in place of those of the same name, or added. Its problems
    are those between files that they cause."""
    places = {file.path for file in loaded.bundled}
    ours = {file.path: file for file in changed if file.path in places}
    theirs = {Path(file.path).name: file for file in changed if file.path not in places}
    kept = {Path(file.path).name: file for file in loaded.own}
    own = tuple(file for _name, file in sorted((kept | theirs).items()))
    bundled = tuple(ours.get(file.path, file) for file in loaded.bundled)
    before = set(_misfits(loaded.own, loaded.bundled))
    names = {file.path for file in changed}
    last = sorted(own, key=lambda file: file.path in names)  # of two in conflict, blame the new one
    found = [
        problem
        for problem in _misfits(tuple(last), bundled)
        if problem.path in names or problem not in before
    ]
    return LoadedPolicies(own, bundled, tuple(found))


def _misfits(
    own: tuple[PolicyFile, ...], bundled: tuple[PolicyFile, ...]
) -> Iterator[PolicyProblem]:
    """Conflicts between files."""
    taken = {file.name for file in bundled}
    profiles = tuple(dict.fromkeys(f.profile for f in (*bundled, *own) if f.profile))
    parents: dict[str, str] = {}
    seen: set[str] = set()
    for file in (*bundled, *own):
        if file.name in seen:
            whose = "Hermes has one" if file.name in taken else "there are two"
            yield PolicyProblem(
                file.path, 1, 1, f"{whose} called {file.name!r}",
                "rename it; your files are checked before those of Hermes",
            )  # fmt: skip
        seen.add(file.name)
        if not file.extends:
            continue
        if file.extends == file.profile:
            yield _extends(file, f"the profile {file.profile!r} extends itself", "remove extends")
        elif file.extends not in profiles:
            others = tuple(name for name in profiles if name != file.profile)
            message = f"it extends {file.extends!r}, which is not a profile"
            yield _extends(file, message, near(file.extends, others))
        elif (other := parents.setdefault(file.profile, file.extends)) != file.extends:
            message = f"another file makes {file.profile!r} extend {other!r}"
            hint = f"a profile extends only one other: write extends: {other}, or remove it"
            yield _extends(file, message, hint)
    yield from _circles(own, bundled, parents)


def _extends(file: PolicyFile, message: str, hint: str) -> PolicyProblem:
    return PolicyProblem(file.path, *file.extends_at, message, hint)


def _circles(
    own: tuple[PolicyFile, ...], bundled: tuple[PolicyFile, ...], parents: Mapping[str, str]
) -> Iterator[PolicyProblem]:
    for profile in parents:
        trail = [profile]
        while (parent := parents.get(trail[-1], "")) and parent not in trail:
            trail.append(parent)
        if parent == profile:
            file = next(f for f in (*own, *bundled) if f.profile == profile and f.extends)
            way = " extends ".join((*trail, profile))
            yield _extends(file, f"the profile extends itself: {way}", "remove one extends")
