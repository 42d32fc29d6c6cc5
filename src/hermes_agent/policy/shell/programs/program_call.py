"""A program with its words on the way from the table to operations, and what the roles in the table
mean."""

import re
from collections.abc import Callable
from pathlib import PurePath

from msgspec.structs import replace

from hermes_agent.core.effects import Access, Operation, PathAccess
from hermes_agent.core.text.addresses import address_of
from hermes_agent.policy.shell.interpreter.collector import (
    host_of,
    hosts_of,
    places_of,
    remote_host,
)
from hermes_agent.policy.shell.interpreter.interpreter import SimpleCommandRun
from hermes_agent.policy.shell.interpreter.state import ExpandedWord, absolute
from hermes_agent.policy.shell.programs import plain_words
from hermes_agent.policy.shell.programs.embedded_languages import (
    awk_is_plain,
    sed_is_plain,
    sql_is_plain,
    sql_verbs,
)
from hermes_agent.policy.shell.programs.git_words import GIT_CODE, hooks, is_plain, moves_files
from hermes_agent.policy.shell.programs.request_words import check_request, cookie, data, sent
from hermes_agent.policy.shell.programs.table import Reading
from hermes_agent.policy.word_lists import word_list

_ELSEWHERE = word_list("elsewhere")
_USER_SHELL = frozenset({"su", "runuser", "script", "rsync", "gcloud", "tmux", "mosh"})
"""Whose commands are read by the user's shell, which is bash; others use sh."""


_WEB = re.compile(r"(?i)(https?|ftps?|file):[/\\\\]*")
_FILE_URL = re.compile(r"(?i)file:(?://)?(/(?!/)[^%?#\\{}\[\]]*)")
"""One that means the path as it is written: no host, nothing encoded, no list of curl's."""


class ProgramCall:
    """A program with its words while its roles are worked out."""

    def __init__(
        self, run: SimpleCommandRun, name: str, fields: list[ExpandedWord], reading: Reading
    ) -> None:
        self.run = run
        self.name = name
        self.fields = fields
        self.reading = reading
        self.places: list[PathAccess] = []
        self.hosts: list[str] = []
        self.later: list[Callable[[], object]] = []
        """What it runs: followed when the program itself is noted."""
        self.computed = False
        """Whether it sends what is in a file."""

    def place(self, field: ExpandedWord, access: Access) -> None:
        self.places += places_of(field, access, self.run.state)

    def unknown(self, field: ExpandedWord, reason: str) -> None:
        text = field.text
        self.later.append(lambda: self.run.code(text, reason, self.name))

    def shell(self, text: ExpandedWord, *, far: bool = False) -> None:
        """Shell text that the program would run."""
        if text.dynamic or text.glob:
            self.unknown(text, f"what {self.name} runs is not known")
            return
        inside = self.inside(far=far)
        around = inside.around if self.name in _USER_SHELL else replace(inside.around, bash=False)
        self.later.append(lambda: inside.walk.text(text.text, inside.state, around))

    def inside(self, *, far: bool = False) -> SimpleCommandRun:
        """Where the commands run that the program starts."""
        state = self.run.state.copy()
        if far:
            state.variables = {}
            state.home = "~"
            state.folders = (None,)
        state.functions = {}
        state.positional = None
        return self.run.inside(self.name, state=state)

    def note(self, reason: str = "") -> None:
        places, hosts = self.run.redirected.take()
        self.run.walk.note.program(
            self.name, self.fields, self.run.around, verb=self.reading.verb,
            flags=self.reading.flags, places=[*self.places, *places], hosts=[*self.hosts, *hosts],
            options=self.reading.given, reason=reason,
            computed=self.computed or self.run.around.computed or self.run.state.lends_computed(),
        )  # fmt: skip


Role = Callable[[ProgramCall, ExpandedWord, str], None]


def apply(call: ProgramCall, role: str, field: ExpandedWord, option: str) -> None:
    if role != ".":
        ROLES[role](call, field, option)


