"""Signing in with a code on another device (RFC 8628, or as OpenAI does it for ChatGPT), and
renewing the token."""

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from hermes_agent.core.errors import ModelError
from hermes_agent.core.protocols import Clock
from hermes_agent.core.settings.services import DeviceLogin
from hermes_agent.models.wires.http import HttpConnection

INTERVAL = 5.0
"""Seconds between two polls, if the service does not say."""
MAX_INTERVAL = 60.0
CODE_SECONDS = 900.0
"""How long a code is valid, if the service does not say."""
REQUEST_SECONDS = 30.0
_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_FORM = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}

_JSON = {"content-type": "application/json", "accept": "application/json"}
_NOT_YET = (403, 404)
"""How OpenAI says that nobody has entered the code yet."""

Answer = dict[str, Any]
Show = Callable[[str, str], None]
"""Called with the code and the address where the user enters it."""


class Token(Struct, frozen=True):
    """The tokens of a login. Never shown."""

    access: str
    refresh: str = ""
    expires: float = 0.0
    """Seconds since the epoch; 0 if the service does not say."""
    account: str = ""
    """The account, if requests must name it."""

    def __repr__(self) -> str:
        return f"Token(expires={self.expires:.0f})"

    __str__ = __repr__


class HttpPost(Protocol):
    async def __call__(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Status and body of the answer. Raises `ModelError` if there is none."""
        ...


class LoginContext(Struct, frozen=True):
    """What a login needs from outside."""

    post: HttpPost
    show: Show
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[int], bytes]


async def post_by_http(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    wire = HttpConnection(url, {}, REQUEST_SECONDS)
    try:
        async with wire.post("", body, headers) as answer:
            return answer.status, await answer.read()
    finally:
        await wire.close()


async def log_in(name: str, login: DeviceLogin, context: LoginContext) -> Token:
    """Show a code and wait until the user has confirmed it."""
    flow = _log_in_codex if login.flow == "codex" else _log_in_by_device
    return await flow(name, login, context)


async def _log_in_by_device(name: str, login: DeviceLogin, signing: LoginContext) -> Token:
    asked = {"client_id": login.client} | ({"scope": login.scope} if login.scope else {})
    proof = {}
    if login.proof:
        verifier = _unpadded(signing.random(32))
        proof = {"code_verifier": verifier}
        challenge = _unpadded(hashlib.sha256(verifier.encode()).digest())
        asked |= {"code_challenge": challenge, "code_challenge_method": "S256"}
    codes = _answered(name, *await signing.post(login.device_url, _form(asked), _FORM))
    page = _text(codes, "verification_uri_complete") or _text(codes, "verification_uri")
    device_code, user_code = _text(codes, "device_code"), _text(codes, "user_code")
    if not (page and device_code and user_code):
        raise _garbage(name)
    signing.show(user_code, page)
    fields = {"grant_type": _GRANT, "client_id": login.client, "device_code": device_code, **proof}

    async def ask() -> Token | float:
        status, body = await signing.post(login.token_url, _form(fields), _FORM)
        return _outcome(name, status, body, signing.clock)

    return await _confirmed(name, codes, ask, signing)


async def _log_in_codex(name: str, login: DeviceLogin, signing: LoginContext) -> Token:
    """The user enters the code on a page of OpenAI; the resulting grant is exchanged for tokens."""
    parts = urlsplit(login.device_url)
    origin = f"{parts.scheme}://{parts.netloc}"
    body = msgspec.json.encode({"client_id": login.client})
    codes = _answered(name, *await signing.post(login.device_url, body, _JSON))
    id, user_code = _text(codes, "device_auth_id"), _text(codes, "user_code")
    user_code = user_code or _text(codes, "usercode")
    if not (id and user_code):
        raise _garbage(name)
    signing.show(user_code, f"{origin}/codex/device")
    poll = login.device_url.rpartition("/")[0] + "/token"
    body = msgspec.json.encode({"device_auth_id": id, "user_code": user_code})

    async def ask() -> Token | float:
        status, said = await signing.post(poll, body, _JSON)
        if status in _NOT_YET:
            return 0.0
        grant = _answered(name, status, said)
        fields = {
            "grant_type": "authorization_code",
            "client_id": login.client,
            "code": _text(grant, "authorization_code"),
            "code_verifier": _text(grant, "code_verifier"),
            "redirect_uri": f"{origin}/deviceauth/callback",
        }
        tokens = _answered(name, *await signing.post(login.token_url, _form(fields), _FORM))
        made = _token_of(name, tokens, signing.clock)
        # Every request names the account, which the tokens know.
        account = chatgpt_account(_text(tokens, "id_token"), made.access)
        return msgspec.structs.replace(made, account=account)

    return await _confirmed(name, codes, ask, signing)


def chatgpt_account(*tokens: str) -> str:
    """The account in the first of the tokens that names one, or ""."""
    for token in tokens:
        said = claims(token)
        inner = said.get("https://api.openai.com/auth")
        found = _text(inner, "chatgpt_account_id") if isinstance(inner, dict) else ""
        if found := found or _text(said, "chatgpt_account_id"):
            return found
    return ""


async def _confirmed(
    name: str, codes: Answer, ask: Callable[[], Awaitable[Token | float]], signing: LoginContext
) -> Token:
    """Poll until there is a token. `ask` returns it, or by how many seconds to lengthen the pause;
    transient errors are retried."""
    pause = _number(codes, "interval") or INTERVAL
    deadline = signing.clock() + (_number(codes, "expires_in") or CODE_SECONDS)
    while True:
        await signing.sleep(pause)
        if signing.clock() >= deadline:
            raise _expired(name)
        try:
            outcome = await ask()
        except ModelError as error:
            if not error.passing:
                raise
            pause = min(pause * 2, MAX_INTERVAL)
            continue
        if isinstance(outcome, Token):
            return outcome
        pause += outcome


async def renew(name: str, login: DeviceLogin, token: Token, post: HttpPost, clock: Clock) -> Token:
    """A new token for an old one, which may be invalid afterwards."""
    fields = {"grant_type": "refresh_token", "client_id": login.client}
    headers = dict(_FORM)
    if login.refresh_header:
        headers[login.refresh_header] = token.refresh
    else:
        fields["refresh_token"] = token.refresh
    status, body = await post(login.token_url, _form(fields), headers)
    if 400 <= status < 500 and status not in (408, 429):
        raise over(name)
    new = _token_of(name, _answered(name, status, body), clock)
    return msgspec.structs.replace(
        new, refresh=new.refresh or token.refresh, account=new.account or token.account
    )


def _outcome(name: str, status: int, body: bytes, clock: Clock) -> Token | float:
    answer = _answered(name, status, body, refused=True)
    match _text(answer, "error"):
        case "":
            return _token_of(name, answer, clock)
        case "authorization_pending":
            return 0.0
        case "slow_down":
            return 5.0
        case "access_denied":
            raise ModelError("auth", f"the login with {name} was refused in the browser")
        case "expired_token":
            raise _expired(name)
        case error:
            raise ModelError("auth", f"{name} refused the login: {error[:100]}")


def _answered(name: str, status: int, body: bytes, *, refused: bool = False) -> Answer:
    """The JSON object of an answer; with `refused`, a 4xx that has one counts too."""
    if status >= 500 or status in (408, 429):
        raise ModelError("overload", f"the login server of {name} failed ({status})")
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        answer = None
    if isinstance(answer, dict) and (status == 200 or (refused and answer.get("error"))):
        return answer
    if status == 200:
        raise _garbage(name)
    said = _text(answer, "error") if isinstance(answer, dict) else ""
    raise ModelError(
        "auth", f"{name} refused the login ({status})" + (f": {said[:100]}" if said else "")
    )


def _token_of(name: str, answer: Answer, clock: Clock) -> Token:
    access = _text(answer, "access_token")
    if not access:
        raise _garbage(name)
    lasts = _number(answer, "expires_in")
    expires = clock() + lasts if lasts else _number(claims(access), "exp") or 0.0
    return Token(access, _text(answer, "refresh_token"), expires)


def claims(token: str) -> Answer:
    """The claims of a JSON web token, or nothing. They are not verified: only the service that
    issued the token relies on them."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        content = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=="))
    except (ValueError, msgspec.MsgspecError):
        return {}
    return content if isinstance(content, dict) else {}


def _text(answer: Answer, field: str) -> str:
    value = answer.get(field)
    return value if isinstance(value, str) else ""


def _number(answer: Answer, field: str) -> float | None:
    """A positive number, even if it is sent as text."""
    try:
        value = float(answer.get(field) or 0)
    except (TypeError, ValueError):
        return None
    return value if 0 < value < 1e12 else None


def _form(fields: Mapping[str, str]) -> bytes:
    return urlencode(fields).encode()


def over(name: str) -> ModelError:
    return ModelError("auth", f"the login with {name} has expired", f"hermes model login {name}")


def _expired(name: str) -> ModelError:
    return ModelError(
        "auth",
        f"the code for {name} was not confirmed in time",
        f"hermes model login {name} gives a new one",
    )


def _garbage(name: str) -> ModelError:
    return ModelError("garbage", f"{name} sent an invalid answer to the login")


def _unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
