"""Whether a small program for sed, awk or a database only reads and prints. What is not surely so
is not."""

import re

from hermes_agent.policy.word_lists import word_list

_SED_ADDRESS = re.compile(r"\d+(?:~\d+)?|\$|\+\d+|~\d+")
_SED_FLAGS = re.compile(r"[gpiIMm0-9]*")
_SED_ALONE = frozenset("=dDgGhHlnNpPxzFqQ")
_SED_TEXT = frozenset("aic")
_SED_LABEL = frozenset("btT:")
_SED_LINE = re.compile(r"[ \t]*(?:\\[ \t]*\n)?[^\n]*")
"""The text of `a`, `i` and `c`, on their line or on the next one."""
_IN_BRACKETS = r"\[\^?\]?(?:\[:\w+:\]|[^]\[\\\n%s]|\\[^]\[\n%s])*\]"
"""A set of signs without the delimiter, which ends where every program thinks that it ends."""

_MAX_LENGTH = 10_000


class _Odd(Exception):
    pass


class _Sed:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self, signs: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in signs:
            self.at += 1

    def until(self, delimiter: str) -> None:
        """Past the next delimiter; brackets and escapes may hide one."""
        while self.at < len(self.text):
            sign = self.text[self.at]
            self.at += 1
            if sign == delimiter:
                return
            if sign == "\\":
                self.at += 1
            elif sign == "[":
                # where a delimiter within brackets ends the pattern depends on the sed
                quoted = re.escape(delimiter)
                plain = re.compile(_IN_BRACKETS % (quoted, quoted)).match(self.text, self.at - 1)
                if not plain and "]" in self.text[self.at :]:
                    raise _Odd
                self.at = plain.end() if plain else self.at
            elif sign == "\n":
                raise _Odd
        raise _Odd

    def address(self) -> bool:
        sign = self.text[self.at : self.at + 1]
        if sign == "/":
            self.at += 1
            self.until("/")
        elif sign == "\\":
            delimiter = self.text[self.at + 1 : self.at + 2]
            self.at += 2
            self.until(delimiter)
        else:
            found = _SED_ADDRESS.match(self.text, self.at)
            if not found:
                return False
            self.at = found.end()
            return True
        self.skip("IM")
        return True

    def command(self) -> None:
        if self.address():
            self.skip(" \t")
            if self.text[self.at : self.at + 1] == ",":
                self.at += 1
                self.skip(" \t")
                if not self.address():
                    raise _Odd
        self.skip(" \t!")
        sign = self.text[self.at : self.at + 1]
        self.at += 1
        if sign in {"{", "}"}:
            return
        if sign in {"s", "y"}:
            delimiter = self.text[self.at : self.at + 1]
            if delimiter in {"", "\n", "\\"}:
                raise _Odd
            self.at += 1
            self.until(delimiter)
            self.until(delimiter)
            if sign == "s":
                flags = _SED_FLAGS.match(self.text, self.at)
                self.at = flags.end() if flags else self.at
        elif sign in _SED_TEXT:
            found = _SED_LINE.match(self.text, self.at)
            assert found is not None
            self.at = found.end() + 1
            if found.group().endswith("\\"):
                raise _Odd  # whether the text goes on depends on what stands before the backslash
            return
        elif sign in _SED_LABEL:
            self.skip(" \t")
            while self.at < len(self.text) and self.text[self.at] not in "\n;} \t":
                self.at += 1
        elif sign in _SED_ALONE and sign:
            if sign in "lqQ":
                self.skip(" \t")
                self.skip("0123456789")
        else:
            raise _Odd
        self.skip(" \t")
        if self.at < len(self.text) and self.text[self.at] not in "\n;}#":
            raise _Odd

    def run(self) -> None:
        while True:
            self.skip(" \t\n;")
            if self.at >= len(self.text):
                return
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                continue
            self.command()


def sed_is_plain(text: str) -> bool:
    """No command that writes, reads or runs something."""
    if len(text) > _MAX_LENGTH:
        return False
    try:
        _Sed(text).run()
    except _Odd:
        return False
    return True


_QUOTED_NAME = re.compile(r"([\"'])([^\"'\s]*[./][^\"'\s]*)\1")
_PATH = re.compile(r"(?:[~\w@%+.-]*/|\.)[\w@%+./-]*\w[\w@%+./-]*")
_BETWEEN_WORDS = re.compile(r"[\s\"'`;,()<>|&=]+")
_MAX_NAMES = 200


def named_files(code: str) -> list[str]:
    """Words in code of any language that could be names of files."""
    quoted = [found[2] for found in _QUOTED_NAME.finditer(code)]
    words = (word.lstrip("@") for word in _BETWEEN_WORDS.split(code))
    bare = [word for word in words if _PATH.fullmatch(word)]
    return list(dict.fromkeys((*quoted, *bare)))[:_MAX_NAMES]


_AWK_WORDS = re.compile(r"system|getline|@|\|&|inet|close|fflush|extension|PROCINFO|ARG[VC]|\\\n")
_AWK_PIECE = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|\|\||&&|[A-Za-z_]\w*|[0-9.]+|\s+|.', re.DOTALL
)
_AWK_REGEX = re.compile(rf"/(?:[^/\\\n\[]|\\.|{_IN_BRACKETS % ('/', '/')})+/")
_AWK_BEFORE_VALUE = frozenset("(,{};!~&|=?:") | {"&&", "||", ""}
_AWK_STATEMENTS = frozenset({"if", "while", "for", "switch"})