def go_on(call: ProgramCall, words: list[ExpandedWord]) -> None:
    """Run the words that stand behind a wrapper."""
    far = call.reading.spec.far
    inside = call.inside(far=far)
    if call.name in {"sudo", "doas"}:
        while words and "=" in (words[0].prefix if words[0].dynamic else words[0].text):
            name = words[0].text.partition("=")[0]
            inside.set(name, None, exported=True)
            words = words[1:]
        if words and {"-s", "-i", "--shell", "--login"} & set(call.reading.flags):
            _text(call, words, far=False)
            return
    if "shells" in call.reading.spec.operands:
        _text(call, words, far=far)
    elif words:
        inside.words(words, functions=False)


def _text(call: ProgramCall, words: list[ExpandedWord], *, far: bool) -> None:
    """Words that are joined and read by a shell."""
    text = " ".join(word.text for word in words)
    if any(word.dynamic or word.glob for word in words):
        call.run.unknown(text, f"what {call.name} runs is not known", call.name)
        return
    inside = call.inside(far=far)
    user = call.name in {"ssh", "autossh", "sudo", "doas", "tmux"}
    around = inside.around if user else replace(inside.around, bash=False)
    inside.walk.text(text, inside.state, around)


def _place(access: Access) -> Role:
    def role(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
        call.place(field, access)

    return role


def _host(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    call.hosts += hosts_of(field)


def _url(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A URL, `host:path`, or a path to read."""
    host = remote_host(field)
    if "::" in field.text and "[" not in field.text:
        _unknown(call, field, option)
    elif host is not None:
        if field.text.lower().startswith("file:"):
            _file_url(call, field, option)
        else:
            call.hosts += [host] if host else hosts_of(field)
    else:
        call.place(field, "read")


def _file_url(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    found = _FILE_URL.fullmatch(field.text)
    if field.dynamic or found is None:
        _unknown(call, field, option)
    else:
        call.place(ExpandedWord(found.group(1)), "read")


def _remote(access: Access) -> Role:
    def role(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
        host = remote_host(field)
        if host is None:
            call.place(field, access)
        else:
            call.hosts.append(host)

    return role


def _copy(access: Access) -> Role:
    """A path of this machine, or one in a container, pod or bucket."""

    def role(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
        if remote_host(field) is None:
            call.place(field, access)

    return role


def _net_shell(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A program that the other side of a connection feeds."""
    _unknown(call, field, option)
    call.shell(field)


def _shell(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    call.shell(field)


def _far(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    call.shell(field, far=True)


def _unknown(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    call.unknown(field, f"{call.name} {option} can run or change anything".replace("  ", " "))


def _code(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    call.unknown(field, f"code for {call.name}")


def _config(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """`git -c key=value`: most settings name files, hosts or commands."""
    text = field.prefix if field.dynamic else field.text
    key, equals, value = text.partition("=")
    if not is_plain(key, value) or (field.dynamic and not equals):
        _unknown(call, field, option)


def _ssh_option(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    text = field.prefix if field.dynamic else field.text
    host = plain_words.SSH_HOST.match(text)
    if plain_words.SSH_CODE.match(text) or not text:
        _unknown(call, field, option)
    elif host:
        call.hosts.append(host_of(ExpandedWord(host.group(1))))


def _mount(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """`-v /here:/there[:ro]` and `--mount type=bind,source=/here,…`."""
    text = field.prefix if field.dynamic else field.text
    if option == "--mount":
        found = re.search(r"(?:source|src)=([^,]*)", text)
        here = found.group(1) if found else ""
        kept = "readonly" in text
    else:
        here, _, rest = text.partition(":")
        kept = rest.endswith(":ro")
    if field.dynamic and not here.startswith("/"):
        call.place(ExpandedWord(field.text, dynamic=True), "write")
    elif here.startswith(("/", ".", "~")):
        call.place(ExpandedWord(here), "read" if kept else "write")


def _repository(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """Where git looks for a repository, whose own settings can name programs to run: a rule can
    match the ones that are there, as the program `git-repository`."""
    given = sum(role == "repository" for _, role, _ in call.reading.values)
    folders = [absolute(field.text, folder) for folder in call.run.state.folders]
    if not option and _ELSEWHERE & set(call.run.around.via):
        return  # it stands where that machine puts it
    found = field.glob or field.text.endswith("//")
    if field.dynamic or found or given > 1 or not all(folders):
        _unknown(call, field, option)
        return
    tops = [top for folder in folders for top in (folder, *map(str, PurePath(folder).parents))]
    # Only what follows is a glob.
    tops = [re.sub(r"[*?[]", r"[\g<0>]", top.replace("\\", r"\\")) for top in tops]
    marks = [f"{top.rstrip('/')}/{mark}" for top in tops for mark in (".gi[t]", "HEA[D]")]
    by_hooks = hooks(call.reading, tops)
    for verb, flag, paths in (("", option, folders), ("", None, marks), ("hooks", None, by_hooks)):
        flags, via = () if flag is None else (flag,), call.run.around.via
        like = Operation("program", program="git-repository", verb=verb, flags=flags, via=via)
        call.run.walk.note.places([PathAccess("read", path, path) for path in paths], (), like)


def _trusted(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A file of settings that can name programs: none that somebody hands over on the way."""
    if field.dynamic or not re.match(r"(?!/dev/|/proc/|-$).", field.text):
        _unknown(call, field, option)
    call.place(field, "read")


def _fetched(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A word that some versions take for an address to fetch, if it is one."""
    if re.match(r"(?i)https?:", field.text):
        _host(call, field, option)


def _forge(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A number, a branch, `owner/name`, or with a host before it; or a URL."""
    first, *more = field.text.split("/")
    if ":" in first or (len(more) > 1 and "." in first):
        _host(call, field, option)


def _rclone(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """`remote:path` or a path; the settings of a remote, commands too, can stand in its name."""
    if re.match(r":|[^:/]*,", field.text):
        _unknown(call, field, option)
    elif ":" not in field.text.partition("/")[0]:
        call.place(field, "read")


def _silent(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """Input that says nothing to the other side."""
    if field.dynamic or field.text.strip() not in {"", "Q"}:
        _unknown(call, field, option)


def _amount(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A number, or several: never the name of a program, of which it would be an argument."""
    if not field.number and (field.dynamic or not re.match(r"[\d.]", field.text)):
        _unknown(call, field, option)


def _variable(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    """`NAME=value` for the program that is run, wherever that is."""
    name, _, value = (field.prefix if field.dynamic else field.text).partition("=")
    call.inside().set(name, None if field.dynamic else value, exported=True)


def _suffix(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """What is added to the name of a copy, or in other words where the copy is."""
    if field.dynamic or field.glob or "/" in field.text or "*" in field.text:
        _unknown(call, field, option)


def _into(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    """What is copied or moved gets its own name in a folder, or a folder's files get theirs."""
    call.place(field, "delete" if call.name == "mv" else "read")
    roles = (*((role, value) for _, role, value in call.reading.values), *call.reading.operands)
    target = next((word for role, word in roles if role == "write"), None)
    if target is None or target.dynamic or field.dynamic:
        return
    name = field.text.rstrip("/")
    if "--parents" not in call.reading.flags:
        name = name.rpartition("/")[2]
    whole = name in {"", ".", ".."} or {"-T", "--no-target-directory"} & set(call.reading.flags)
    call.place(ExpandedWord(f"{target.text}/{'.*' if whole else name}", glob=True), "write")


def _dd(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    text = field.prefix if field.dynamic else field.text
    key, _, value = text.partition("=")
    target = ExpandedWord(field.text, dynamic=True) if field.dynamic else ExpandedWord(value)
    if key in {"of", "if"}:
        call.place(target, "write" if key == "of" else "read")
    elif field.maybe_option:
        call.place(field, "write")


def _sed(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    if field.dynamic or field.glob or not sed_is_plain(field.text):
        call.unknown(field, "a sed program that may write or run something")


def _awk(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    if field.dynamic or field.glob or not awk_is_plain(field.text):
        call.unknown(field, "an awk program that may write or run something")


def _sql(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    """What a database is told is what the program does: `select`, `drop`."""
    if field.dynamic or not sql_is_plain(field.text):
        call.unknown(field, f"what {call.name} is told to do")
    else:
        verbs = (*call.reading.verb.split(), *sql_verbs(field.text))
        call.reading.verb = " ".join(dict.fromkeys(verbs))


def _database(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """The name of a database, or all of an address: a URL, or `host=… dbname=…`."""
    hosts = None if field.dynamic else plain_words.database_hosts(field.text)
    if hosts is None:
        _host(call, field, option)
        _unknown(call, field, option)
    else:
        call.hosts += [host_of(ExpandedWord(host)) for host in hosts]


def _names(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    """A filter, in which hosts may be named."""
    call.hosts += [] if field.dynamic else plain_words.hosts_named(field.text)


def _address(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """An address, which is not looked up as a name."""
    if not field.dynamic and address_of(field.text) is None:
        _host(call, field, option)


def _question(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """What dig is asked: `+word`, `@server`, a name or a type."""
    if not field.text.startswith("+"):
        _host(call, field, option)
    elif not plain_words.is_plain_for_dig(field.text):
        _unknown(call, field, option)


def _psql_variable(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    if field.dynamic or not plain_words.PSQL_PLAIN.fullmatch(field.text):
        _unknown(call, field, option)


def _date(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """`+format`, or a time to set the clock to."""
    if field.dynamic or not field.text.startswith("+"):
        _unknown(call, field, option)


def _method(call: ProgramCall, _field: ExpandedWord, option: str) -> None:
    """A request is a GET anyway: to say so is no option that counts."""
    given = [value for name, _, value in call.reading.values if name == option]
    if not any(value.dynamic or value.text not in {"GET", "HEAD"} for value in given):
        call.reading.flags[:] = [flag for flag in call.reading.flags if flag != option]


def _kind(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """What kubectl gets or systemctl shows: it could be secrets."""
    if field.dynamic or field.glob:
        _unknown(call, field, option)


def _raw(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """What kubectl asks the cluster for by its path: how it is, and nothing that is in it."""
    if field.dynamic or not plain_words.CLUSTER_STATE.fullmatch(field.text):
        _unknown(call, field, option)


def _keyed(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    """`name=file,name=file`, or a file."""
    if field.dynamic:
        call.place(field, "read")
    else:
        for part in field.text.split(","):
            call.place(ExpandedWord(part.rpartition("=")[2]), "read")


def _object_file(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A file, or `@file` with more words in it."""
    if field.text.startswith("@"):
        _unknown(call, field, option)
    else:
        call.place(field, "read")


def _pager_file(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A file, or `+command`."""
    if field.text.startswith("+") and not re.fullmatch(r"\+(?:\d+|[gGF]|/[ -~]*)", field.text):
        _unknown(call, field, option)
    elif not field.text.startswith("+"):
        call.place(field, "read")


def _page(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """The name of a manual page, or a file with one, which can name more files."""
    if "/" in field.text:
        _unknown(call, field, option)


def _processes(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """ps: letters with an `e` among them, or a format with `environ`, show environments."""
    letters = not set(field.text) - plain_words.PS_LETTERS and "e" in field.text
    if field.dynamic or "environ" in field.text or (letters and not option):
        call.reading.flags.append("e")


def _entry(call: ProgramCall, field: ExpandedWord, _option: str) -> None:
    """`docker run --entrypoint program image words…`."""
    words = call.reading.rest or []
    inside = call.inside(far=True)
    if field.text:
        call.reading.rest = None
        call.later.append(lambda: inside.words([field, *words], functions=False))


def _web(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A URL with or without its scheme, and with any number of slashes; `@file` has many."""
    found = _WEB.match(field.text)
    if field.text.startswith("@"):
        _unknown(call, field, option)
    elif found and found.group(1).lower() == "file":
        _file_url(call, field, option)
    elif found and not field.dynamic:
        _host(call, ExpandedWord(f"http://{field.text[found.end() :]}"), option)
    else:
        _host(call, field, option)


def _file_database(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """The file of a database, which may also be named by a URL."""
    call.place(field, "write")
    if field.text.startswith("file:"):
        _unknown(call, field, option)


def _sysctl(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    if "=" in field.text or field.dynamic:
        _unknown(call, field, option)


def _git_remote(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """The name of a remote, which the settings of the repository resolve, or an address."""
    if field.dynamic or ":" in field.text or "/" in field.text:
        if field.text.startswith("ext::"):
            _unknown(call, field, option)
        else:
            _url(call, field, option)


def _git_setting(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """`git config key value`: some values are commands that git will run."""
    if field.dynamic or GIT_CODE.match(field.text):
        reading = call.reading
        asks = {"--get", "--get-all", "--get-regexp", "-l", "--list", "--unset"}
        if not asks & set(reading.flags) and len(reading.operands) > 1:
            _unknown(call, field, option)


def _netcat(call: ProgramCall, field: ExpandedWord, option: str) -> None:
    """A host or a port; socat's addresses can be anything."""
    text = field.prefix if field.dynamic else field.text
    if call.name == "socat":
        found = re.match(r"(?i)(?:tcp|udp|openssl|ssl)[46]?(?:-connect)?:([^:,]+)", text)
        socket = re.match(r"(?i)unix(?:-connect|-client)?:([^,]+)", text)
        if found:
            call.hosts.append(found.group(1))
        elif socket:
            call.place(ExpandedWord(socket.group(1), field.dynamic), "write")
        elif text not in {"-", "STDIO", "stdio"}:
            _unknown(call, field, option)
    elif field.dynamic or not re.fullmatch(r"[\d,-]+", text):
        _host(call, field, option)


ROLES: dict[str, Role] = {
    "web": _web, "cookie": cookie, "sysctl": _sysctl, "remote": _git_remote,
    "copyfrom": _copy("read"), "copyto": _copy("write"), "copydelete": _copy("delete"),
    "netshell": _net_shell, "gitconfig": _git_setting, "nc": _netcat,
    "read": _place("read"), "write": _place("write"), "delete": _place("delete"),
    "host": _host, "url": _url, "from": _remote("read"), "to": _remote("write"),
    "shell": _shell, "farshell": _far, "unknown": _unknown, "code": _code, "config": _config,
    "sshoption": _ssh_option, "data": data, "mount": _mount, "dd": _dd, "sed": _sed,
    "awk": _awk, "sql": _sql, "database": _database, "date": _date, "method": _method,
    "entry": _entry, "kind": _kind, "keyed": _keyed, "object": _object_file, "page": _page,
    "repository": _repository, "trusted": _trusted, "silent": _silent, "amount": _amount,
    "suffix": _suffix, "variable": _variable, "into": _into, "pager": _pager_file,
    "processes": _processes, "fetched": _fetched, "forge": _forge, "rclone": _rclone,
    "raw": _raw, "names": _names, "address": _address, "question": _question,
    "setting": _psql_variable, "sent": sent, "filedatabase": _file_database,
}  # fmt: skip


def follow(call: ProgramCall) -> None:
    """Work out the roles of the words, note the program, and go on with what it runs."""
    reading = call.reading
    found = reading.spec
    for option, role, field in reading.values:
        apply(call, role, field, option)
    for role, field in reading.operands:
        apply(call, role, field, "")
    if call.name == "git" and not any(role == "repository" for _, role, _ in reading.values):
        _repository(call, ExpandedWord("."), "")
    if call.name in {"curl", "wget"}:
        check_request(call)
    stdin = call.run.around.stdin
    given = any(role == found.input for _, role, _ in reading.values)
    if found.input and stdin is not None and not given:
        text = ExpandedWord(stdin.text or "", dynamic=stdin.text is None)
        apply(call, found.input, text, "<")
    looks = {"select", "show"} >= {*reading.verb.split(" ")}
    if call.name == "sqlite3" and looks and not call.later:
        call.places = [replace(place, access="read") for place in call.places]
    runs = reading.rest is not None and bool(reading.rest)
    if runs and (reading.unlisted or reading.unsure):
        words = " ".join([*reading.unlisted, *(field.text for field in reading.unsure)])
        call.unknown(ExpandedWord(words), f"where the command of {call.name} starts")
    elif reading.unlisted and found.closed:
        words = " ".join(reading.unlisted)
        call.unknown(ExpandedWord(words), f"not a known option of {call.name}")
    elif reading.unsure and found.risky:
        call.unknown(reading.unsure[0], f"may be an option of {call.name}")
    if not (runs and found.bare and not call.places and not call.hosts):
        call.note()
    if call.name == "git" and moves_files(reading) and not _ELSEWHERE & set(call.run.around.via):
        call.run.walk.note.moved = True
    for step in call.later:
        step()
    if runs and reading.rest is not None:
        go_on(call, reading.rest)
