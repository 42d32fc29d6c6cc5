"""Sends mails by SMTP and interprets the server's responses."""

from contextlib import suppress
from typing import NoReturn

import aiosmtplib

from hermes_agent.gateway.channel import SendError
from hermes_agent.gateway.channels.email.servers import MailServer
from hermes_agent.gateway.channels.shared import said

SECONDS = 60.0
WAIT_SECONDS = 60.0
"""How long to wait after a temporary refusal: SMTP does not say."""
TOO_MUCH_TODAY = "5.4.5"
TODAY_SECONDS = 3_600.0
PASSWORD = "set channels.email.password to the name of a secret that holds a valid one"  # noqa: S105 a hint


class SmtpSender:
    def __init__(self, place: MailServer, user: str, password: str, address: str) -> None:
        self._place = place
        self._user = user
        self._password = password
        self._address = address

    async def send(self, to: str, mail: bytes) -> None:
        """Sends one mail; raises `SendError`."""
        client = self._client()
        try:
            await self._log_in(client)
            await self._hand_over(client, to, mail)
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit()
        finally:
            client.close()

    def _client(self) -> aiosmtplib.SMTP:
        safety = self._place.safety
        return aiosmtplib.SMTP(
            hostname=self._place.host,
            port=self._place.port,
            use_tls=safety == "tls",
            start_tls=safety == "starttls",
            tls_context=None if safety == "plain" else self._place.context(),
            timeout=SECONDS,
            local_hostname=self._address.rpartition("@")[2],
        )

    async def _log_in(self, client: aiosmtplib.SMTP) -> None:
        try:
            await client.connect()
            await client.login(self._user, self._password)
        except aiosmtplib.SMTPAuthenticationError as error:
            if error.code < 500:
                raise SendError(_response(error), after=WAIT_SECONDS, channel=True) from None
            raise SendError(
                "the mail server rejected the password", PASSWORD, channel=True
            ) from None
        except aiosmtplib.SMTPResponseException as error:
            raise SendError(_response(error), after=WAIT_SECONDS, channel=True) from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise SendError(f"cannot reach the mail server: {said(error)}", channel=True) from None

    async def _hand_over(self, client: aiosmtplib.SMTP, to: str, mail: bytes) -> None:
        step = "MAIL"
        try:
            size = [f"SIZE={len(mail)}"] if client.supports_extension("size") else []
            await client.mail(self._address, options=size)
            step = "RCPT"
            await client.rcpt(to)
            step = "DATA"
            await client.data(mail)
        except aiosmtplib.SMTPResponseException as error:
            _refuse(error, step)
        except (aiosmtplib.SMTPException, OSError) as error:
            raise SendError(
                f"the mail server did not answer: {said(error)}", doubtful=step == "DATA"
            ) from None


def _refuse(error: aiosmtplib.SMTPResponseException, step: str) -> NoReturn:
    response = _response(error)
    if error.message.startswith(TOO_MUCH_TODAY):
        raise SendError(response, after=TODAY_SECONDS, channel=True) from None
    if error.code < 500:
        raise SendError(response, after=WAIT_SECONDS) from None
    ours = step == "MAIL" and error.code != 552  # 552: this one mail is too large
    raise SendError(response, again=ours, channel=ours) from None


def _response(error: aiosmtplib.SMTPResponseException) -> str:
    return f"the mail server answered {error.code}: {' '.join(error.message.split())[:200]}"
