"""Logs in with a service, by the flow that it has."""

from hermes_agent.core.settings.services import DeviceLogin
from hermes_agent.models.keys.oauth.codex import log_in_codex
from hermes_agent.models.keys.oauth.device_flow import LoginContext, log_in_by_device
from hermes_agent.models.keys.oauth.token import Token


async def log_in(name: str, login: DeviceLogin, context: LoginContext) -> Token:
    """Show a code and wait until the user has confirmed it. Cancel it to give up."""
    flow = log_in_codex if login.flow == "codex" else log_in_by_device
    return await flow(name, login, context)
