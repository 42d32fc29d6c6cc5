"""Files of settings that cannot be read, and the one row that makes them readable again: the
smallest change that the reader of the format takes, or what a program's complaint asks for."""

import configparser
import difflib
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

Reader = Callable[[str], object]
_DIRECTIVES = [
    "access_log",
    "add_header",
    "alias",
    "allow",
    "auth_basic",
    "auth_basic_user_file",
    "autoindex",
    "charset",
    "client_body_buffer_size",
    "client_body_temp_path",
    "client_body_timeout",
    "client_header_buffer_size",
    "client_max_body_size",
    "daemon",
    "default_type",
    "deny",
    "error_log",
    "error_page",
    "events",
    "expires",
    "gzip",
    "gzip_types",
    "http",
    "include",
    "index",
    "internal",
    "keepalive",
    "keepalive_timeout",
    "large_client_header_buffers",
    "limit_conn",
    "limit_conn_zone",
    "limit_except",
    "limit_req",
    "limit_req_zone",
    "listen",
    "location",
    "log_format",
    "log_not_found",
    "map",
    "master_process",
    "multi_accept",
    "pid",
    "proxy_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_cache",
    "proxy_cache_path",
    "proxy_cache_valid",
    "proxy_connect_timeout",
    "proxy_hide_header",
    "proxy_http_version",
    "proxy_intercept_errors",
    "proxy_next_upstream",
    "proxy_pass",
    "proxy_read_timeout",
    "proxy_redirect",
    "proxy_request_buffering",
    "proxy_send_timeout",
    "proxy_set_header",
    "proxy_ssl_verify",
    "proxy_temp_path",
    "real_ip_header",
    "resolver",
    "return",
    "rewrite",
    "root",
    "satisfy",
    "send_timeout",
    "sendfile",
    "server",
    "server_name",
    "server_names_hash_max_size",
    "server_tokens",
    "set",
    "set_real_ip_from",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_ciphers",
    "ssl_client_certificate",
    "ssl_dhparam",
    "ssl_prefer_server_ciphers",
    "ssl_protocols",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_stapling",
    "ssl_verify_client",
    "tcp_nodelay",
    "tcp_nopush",
    "try_files",
    "types",
    "types_hash_max_size",
    "upstream",
    "user",
    "worker_connections",
    "worker_processes",
    "worker_rlimit_nofile",
]
"""What nginx is told most."""
CLOSE = 0.78
"""How alike words must be of which one is taken for the other, misspelt."""
_NEAR = 3
"""Rows around the one that is complained of."""


class Row(Struct, frozen=True):
    """A row that is to be another one; 0 for one that is added at the end."""

    number: int
    new: str
    old: str = ""

    def command(self, path: str) -> str:
        own = shlex.quote(path)
        if not self.number:
            return f"printf '%s\\n' {shlex.quote(self.new)} >> {own}"
        text = re.sub(r"([\\&|])", r"\\\1", self.new)
        return f"sed -i {shlex.quote(f'{self.number}s|.*|{text}|')} {own}"


def mended(text: str, path: str, said: str = "") -> Row | None:
    """The row that makes a file readable; None where it is readable, or no single row does, or
    where others would count its rows otherwise."""
    if len(text.splitlines()) != len(text.removesuffix("\n").split("\n")) and text:
        return None
    if re.search(r"\bin \S+:\d+", said) and path in said:
        return _by_complaint(text, said)
    reader = _reader(text, path)
    if reader is None:
        return None
    at = _wrong(reader, text)
    if not at:
        return None
    rows = text.splitlines()
    for change in _changes(rows, at):
        if not _wrong(reader, _with(rows, change)):
            return change
    return None


def _reader(text: str, path: str) -> Reader | None:
    """Who reads such a file, by its ending; other files are not judged."""
    if path.endswith(".json"):
        return json.loads
    if path.endswith(".toml"):
        return tomllib.loads
    if path.endswith((".yaml", ".yml")):
        return msgspec.yaml.decode
    if path.endswith((".ini", ".cfg")) or re.match(r"\s*(?:[#;].*\n\s*)*\[[\w .:-]+\]", text):
        return configparser.RawConfigParser(allow_no_value=True).read_string
    return _read_shell if re.search(r"(?:\.env|/default/[\w.-]+)$", path) else None


