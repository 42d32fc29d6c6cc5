"""A real authorization server on this machine: the device flow of RFC 8628 with proof keys
(RFC 7636), refresh tokens that are good once, and OpenAI's own flow beside it.

It lives by the clock it is given, so that a test moves time for both sides:

    with OAuthServer(time.clock) as server:
        token = await log_in("test", server.login(), signing(server, time))
"""

import base64
import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any, Literal, Self
from urllib.parse import parse_qs

from hermes_agent.core.settings.services import DeviceLogin
from tests.support.patience import PATIENCE
from tests.support.quick_http import QuickHTTPServer

CLIENT = "client-of-the-tests"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
State = Literal["waiting", "approved", "denied", "used"]
Failure = int | Literal["cut", "garbage"]
"""A status, a connection closed without an answer, or something that is no JSON."""


@dataclass
class Device:
    user_code: str
    born: float
    challenge: str
    interval: float
    state: State = "waiting"
    asked: float | None = None
    asks: int = 0


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    fields: dict[str, Any]


@dataclass
class OAuthServer:
    clock: Callable[[], float]
    interval: float = 5.0
    lasts: float = 600.0
    """How long a code is good."""
    token_lasts: float | None = 3600.0
    approve_at: int | None = 1
    """The user confirms before this ask; None: never."""
    slow_down_at: int | None = None
    """The service finds this ask too early, whenever it comes."""
    deny: bool = False
    rotate: bool = True
    refresh_header: str = ""
    account: str = "account-1"
    says_interval: bool = True
    status_of_errors: int = 400

    requests: list[Request] = field(default_factory=list)
    failures: deque[Failure] = field(default_factory=deque)
    """What happens to the next asks at the token endpoint instead of an answer."""
    hold: threading.Event | None = None
    """A renewal is answered once this is set."""
    renewals: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)
    """A renewal has arrived."""

    def __post_init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._refresh: set[str] = set()
        self._numbers = count(1)
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                owner._handle(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._http = QuickHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.hold is not None:
            self.hold.set()
        self._http.shutdown()
        self._thread.join(timeout=PATIENCE)
        self._http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def login(self, *, proof: bool = False, scope: str = "", header: str = "") -> DeviceLogin:
        self.refresh_header = header
        return DeviceLogin(
            device_url=f"{self.url}/device",
            token_url=f"{self.url}/token",
            client=CLIENT,
            scope=scope,
            proof=proof,
            refresh_header=header,
        )

    def codex_login(self) -> DeviceLogin:
        return DeviceLogin(
            device_url=f"{self.url}/api/accounts/deviceauth/usercode",
            token_url=f"{self.url}/token",
            client=CLIENT,
            flow="codex",
        )

    def granted(self) -> str:
        """A token that renews, as a login would have given it."""
        with self._lock:
            return self._new_refresh()

    # answering

    def _handle(self, http: BaseHTTPRequestHandler) -> None:
        body = http.rfile.read(int(http.headers.get("content-length") or 0))
        kind = http.headers.get("content-type", "")
        fields: dict[str, Any] = (
            json.loads(body)
            if kind == "application/json"
            else {name: values[0] for name, values in parse_qs(body.decode()).items()}
        )
        headers = {name.lower(): value for name, value in http.headers.items()}
        request = Request(http.path, headers, fields)
        with self._lock:
            self.requests.append(request)
            failure = self.failures.popleft() if self.failures and "oken" in http.path else None
        if failure == "cut":
            http.close_connection = True
            return
        if failure == "garbage":
            _send(http, 200, b"<html>please pay for the wireless network</html>")
            return
        if failure is not None:
            _send(http, int(failure), b'{"error":"server_error"}')
            return
        if fields.get("grant_type") == "refresh_token":
            self.arrived.set()
            if self.hold is not None:
                assert self.hold.wait(PATIENCE)
        with self._lock:
            status, answer = self._answer(request)
        _send(http, status, json.dumps(answer).encode())

    def _answer(self, request: Request) -> tuple[int, dict[str, Any]]:
        match request.path, request.fields.get("grant_type"):
            case "/device", None:
                return self._begin(request.fields)
            case "/token", "urn:ietf:params:oauth:grant-type:device_code":
                return self._ask(request.fields)
            case "/token", "refresh_token":
                return self._renew(request)
            case "/token", "authorization_code":
                return self._exchange(request.fields)
            case "/api/accounts/deviceauth/usercode", None:
                return self._begin_codex(request.fields)
            case "/api/accounts/deviceauth/token", None:
                return self._ask_codex(request.fields)
        return self._error("invalid_request")

    def _error(self, error: str) -> tuple[int, dict[str, Any]]:
        return self.status_of_errors, {"error": error, "error_description": "as the RFC says"}

    def _begin(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if fields.get("client_id") != CLIENT:
            return 401, {"error": "invalid_client"}
        number = next(self._numbers)
        method = fields.get("code_challenge_method")
        if fields.get("code_challenge") and method != "S256":
            return self._error("invalid_request")
        code = f"device-{number}"
        self._devices[code] = Device(
            f"ABCD-{number:04}", self.clock(), fields.get("code_challenge", ""), self.interval
        )
        page = f"{self.url}/activate"
        said: dict[str, Any] = {
            "device_code": code,
            "user_code": self._devices[code].user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?code=ABCD-{number:04}",
            "expires_in": self.lasts,
        }
        return 200, said | ({"interval": self.interval} if self.says_interval else {})

    def _ask(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        device = self._devices.get(fields.get("device_code", ""))
        if device is None or fields.get("client_id") != CLIENT or device.state == "used":
            return self._error("invalid_grant")
        error = self._progress(device)
        if error:
            return self._error(error)
        verifier = fields.get("code_verifier", "")
        if device.challenge and device.challenge != challenge_of(verifier):
            return self._error("invalid_grant")
        device.state = "used"
        return 200, self._tokens()

    def _progress(self, device: Device) -> str:
        """The error that keeps a device from its token, or nothing."""
        now, before = self.clock(), device.asked
        device.asked, device.asks = now, device.asks + 1
        if now >= device.born + self.lasts:
            return "expired_token"
        early = before is not None and now - before < device.interval
        if early or device.asks == self.slow_down_at:
            device.interval += 5
            return "slow_down"
        if self.deny:
            return "access_denied"
        if self.approve_at is None or device.asks < self.approve_at:
            return "authorization_pending"
        return ""

    def _renew(self, request: Request) -> tuple[int, dict[str, Any]]:
        header = self.refresh_header
        given = request.headers.get(header) if header else request.fields.get("refresh_token")
        if given not in self._refresh or request.fields.get("client_id") != CLIENT:
            return self._error("invalid_grant")
        self.renewals += 1
        if self.rotate:
            self._refresh.discard(given)
        return 200, self._tokens(rotated=self.rotate)

    def _tokens(self, *, rotated: bool = True) -> dict[str, Any]:
        said: dict[str, Any] = {
            "access_token": f"access-{next(self._numbers)}",
            "token_type": "Bearer",
        }
        if rotated:
            said["refresh_token"] = self._new_refresh()
        return said | ({"expires_in": self.token_lasts} if self.token_lasts else {})

    def _new_refresh(self) -> str:
        token = f"refresh-{next(self._numbers)}"
        self._refresh.add(token)
        return token

    # OpenAI's way

    def _begin_codex(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if fields.get("client_id") != CLIENT:
            return 401, {"error": "invalid_client"}
        number = next(self._numbers)
        self._devices[f"auth-{number}"] = Device(
            f"WXYZ-{number:04}", self.clock(), "", self.interval
        )
        user_code = f"WXYZ-{number:04}"
        return 200, {
            "device_auth_id": f"auth-{number}",
            "user_code": user_code,
            "interval": str(int(self.interval)),
        }

    def _ask_codex(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        device = self._devices.get(fields.get("device_auth_id", ""))
        if device is None or device.user_code != fields.get("user_code"):
            return 404, {}
        if self._progress(device):
            return 403, {}
        verifier = "verifier-made-by-the-server"
        device.challenge = challenge_of(verifier)
        return 200, {
            "authorization_code": f"code-of-{device.user_code}",
            "code_challenge": device.challenge,
            "code_verifier": verifier,
        }

    def _exchange(self, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        right = (
            fields.get("redirect_uri") == f"{self.url}/deviceauth/callback"
            and fields.get("client_id") == CLIENT
            and any(
                fields.get("code") == f"code-of-{device.user_code}"
                and device.challenge == challenge_of(fields.get("code_verifier", ""))
                for device in self._devices.values()
            )
        )
        if not right:
            return self._error("invalid_grant")
        said = {"https://api.openai.com/auth": {"chatgpt_account_id": self.account}}
        access = jwt({"exp": self.clock() + 7200, "n": next(self._numbers)})
        return 200, {
            "access_token": access,
            "id_token": jwt(said),
            "refresh_token": self._new_refresh(),
        }


def challenge_of(verifier: str) -> str:
    return _segment(hashlib.sha256(verifier.encode()).digest())


def jwt(claims: dict[str, Any]) -> str:
    header = _segment(b'{"alg":"none"}')
    return f"{header}.{_segment(json.dumps(claims).encode())}.{_segment(b'signature')}"


def _segment(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _send(http: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    http.send_response(status)
    http.send_header("content-type", "application/json")
    http.send_header("content-length", str(len(body)))
    http.end_headers()
    http.wfile.write(body)
