"""What the words of a program tell of the places and hosts that it touches, and which words open
more than they tell: links within a folder, lists of paths, redirects, tunnels."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from hermes_agent.core.effects import Operation
from hermes_agent.policy import shell
from hermes_agent.policy.shell.interpreter.state import ExpandedWord
from hermes_agent.policy.shell.programs.table import sort_words, spec
from hermes_agent.policy.word_lists import word_list

OPEN = re.compile(r"[$`…*?\[]")
"""Signs of a word that may become another one, several or none."""
_ONLY_WORDS = word_list("only_words")
"""Programs that take words for what they are, or for places that are acts of their own."""
TOLD = _ONLY_WORDS | word_list("told")
"""Programs of which the words tell all that they touch. Of any other a skill that bounds paths or
hosts must name the program: then whoever wrote it has thought of it."""

Options = Mapping[str, frozenset[str]]


def _by_name(*lines: str) -> Options:
    """`names: options`, each separated by blanks."""
    parts = [line.partition(":") for line in lines]
    return {
        name: frozenset(options.split()) for names, _, options in parts for name in names.split()
    }


_OTHER_PLACES = _by_name(
    # links within a folder; what stands behind -Z of cp is taken for its value, and is not
    "cp: -L --dereference -Z",
    "ls dir vdir du: -L --dereference",
    "grep egrep fgrep: -R --dereference-recursive",
    "chmod chown chgrp: -L",
    "diff: -r --recursive",
    # lists of paths, and paths that are no acts
    "find: -L -follow -anewer -cnewer -H -P -D",
    "sort: -T --temporary-directory",
    "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum shasum: -c --check",
    "tar gtar bsdtar: -T --files-from -h -L --dereference",
    "rsync: --files-from -L --copy-links --copy-unsafe-links -k --copy-dirlinks",
)
_MORE_OF_FIND = re.compile(r"-newer[aBcm][aBcm]|-O.*")
"""Names a file; or stands, as -H, -P and -D do, before the folders, which then are no acts."""
_LEAVES_LINKS = frozenset(
    {"rm", "rmdir", "unlink", "ls", "stat", "readlink", "echo", "printf", "basename", "dirname"}
)
"""Programs that take a link for what it is."""
_EITHER = frozenset({"-o", "-or", "!", "-not", ","})

_LISTS_WHERE_IT_STANDS = frozenset({"ls", "dir", "vdir", "du"})
_SEARCHES = frozenset({"grep", "egrep", "fgrep"})
_ALL_BELOW = frozenset(
    {"-r", "-R", "--recursive", "--dereference-recursive", "-d", "--directories"}
)

_TELLS_HOSTS = word_list("tells_hosts")
"""Those that tell all hosts when they tell any."""
_FOLLOWS = frozenset({"aria2c", "axel", "lynx", "links", "w3m", "elinks"})
"""Those that go wherever a server sends them."""
_OTHER_HOSTS = _by_name(
    "curl: -L --location --location-trusted --follow",
    "http https xh httpie: -F --follow",
    "wget: -H --span-hosts -D --domains",
    "ssh autossh: -L -R -D -J -W -w",
    "scp sftp: -J",
    "git: --recurse-submodules --recursive --remote-submodules",
)
_SSH = frozenset({"ssh", "autossh", "scp", "sftp"})
_PLAIN_OF_SSH = word_list("plain_of_ssh")
"""Settings with which ssh reaches the host that is named, and no other."""
_REACHES_OUT = _TELLS_HOSTS - {"git", "rsync"} | _FOLLOWS | word_list("reaches_out")
_VERBS_THAT_REACH_OUT = {
    name: word_list(f"reaches_out_{name}") for name in ("git", "docker", "podman", "hg", "svn")
}


# places


def other_places(act: Operation, acts: Sequence[Operation]) -> Iterator[str]:
    """What in the words of a program leads to places that are no acts, whoever names it."""
    for option in _given(act, _OTHER_PLACES):
        if act.program != "diff" or "--no-dereference" not in act.flags:
            yield option
    if act.program == "xargs":
        yield "--arg-file"  # without a list it is no act of its own
    elif act.program == "find":
        yield from (flag for flag in act.flags if _MORE_OF_FIND.fullmatch(flag))
    elif "find" in act.via and act.program not in _LEAVES_LINKS and not _finds_only_files(acts):
        yield "find without -type f"


def _finds_only_files(acts: Sequence[Operation]) -> bool:
    """What is found is no link, so that a program that is run on it stays in the folder."""
    return all(
        ("-type", "f") in zip(act.arguments, act.arguments[1:], strict=False)
        and _EITHER.isdisjoint(act.arguments)
        for act in acts
        if act.kind == "program" and act.program == "find"
    )


def loose_words(act: Operation) -> Iterator[str]:
    """Words that may become several or other ones, and are no places: one of those may be a place
    or an option."""
    given = {place.given for place in act.places}
    text = act.text
    for word in reversed(act.arguments):
        closed = text.endswith(f" {shlex.quote(word)}")
        text = text.removesuffix(shlex.quote(word) if closed else word).removesuffix(" ")
        # what a program prints is no place; but a pattern lists what is there
        harmless = act.program in _ONLY_WORDS and is_filled_in(word)
        if not closed and OPEN.search(word) and word not in given and not harmless:
            yield word


def is_filled_in(word: str) -> bool:
    """Whether a word comes from elsewhere, and is not just a pattern for names."""
    return not set(word).isdisjoint("$`…")


def works_where_it_stands(act: Operation) -> bool:
    """On a folder that it does not name."""
    below = act.program in _SEARCHES and any(_is_one_of(flag, _ALL_BELOW) for flag in act.flags)
    known = spec(act.program)
    if known is None or not (below or act.program in _LISTS_WHERE_IT_STANDS):
        return False
    sorted_words = sort_words(act.program, known, [ExpandedWord(word) for word in act.arguments])
    return all(role != "read" for role, _ in sorted_words.operands)


def is_redirected(act: Operation, acts: Sequence[Operation]) -> bool:
    """Whether the shell opens this path, and not the program that stands before it."""
    place = act.places[0]
    for other in acts:
        same = (other.program, other.arguments, other.via) == (act.program, act.arguments, act.via)
        if other.kind == "program" and same:
            for alone in shell.read(other.text, folder="", home="~"):
                touched = [(one.access, one.given) for one in alone.places]
                if alone.program == act.program and (place.access, place.given) in touched:
                    return False
    return True


# hosts


def other_hosts(act: Operation) -> Iterator[str]:
    """What in the words of a program leads to hosts that are no acts, whoever names it."""
    yield from _given(act, _OTHER_HOSTS)
    if act.program in _FOLLOWS:
        yield "redirects"
    if act.program == "wget" and not _is_set(act, "--max-redirect", "0"):
        yield "redirects without --max-redirect=0"
    if act.program in _OTHER_HOSTS and any(not name for name, _ in act.options):
        yield "options that nobody can tell"
    if act.program in _SSH:
        for name, value in act.options:
            setting = re.split(r"[=\s]", (value or "").strip(), maxsplit=1)[0].lower()
            if name == "-o" and setting not in _PLAIN_OF_SSH:
                yield f"-o {value or '…'}"


def tells_hosts(act: Operation) -> bool:
    """Whether all hosts that a program reaches are acts of their own, whoever names it."""
    return act.program in TOLD or (bool(act.hosts) and act.program in _TELLS_HOSTS)


def reaches_out(act: Operation) -> bool:
    verbs = _VERBS_THAT_REACH_OUT.get(act.program, frozenset())
    first = act.verb.partition(" ")[0]
    # A verb that is not there or may be any one may be one of these.
    unsure = bool(verbs) and (not first or bool(OPEN.search(first)))
    return act.program in _REACHES_OUT or first in verbs or unsure


# options


def _given(act: Operation, options: Options) -> Iterator[str]:
    wanted = options.get(act.program, frozenset())
    yield from (flag for flag in act.flags if _is_one_of(flag, wanted))


def _is_one_of(flag: str, names: frozenset[str]) -> bool:
    """Long options may be shortened."""
    longer = len(flag) > 2 and flag.startswith("--")
    return flag in names or (longer and any(name.startswith(flag) for name in names))


def _is_set(act: Operation, option: str, value: str) -> bool:
    given = {known for name, known in act.options if name == option}
    return given == {value}
