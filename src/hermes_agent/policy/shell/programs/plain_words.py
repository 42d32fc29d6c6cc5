"""Words that say more than one thing: which are plain, and which hosts they name."""

import re
from urllib.parse import unquote

_USER = r"(?:[^@/?#]*@)?"
_URL = re.compile(rf"postgres(?:ql)?://{_USER}([^@/?#]*)(?:/([^@?#]*))?(?:\?([^@#]*))?")
_PAIR = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?:\s+|$)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = frozenset({
    "port", "user", "dbname", "password", "connect_timeout", "application_name",
    "fallback_application_name", "client_encoding", "sslmode", "sslsni", "keepalives",
    "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
    "target_session_attrs", "load_balance_hosts", "gssencmode", "channel_binding",
})  # fmt: skip
"""Words of an address that say who, where and how long to wait."""
_WAITS = re.compile(r"-c\s?(?:lock|statement)_timeout=\d+m?s?")
_DIG = re.compile(
    r"\+(?:no)?(?:aaflag|aaonly|additional|adflag|all|answer|authority|badcookie|besteffort|cdflag"
    r"|class|cmd|comments|cookie|crypto|defname|dnssec|edns|expandaaaa|expire|fail|identify|ignore"
    r"|json|keepopen|multiline|nsid|nssearch|onesoa|padding|qr|question|recurse|rdflag|rrcomments"
    r"|search|short|showsearch|stats|tcp|trace|ttlid|ttlunits|unknownformat|vc|yaml"
    r"|(?:bufsize|edns|ndots|qid|retry|split|time|timeout|tries)=\d+)"
)

SSH_CODE = re.compile(
    r"(?i)\s*(proxycommand|localcommand|knownhostscommand|permitlocalcommand|include|match"
    r"|proxyusefdpass|pkcs11provider|securitykeyprovider|xauthlocation|remotecommand)\b"
)
PSQL_PLAIN = re.compile(r"(?:ECHO|FETCH_COUNT|ON_ERROR_STOP|QUIET|SHOW_CONTEXT|VERBOSITY)(?:=.*)?")
"""Variables of psql that stand in no statement and run nothing."""
PS_LETTERS = frozenset("AaCcEefgHhjklmNnOopqrSsTtUuVvwXxZ")
CLUSTER_STATE = re.compile(
    r"/(?:healthz|livez|readyz|metrics|version|apis?|openapi/v[23]"
    r"|apis/metrics\.k8s\.io/v1beta1/(?:nodes|pods))(?:\?[\w=&]*)?"
)
SSH_HOST = re.compile(r"(?i)\s*(?:proxyjump|hostname)\s*[= ]\s*(\S+)")


def database_hosts(text: str) -> list[str] | None:
    """The hosts of a database's address: of a URL, or of `host=… dbname=…`, or none for a mere
    name. None for an address that may do more than to say where."""
    if "://" in text:
        found = _URL.fullmatch(text)
        if found is None:
            return None
        place, name, query = (part or "" for part in found.groups())
        options = (part.partition("=") for part in query.split("&") if part)
        pairs = [("host", place), ("dbname", unquote(name))]
        pairs += [(unquote(key), unquote(value)) for key, _, value in options]
    elif "=" in text:
        pairs, at = [], 0
        while at < len(text):
            found = _PAIR.match(text, at)
            if found is None:
                return None
            key, value = found.groups()
            value = value[1:-1] if value.startswith("'") else value
            pairs.append((key, _ESCAPE.sub(r"\1", value)))
            at = found.end()
    else:
        return []
    hosts: list[str] = []
    for key, value in pairs:
        if key in {"host", "hostaddr"}:
            hosts += [host for host in value.split(",") if host]
        elif key == "options":
            if not _WAITS.fullmatch(value):
                return None
        elif key not in _PLAIN or (key == "dbname" and re.search("=|://", value)):
            return None
    return hosts


def hosts_named(text: str) -> list[str]:
    """The names in a filter, such as `dst db.internal and port 443`, that would be looked up."""
    words = (word.strip(".") for word in re.split(r"[^\w.-]+", text))
    return [word for word in words if not word.rpartition(".")[2].isdigit() and "." in word]


def is_plain_for_dig(text: str) -> bool:
    """Whether `+word` is about how dig asks and shows, and not about what."""
    return _DIG.fullmatch(text) is not None
