"""Services that let people sign in with a code on another device."""

from hermes_agent.core.settings.services import DeviceLogin, ModelService

LOGINS: dict[str, DeviceLogin] = {
    "nous": DeviceLogin(
        device_url="https://portal.nousresearch.com/api/oauth/device/code",
        token_url="https://portal.nousresearch.com/api/oauth/token",  # noqa: S106  an address
        client="hermes-cli",
        scope="inference:invoke",
        refresh_header="x-nous-refresh-token",
    ),
    "xai": DeviceLogin(
        device_url="https://auth.x.ai/oauth2/device/code",
        token_url="https://auth.x.ai/oauth2/token",  # noqa: S106
        client="b1a00492-073a-47ea-816f-4c329264a828",
        scope="openid profile email offline_access grok-cli:access api:access",
    ),
    "codex": DeviceLogin(
        device_url="https://auth.openai.com/api/accounts/deviceauth/usercode",
        token_url="https://auth.openai.com/oauth/token",  # noqa: S106
        client="app_EMoamEEZ73f0CkXaXp7hrann",
        flow="codex",
    ),
}
"""By the name of the service."""


def login_of(name: str, service: ModelService) -> DeviceLogin | None:
    return service.login or LOGINS.get(name)