def _read_shell(text: str) -> None:
    for number, row in enumerate(text.splitlines(), 1):
        try:
            shlex.split(row, comments=True)
        except ValueError as error:
            raise ValueError(f"{error} at line {number}") from None


def _wrong(reader: Reader, text: str) -> int:
    """The row at which a reader gives up; 0 where it does not."""
    try:
        reader(text)
    except (ValueError, configparser.Error, msgspec.MsgspecError, RecursionError) as error:
        told = str(error)
        named = re.findall(r"line[: ]+(\d{1,6})|\[line\s+(\d{1,6})\]", told)
        last = [int(one or other) for one, other in named]
        return max(last[-1], 1) if last else max(len(text.splitlines()), 1)
    return 0


def _changes(rows: Sequence[str], at: int) -> Iterator[Row]:
    """Changes of one row near the one that is complained of, what takes nothing away first."""
    near = [number for number in range(at - _NEAR, at + 2) if 0 < number <= len(rows)]
    near.sort(key=lambda number: abs(number - at))
    for change in (_comma_off, _comma_on, _quoted, _spaced, _paired):
        for number in near:
            new = change(rows[number - 1])
            if new != rows[number - 1]:
                yield Row(number, new, rows[number - 1])
    for end in ("}", "]"):
        yield Row(0, end)
    for number in near:
        row = rows[number - 1]
        if _key(row) and sum(_key(row) == _key(other) for other in rows) > 1:
            yield Row(number, f"# {row.strip()}", row)


def _comma_off(row: str) -> str:
    return re.sub(r",(\s*)$", r"\1", row)


def _comma_on(row: str) -> str:
    return f"{row.rstrip()}," if row.strip() and not re.search(r"[,{\[]\s*$", row) else row


def _quoted(row: str) -> str:
    for mark in ('"', "'"):
        if row.count(mark) % 2:
            tail = re.search(r"[,;]?\s*$", row)
            cut = tail.start() if tail else len(row)
            return f"{row[:cut]}{mark}{row[cut:]}"
    return row


def _spaced(row: str) -> str:
    return row.replace("\t", "  ")


def _paired(row: str) -> str:
    """A word and a value get what stands between them."""
    return re.sub(r"^(\s*[\w.-]+)[ \t]*[ :=;][ \t]*(?=\S)", r"\1 = ", row, count=1)


def _key(row: str) -> str:
    found = re.match(r"\s*[\"']?([\w.-]+)[\"']?\s*[=:]", row)
    return found[1] if found else ""


def _with(rows: Sequence[str], change: Row) -> str:
    new = list(rows)
    if change.number:
        new[change.number - 1] = change.new
    else:
        new.append(change.new)
    return "\n".join(new) + "\n"


def _by_complaint(text: str, said: str) -> Row | None:
    """What nginx and those like it complain of."""
    found = re.search(r"\bin \S+:(\d{1,6})", said)
    rows, at = text.splitlines(), int(found[1]) if found else 0
    if not 0 < at <= len(rows) + 1:
        return None
    if "unexpected end of file" in said:
        return Row(0, "}")
    if re.search(r"unexpected \"[}{]\"|invalid number of arguments|is not terminated", said):
        return _ended(rows, at, said)
    word = re.search(r"unknown directive \"([^\"]+)\"", said)
    row = rows[at - 1] if at <= len(rows) else ""
    if word and word[1] in row:
        right = difflib.get_close_matches(word[1], _DIRECTIVES, 1, CLOSE)
        return Row(at, row.replace(word[1], right[0], 1), row) if right else None
    if "is duplicate" in said and row.rstrip().endswith(";"):
        return Row(at, f"# {row.strip()}", row)
    return None


def _ended(rows: Sequence[str], at: int, said: str) -> Row | None:
    """The row before, or of the directive, gets the end that it lacks."""
    word = re.search(r"(?:in|directive) \"([\w]+)\"", said)
    for number in range(min(at, len(rows)), 0, -1):
        row = rows[number - 1].rstrip()
        bare = row.partition("#")[0].strip()
        if not bare or bare.endswith((";", "{", "}")):
            continue
        if word is None or word[1] == bare.split()[0] or number < at:
            return Row(number, f"{row};", row)
    return None
