"""How much a program says, by its settings: what would have it say less."""

import re

_LEVEL_KEY = re.compile(
    r"level|verbos|debug|trace|severity|log\w*[._-]?threshold|chatty|(?:^|_)log$", re.IGNORECASE
)
_LOUD_WORD = re.compile(
    r"debug\d?|trace\d?|verbose|finest|finer|silly|insane|chatty", re.IGNORECASE
)
"""What says too much whatever the setting is called."""
_LOUD = re.compile(
    r"debug\d?|trace|true|on|yes|all|verbose|everything|[5-9]|[1-9]\d+", re.IGNORECASE
)
_WITNESS = re.compile(r"audit|secur", re.IGNORECASE)
"""What is written down for those who ask later who did what: it is not made less."""
_NUMBERS = {"7": "4", "8": "4", "9": "4", "10": "30"}
"""Levels by number, of syslog and of Python, that tell everything, and those of warnings."""
_QUIET = {
    "log_statement": "none", "log_min_messages": "warning", "log_min_error_statement": "error",
    "log_min_duration_statement": "-1", "log_min_duration_sample": "-1", "log_duration": "off",
    "log_autovacuum_min_duration": "-1", "log_temp_files": "-1", "log_connections": "off",
    "log_disconnections": "off", "log_parser_stats": "off", "log_executor_stats": "off",
    "log_planner_stats": "off", "log_replication_commands": "off", "log_lock_waits": "off",
    "error_log": "error", "rewrite_log": "off", "log_queries": "off", "slow_query_log": "off",
    "general_log": "off", "log_error_verbosity": "default",
}  # fmt: skip
"""What well-known programs are set to where nobody wants to hear more."""

_AMONG = re.compile(
    r"(?<![\w./-])(?:debug\d?|trace\d?|finest|finer|silly)(?![\w./-])", re.IGNORECASE
)
"""Levels among other words: of a part, or before the place where it goes."""
_SPEAKS = re.compile(r"log|level|debug|trace|verbos", re.IGNORECASE)


def quieter(key: str, value: str) -> str:
    """What a setting should be by which too much is said; empty where it is quiet."""
    said = value.strip("'\" ")
    own = key.rpartition(".")[2].lower().replace("-", "_")
    if own not in _QUIET and not _LOUD_WORD.fullmatch(said) and not _LOUD.fullmatch(said):
        if not _SPEAKS.search(key) or _WITNESS.search(key):
            return ""
        less = _AMONG.sub(lambda found: _usual(own, found[0]), said)
        return less if less != said and re.fullmatch(r"[\w.:=*, ;-]+", said) else ""
    quiet = _quiet(key, value)
    return re.sub(r"\S+$", quiet, said) if quiet else ""  # a level may stand behind a place


def _usual(own: str, word: str) -> str:
    """The level of those that say what matters, written as the other one is."""
    if word.isupper():
        return "INFO"
    if word.istitle():
        return "Warning"
    return "notice" if own == "loglevel" else "info"


def _quiet(key: str, value: str) -> str:
    """What a setting should be by which too much is said; empty where it is quiet."""
    own, said = key.rpartition(".")[2].lower().replace("-", "_"), value.strip("'\" ")
    last = re.split(r"\s+", said)[-1].lower()
    if own in _QUIET:
        loud = re.fullmatch(r"all|mod|ddl|on|0|1|debug\d?|info|log|notice|verbose", last)
        same = last == _QUIET[own] or (own == "error_log" and last in ("info", "notice"))
        return _QUIET[own] if loud and not same else ""
    word = _LOUD_WORD.fullmatch(said) is not None
    if not (word or _LEVEL_KEY.search(key)) or _WITNESS.search(key):
        return ""
    if not word and not _LOUD.fullmatch(said):
        return ""
    if re.search(r"level|severity|threshold", own) and said.isdigit():
        return _NUMBERS.get(said, "")
    if said.lower() in ("true", "on", "yes"):
        return "" if own.endswith("log") else "false"
    return "1" if said.isdigit() else _usual(own, said)
