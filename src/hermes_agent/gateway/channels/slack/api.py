"""Slack's Web API, by slack_sdk's client."""

from functools import partial
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_agent.core.errors import HermesError
from hermes_agent.core.gateway import OutboundMessage
from hermes_agent.gateway.channel import CredentialsRejected, SendError
from hermes_agent.gateway.channels.shared import Part, retry_after
from hermes_agent.gateway.channels.slack.wire import message_id, stamp_in
from hermes_agent.gateway.delivery.rendering import SLACK, render

TROUBLE = (SlackClientError, aiohttp.ClientError, OSError, TimeoutError)
UNKNOWN = {
    "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired",
    "no_permission", "missing_scope", "not_allowed_token_type",
}  # fmt: skip
PASSING = {
    "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org",
}  # fmt: skip
REFUSED = "Slack rejected a token"
HINT = "check the app on api.slack.com/apps, then `hermes gateway setup slack`"
SECTION = 3_000
"""Characters of one section of a message with buttons."""
MAX_BUTTONS = 25


def reason(trouble: SlackApiError) -> str:
    """Slack's name for the error."""
    found = trouble.response.get("error") if isinstance(trouble.response.data, dict) else None
    return str(found or trouble.response.status_code)


def ended(trouble: BaseException) -> HermesError:
    """The error for a connection that ended or a request that failed."""
    if isinstance(trouble, SlackApiError):
        if reason(trouble) in UNKNOWN:
            return CredentialsRejected(f"{REFUSED}: {reason(trouble)}", HINT)
        return HermesError(f"unexpected answer from Slack: {reason(trouble)}")
    return HermesError(f"Slack is not responding: {trouble}")


def send_error(trouble: BaseException) -> SendError:
    if isinstance(trouble, aiohttp.ClientConnectorError):
        return SendError("cannot reach Slack", channel=True)
    if not isinstance(trouble, SlackApiError):
        return SendError(f"Slack is not responding: {trouble}", doubtful=True)
    why, status = reason(trouble), trouble.response.status_code
    if status == 429 or why == "ratelimited":
        after = retry_after(trouble.response.headers, 30.0)
        return SendError("Slack is rate limiting the app", after=after)
    if why in UNKNOWN:
        return SendError(f"{REFUSED}: {why}", HINT, channel=True)
    if status >= 500 or why in PASSING:
        return SendError(f"unexpected answer from Slack: {why}", doubtful=True)
    return SendError(f"Slack rejected the message: {why}", again=False)


def parts_of(client: AsyncWebClient, outgoing: OutboundMessage) -> list[Part]:
    """The requests for a message: files are uploaded separately."""
    if outgoing.edit:
        return [partial(_edit, client, outgoing)]
    parts: list[Part] = []
    if outgoing.text:
        parts.append(partial(_say, client, outgoing))
    if outgoing.files:
        parts.append(partial(_put, client, outgoing))
    return parts


def _body(outgoing: OutboundMessage) -> dict[str, Any]:
    text = render(outgoing.text, SLACK)
    return {"channel": outgoing.chat.chat, "text": text, "blocks": _blocks(text, outgoing)}


def _blocks(text: str, outgoing: OutboundMessage) -> list[dict[str, Any]]:
    """Only a message with buttons has blocks."""
    if not outgoing.buttons:
        return []
    sections = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text[first : first + SECTION]}}
        for first in range(0, len(text), SECTION)
    ]
    rows = [
        {
            "type": "actions",
            "elements": [
                {
                    "type": "button",
                    "text": {"type": "plain_text", "text": button.text[:75]},
                    "action_id": f"{number}-{place}",
                    "value": button.data,
                }
                for place, button in enumerate(row[:MAX_BUTTONS])
            ],
        }
        for number, row in enumerate(outgoing.buttons)
    ]
    return [*sections, *rows]


async def _say(client: AsyncWebClient, outgoing: OutboundMessage) -> str:
    sent = await client.chat_postMessage(
        **_body(outgoing),
        thread_ts=outgoing.chat.thread or None,
        unfurl_links=False,
        unfurl_media=False,
    )
    return message_id(outgoing.chat.chat, str(sent["ts"]))


async def _edit(client: AsyncWebClient, outgoing: OutboundMessage) -> str:
    stamp = stamp_in(outgoing.edit)
    if not stamp:
        raise SendError(f"not a Slack message ID: {outgoing.edit!r}", again=False)
    await client.chat_update(**_body(outgoing), ts=stamp)
    return outgoing.edit


async def _put(client: AsyncWebClient, outgoing: OutboundMessage) -> str:
    put = await client.files_upload_v2(
        file_uploads=[
            {"content": file.data, "filename": file.name or "file", "title": file.name or "file"}
            for file in outgoing.files
        ],
        channel=outgoing.chat.chat,
        thread_ts=outgoing.chat.thread or None,
    )
    files: Any = put.get("files", [])
    return message_id(outgoing.chat.chat, str(files[0]["id"]) if files else "file")