def awk_is_plain(text: str) -> bool:
    """No pipe, no file, no command. A slash after a name could be a division or a pattern: then
    what follows cannot be told."""
    if len(text) > _MAX_LENGTH or _AWK_WORDS.search(text):
        return False
    at = 0
    before = ""
    printing = False
    brackets: list[str] = []
    """Of each that is open: what stands before it."""
    while at < len(text):
        if text[at] == "/":
            if before in _AWK_BEFORE_VALUE:
                regex = _AWK_REGEX.match(text, at)
                if regex is None:
                    return False
                at = regex.end()
                before = "/re/"
                continue
            if not (before.isdigit() or before in {")", "]", "NF", "NR"}) and not re.fullmatch(
                r"(?!(?:print|printf|return|in|else|do|case|exit)$)[A-Za-z_]\w*", before
            ):
                return False
        found = _AWK_PIECE.match(text, at)
        if found is None:
            return False
        piece = found.group()
        at = found.end()
        if piece.isspace():
            # a line that ends may go on, such as after a comma
            before = "" if "\n" in piece else before
            continue
        if piece in {"print", "printf"}:
            printing, brackets = True, []
        elif piece in {";", "}"}:
            printing = False
        elif piece == "(":
            brackets.append(before)
        elif piece == "|" or (piece == ">" and printing and not brackets) or piece == '"':
            return False
        before = piece
        if piece == ")" and brackets and brackets.pop() in _AWK_STATEMENTS:
            before = ""  # a statement follows
    return True


_SQL_ODD = re.compile(
    r"(?i)\\[!owicsef]|\\g(?!\s*$)|\bprogram\b|\bsystem\b(?!\.)|\bshell\b|^\s*\.|\n\s*\.|load_extension|outfile"
    r"|dumpfile|load_file|lo_import|lo_export|xp_cmdshell|\bcopy\b|\bpg_read|\bpg_ls|\bdblink"
    r"|\beval\b|\bsource\b|`|\bfsdir\b|\bzipfile\b"
    r"|pg_authid|pg_shadow|pg_user_mapping|primary_conninfo|authentication_string"
    r"|\bsystem_auth\b|\bshow\s+(?:create\s+user|grants)\b|\bmysql(?!\.user\b)[\"\s]*\."
    r"|(?<!from )\bmysql\.|(?s:\A(?=.*\bmysql\.).*(?:\*(?!\s*\))|\bpassword))"
)
"""Ways to files and programs, and tables with passwords."""


_SQL_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"|--[^\n]*")
_SQL_LOOKS = frozenset({"select", "show", "explain", "describe", "desc", "with", "table", "values"})
_SQL_LISTS = re.compile(
    r"\\(?:l|d(?!eu|Rs)\w*|conninfo|timing|x)\+?(?:[ \t]+[\w.*\"]+)*"
    r"|\.(?:tables|schema|fullschema|indexes|indices|databases|dbinfo|stats|headers?|mode|width|show)"
    r"(?:[ \t]+[\w.%-]+)*"
    r"|(?i:pragma)[ \t]+(?:\w+_(?:check|list|xinfo|info)(?:[ \t]*\([ \t]*\w+[ \t]*\))?|journal_mode"
    r"|page_(?:count|size)|user_version|freelist_count|encoding)[ \t]*;?"
)
"""What shows the state of a database, in the languages of psql and sqlite3: one line, because each
is read by itself."""
_SQL_CHANGES = re.compile(
    r"(?i)\b(?:insert|update|delete|merge|replace|drop|truncate|alter|create|grant|revoke|into|call"
    r"|do|set|reset|lock|kill|shutdown|vacuum|reindex|refresh|analyze|analyse|execute|prepare"
    r"|handler|flush|purge|optimize|repair|attach|detach|pragma|import|export|use)\b(?!\s*\()"
)
_SQL_CALL = re.compile(r"([A-Za-z_][\w.]*|\])\s*\(")
_SQL_READING = word_list("sql_reading")
"""Words that may stand before a bracket in what only reads."""
_SQL_STRANGE = re.compile(r"\\(?!G\s*$)|\$|/\*|#|--(?!\s|$)|\r|\[[^\]]*['\"]")
"""Where a text or a remark ends is not the same for all databases."""


def sql_verbs(text: str) -> list[str]:
    """What the statements do, a word each: `select` for one that surely only reads, else the word
    that may change something or the function that may."""
    if _SQL_LISTS.fullmatch(text.strip()):
        return ["show"]
    if _SQL_STRANGE.search(text):
        return ["other"]
    found = []
    for statement in _SQL_TEXT.sub(" quoted ", text).split(";"):
        words = statement.split()
        if not words:
            continue
        first = words[0].strip("(").lower()
        if first not in _SQL_LOOKS:
            first = re.sub(r"[^a-z]", "", first) or "other"
        elif first != "show":
            changes = _SQL_CHANGES.search(statement)
            calls = (name.lower() for name in _SQL_CALL.findall(statement))
            strange = next((name for name in calls if name not in _SQL_READING), "")
            first = changes.group().lower() if changes else ("call" if strange else "select")
        found.append(first)
    return found or ["other"]


def sql_is_plain(text: str) -> bool:
    """No way out of the database to files and programs; whether it changes data is for rules."""
    odd = _SQL_ODD.search(text) and not _SQL_LISTS.fullmatch(text.strip())
    return len(text) <= _MAX_LENGTH and not odd
