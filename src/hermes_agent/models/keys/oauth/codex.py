"""OpenAI's way to sign in to ChatGPT with a code: its own requests, and a code for a code."""

from urllib.parse import urlsplit

import msgspec

from hermes_agent.core.settings.services import DeviceLogin
from hermes_agent.models.keys.oauth.device_flow import (
    LoginContext,
    answered,
    claims,
    confirmed,
    form,
    garbage,
    text,
    token_of,
)
from hermes_agent.models.keys.oauth.token import Token

_JSON = {"content-type": "application/json", "accept": "application/json"}
_FORM = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
_NOT_YET = (403, 404)


async def log_in_codex(name: str, login: DeviceLogin, signing: LoginContext) -> Token:
    """The user enters the code at a page of OpenAI's; what comes of it is exchanged for tokens."""
    parts = urlsplit(login.device_url)
    origin = f"{parts.scheme}://{parts.netloc}"
    body = msgspec.json.encode({"client_id": login.client})
    codes = answered(name, *await signing.post(login.device_url, body, _JSON))
    id, user_code = text(codes, "device_auth_id"), text(codes, "user_code")
    user_code = user_code or text(codes, "usercode")
    if not (id and user_code):
        raise garbage(name)
    signing.show(user_code, f"{origin}/codex/device")
    poll = login.device_url.rpartition("/")[0] + "/token"
    body = msgspec.json.encode({"device_auth_id": id, "user_code": user_code})

    async def ask() -> Token | float:
        status, said = await signing.post(poll, body, _JSON)
        if status in _NOT_YET:
            return 0.0
        grant = answered(name, status, said)
        fields = {
            "grant_type": "authorization_code",
            "client_id": login.client,
            "code": text(grant, "authorization_code"),
            "code_verifier": text(grant, "code_verifier"),
            "redirect_uri": f"{origin}/deviceauth/callback",
        }
        tokens = answered(name, *await signing.post(login.token_url, form(fields), _FORM))
        made = token_of(name, tokens, signing.clock)
        return msgspec.structs.replace(made, account=_account(text(tokens, "id_token"), made))

    return await confirmed(name, codes, ask, signing)


def _account(id_token: str, token: Token) -> str:
    """Every request names the account, which the tokens know."""
    for jwt in (id_token, token.access):
        said = claims(jwt)
        inner = said.get("https://api.openai.com/auth")
        found = text(inner, "chatgpt_account_id") if isinstance(inner, dict) else ""
        if found := found or text(said, "chatgpt_account_id"):
            return found
    return ""
