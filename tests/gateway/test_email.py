"""What only e-mail has: whose mails count, what of them is read, conversations, safety."""

import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.gateway import Chat
from hermes_agent.gateway.channels.email.quoting import own_words, text_of
from hermes_agent.gateway.channels.email.reading import MalformedMail, body_of, head_of
from hermes_agent.gateway.channels.email.servers import place_of
from hermes_agent.gateway.channels.email.trust import doubt
from tests.support.mailserver import HERE, PASSWORD, PEOPLE
from tests.support.platforms.email import AUTHSERV, EmailPlatform
from tests.support.platforms.world import World, until, world_of

ADA = "ada@people.test"


class Told(EmailPlatform):
    """Some settings are others."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self._others = settings

    def settings(self) -> Mapping[str, Any]:
        return {**super().settings(), **self._others}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[World]:
    async with world_of(EmailPlatform(), tmp_path) as world:
        yield world


def there(here: World) -> EmailPlatform:
    assert isinstance(here.platform, EmailPlatform)
    return here.platform


def got(here: World) -> list[bytes]:
    """What the person has got, as it came."""
    here.platform.sent()
    return there(here)._mails(here.platform.person)


async def test_a_mail_that_answers_none_opens_a_conversation_with_its_subject(here: World) -> None:
    mail = there(here).mail("It is full.\n\n-- \nAda", Subject="=?utf-8?q?Gr=C3=BC=C3=9Fe?=")
    await there(here).post(mail.as_bytes())
    (opened,) = await here.heard()
    assert opened.text == "Grüße\n\nIt is full."
    assert opened.chat == Chat("email", here.platform.person, str(mail["Message-ID"]))
    assert opened.person.name == "Ada Lovelace"
    receipt = await here.send("Which disk?", chat=opened.chat)
    answer = there(here).mail("The first.", In_Reply_To=receipt)
    await there(here).post(answer.as_bytes())
    assert (await here.heard(2))[1].chat == opened.chat


async def test_codes_and_commands_come_without_the_subject(here: World) -> None:
    for text in ("ABCD-EFGH-JKLM", "/status now"):
        await there(here).post(there(here).mail(text, Subject="hello").as_bytes())
    assert [one.text for one in await here.heard(2)] == ["ABCD-EFGH-JKLM", "/status now"]


async def test_an_answer_after_a_restart_still_has_subject_and_references(here: World) -> None:
    mail = there(here).mail("It is full.", Subject="The disk")
    await there(here).post(mail.as_bytes())
    (opened,) = await here.heard()
    await here.reconnect()
    await here.send("I look.", chat=opened.chat)
    (raw,) = got(here)
    told = raw.decode()
    assert "\nSubject: Re: The disk\n" in told
    assert f"\nReferences: {mail['Message-ID']}\n" in told
    assert "\nAuto-Submitted: auto-replied\n" in told


async def test_what_we_open_is_headed_by_what_is_said_first(here: World) -> None:
    receipt = await here.send(
        "# Backup **failed**\n\nMore.", chat=Chat("email", here.platform.person)
    )
    (raw,) = got(here)
    assert "\nSubject: Backup failed\n" in raw.decode()
    assert receipt.endswith(f"@{HERE}>")


AUTOMATIC = [
    {"Auto_Submitted": "auto-replied"},
    {"Precedence": "bulk"},
    {"List_Id": "<news.people.test>"},
    {"List_Unsubscribe": "<mailto:x@people.test>"},
    {"X_Autoreply": "yes"},
    {"From": f"MAILER-DAEMON@{PEOPLE}"},
]
FORGED = [
    {"Authentication_Results": ""},
    {"Authentication_Results": f"elsewhere.test; dmarc=pass header.from={PEOPLE}"},
    {"Authentication_Results": f"{AUTHSERV}; dmarc=fail header.from={PEOPLE}"},
    {"From": "Ada <ada@bank.test>"},
]


async def test_what_no_person_wrote_or_nobody_vouches_for_is_passed_over(here: World) -> None:
    for headers in [*AUTOMATIC, *FORGED]:
        await there(here).post(there(here).mail("hello", **headers).as_bytes())
    await there(here).drop(there(here).mail("it bounced", Return_Path="<>").as_bytes())
    below = there(here).mail("hello", Authentication_Results="elsewhere.test; dmarc=none")
    below["Authentication-Results"] = f"{AUTHSERV}; dmarc=pass header.from={PEOPLE}"
    await there(here).post(below.as_bytes())
    await here.platform.say("me")
    assert [one.text for one in await here.heard()] == ["me"]
    assert here.ends == []


async def test_two_agents_do_not_answer_each_other(here: World) -> None:
    await here.send("hello")
    (raw,) = got(here)
    assert head_of(raw).automatic


async def test_whoever_is_not_believed_can_be_by_setting(tmp_path: Path) -> None:
    async with world_of(Told(authenticated="false", authserv=""), tmp_path) as here:
        await there(here).post(there(here).mail("hello", Authentication_Results="").as_bytes())
        assert len(await here.heard()) == 1


@pytest.mark.parametrize("authserv", ["", "*", "*.org", "mx.a.test, *"])
async def test_without_a_server_that_vouches_it_does_not_begin(
    authserv: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="authserv"):
        async with world_of(Told(authserv=authserv), tmp_path):
            pass


RESULTS = {
    "mx.a; dmarc=pass (p=none) header.from=people.test": True,
    'mx.a 1; dkim=pass header.d="people.test" header.s=x': True,
    "mx.a; dkim=pass header.i=@people.test; dmarc=none": True,
    "mx.a; spf=pass smtp.mailfrom=bounce@people.test": True,
    "mx.a; auth=pass smtp.auth=ada@people.test": True,
    "sub.mx.b; dmarc=pass header.from=people.test": True,
    "mx.a; dkim=pass header.d=evil.test": False,
    "mx.a; dkim=pass header.d=x.people.test": False,
    "mx.a; dmarc=pass header.from=evil.test": False,
    "mx.a; dmarc=fail header.from=people.test; spf=pass smtp.mailfrom=people.test": False,
    "mx.a; spf=pass smtp.mailfrom=evil.test (x; dmarc=pass header.from=people.test)": False,
    'mx.a; spf=pass smtp.mailfrom="x; dmarc=pass header.from=people.test"@evil.test': False,
    "mx.a; spf=pass smtp.helo=people.test": False,
    "mx.a.evil.test; dmarc=pass header.from=people.test": False,
    "mx.a; none": False,
    "": False,
    ";": False,
}


@pytest.mark.parametrize(("text", "believed"), RESULTS.items())
def test_what_passed_must_be_about_who_says_to_have_written(text: str, believed: bool) -> None:
    assert (doubt([text], ["mx.a", "*.mx.b"], ADA) == "") is believed


@pytest.mark.parametrize(
    "sender",
    [
        "ada@people.test, eve@evil.test",
        "ada@people.test <eve@evil.test>",
        "<ada@people.test>eve@evil.test",
        "ada@people.test\r\nFrom: eve@evil.test",
        '"ada@people.test',
        "Ada: ada@people.test;",
        "",
    ],
)
def test_a_sender_that_can_be_read_in_two_ways_is_nobody(sender: str) -> None:
    with pytest.raises(MalformedMail):
        head_of(f"From: {sender}\r\nSubject: x\r\n\r\n".encode())


@pytest.mark.parametrize(
    ("sender", "address", "name"),
    [
        ("Ada@People.test", "ada@people.test", ""),
        ('"eve@evil.test" <ada@people.test>', "ada@people.test", "eve@evil.test"),
        ("=?utf-8?b?w4RkYQ==?= <ada@people.test>", "ada@people.test", "Äda"),
        ("ada@people.test (Ada)", "ada@people.test", "Ada"),
    ],
)
def test_a_sender_is_their_address_in_lower_case(sender: str, address: str, name: str) -> None:
    head = head_of(f"From: {sender}\r\n\r\n".encode())
    assert (head.sender, head.name) == (address, name)


ANSWERS = {
    "Yes.\n\nOn Mon, 3 Mar 2025, Hermes wrote:\n> Shall I?\n> Really?\n": "Yes.",
    "Yes.\n\nOn Mon, 3 Mar 2025 at 10, Hermes\n<h@hermes.test> wrote:\n\n> Shall I?": "Yes.",
    "Ja.\n\nAm 3. März 2025 schrieb Hermes:\n> Soll ich?": "Ja.",
    "Yes.\n\n-----Original Message-----\nFrom: Hermes\nSent: Monday\n\nShall I?": "Yes.",
    "Yes.\n\n________________\nFrom: Hermes\nSent: Monday\nTo: Ada\n\nShall I?": "Yes.",
    "> Shall I?\n\nYes.": "Yes.",
    "On Monday, Hermes wrote:\n> Shall I?\n\nYes.\n-- \nAda": "Yes.",
    "> One?\nYes.\n> Two?\nNo.": "> One?\nYes.\n> Two?\nNo.",
    "a > b\nis so": "a > b\nis so",
    "> all is quoted": "> all is quoted",
}


@pytest.mark.parametrize(("text", "own"), ANSWERS.items())
def test_an_answer_is_read_without_what_it_quotes(text: str, own: str) -> None:
    assert own_words(text, "Re: x", answers=True) == own


def test_what_is_forwarded_stays() -> None:
    text = "Look:\n\nFrom: Bob\nSent: Monday\n\n> the news"
    assert own_words(text, "Fwd: news", answers=True) == text


def test_html_is_read_as_text() -> None:
    html = (
        "<head><style>p{}</style></head><p>Hello &amp; <b>bye</b></p><ul><li>one<li>two</ul>"
        '<a href="https://a.test/x">here</a><script>bad()</script>'
        '<div class="gmail_quote">On Monday<blockquote>old</blockquote></div>'
    )
    assert text_of(html, answers=True) == "Hello & bye\n- one\n- two\nhere (https://a.test/x)"
    assert "old" in text_of(html, answers=False)


@pytest.mark.parametrize("piece", ["<a ", "<!", "<!--", "</", "<p>", "<a>x", "&", "<script>", "<?"])
def test_html_that_never_ends_is_read_all_the_same(piece: str) -> None:
    text = text_of("begin" + piece * (400_000 // len(piece)) + "</a>" * 1_000, answers=True)
    assert text.startswith("begin")


def test_what_is_in_comments_is_not_said() -> None:
    assert text_of("a<!-- <b>hidden</b> --> b<!--[if mso]>x<![endif]-->", answers=False) == "a b"


def test_paragraphs_that_were_broken_for_sending_are_whole_again() -> None:
    raw = (
        b"From: ada@people.test\r\nContent-Type: text/plain; format=flowed\r\n\r\n"
        b"one \r\ntwo\r\nthree\r\n"
    )
    assert body_of(raw, head_of(raw)).text == "one two\nthree"


SOUND = (
    b'From: "A" <ada@people.test>\r\nSubject: =?utf-8?b?w4Q=?=\r\nMessage-ID: <a@b>\r\n'
    b"References: <x@y> <z@y>\r\nDate: Mon, 3 Mar 2025 10:00:00 +0000\r\n"
    b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\n'
    b"Content-Type: text/html; charset=latin-1\r\nContent-Transfer-Encoding: base64\r\n\r\nPGI+\r\n"
    b"--x\r\nContent-Type: message/rfc822\r\n\r\nFrom: b@c\r\n\r\nhi\r\n"
    b"--x\r\nContent-Type: image/png; name*=utf-8''a%20b\r\n\r\nAAAA\r\n--x--\r\n"
)


@given(st.lists(st.tuples(st.integers(0, len(SOUND)), st.integers(0, 12), st.binary(max_size=12))))
def test_whatever_a_mail_is_it_is_read_or_malformed(cuts: list[tuple[int, int, bytes]]) -> None:
    raw = SOUND
    for place, length, put in cuts:
        raw = raw[:place] + put + raw[place + length :]
    with suppress(MalformedMail):
        head = head_of(raw)
        said = [head.subject, head.name, body_of(raw, head).text]
        assert "".join(said).encode().decode() == "".join(said)


def test_a_mail_of_a_thousand_layers_is_read_or_malformed() -> None:
    layers = b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\r\n\r\n--%d\r\n' % (n, n)
        for n in range(3_000)
    )
    raw = b"From: ada@people.test\r\n" + layers
    with suppress(MalformedMail):
        assert body_of(raw, head_of(raw)).files == ()


async def test_a_mail_is_brought_by_the_push_alone(tmp_path: Path) -> None:
    async with world_of(Told(look_seconds=600), tmp_path) as here:
        await here.platform.say("now")
        assert [one.text for one in await here.heard()] == ["now"]


async def test_only_mails_that_prove_something_are_deleted(here: World) -> None:
    await here.platform.say("stays")
    await here.heard()
    await here.reconnect()
    left: list[bytes] = []

    def one_is_left() -> bool:
        left[:] = there(here)._mails(there(here).me)
        return len(left) == 1

    await until(one_is_left)
    assert b"stays" in left[0]


async def test_mails_that_are_numbered_anew_are_taken_once(here: World) -> None:
    await here.platform.say("before")
    await here.heard()
    await here.disconnect()
    await here.platform.say("meanwhile")
    maildir = there(here).server.maildir(there(here).me)
    for path in maildir.glob("dovecot*"):
        path.unlink()
    before = await here.store.gateway.mark("email")
    await until(lambda: time.time() > int(before.split(":")[0]) + 1)  # Dovecot numbers by seconds
    here.channel = here.made()
    await here.connect()
    assert [one.text for one in await here.heard(2)] == ["before", "meanwhile"]
    assert (await here.store.gateway.mark("email")).split(":")[0] != before.split(":")[0]


class Safe(EmailPlatform):
    """No proxy between: as a provider is spoken to."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self._way = way

    def settings(self) -> Mapping[str, Any]:
        ports = self.server.ports
        imap, smtp = (
            (ports.imaps, ports.submissions)
            if self._way == "tls"
            else (ports.imap, ports.submission)
        )
        return {
            **super().settings(),
            "imap": f"{self._way}://localhost:{imap}",
            "smtp": f"{self._way}://localhost:{smtp}",
        }


@pytest.mark.parametrize("way", ["tls", "starttls"])
async def test_servers_are_spoken_to_safely(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Safe(way)
    await platform.start(tmp_path)
    certificate = shutil.copy(platform.server.certificate, tmp_path)
    await platform.stop()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with world_of(platform, tmp_path) as here:
        await platform.say("hello")
        assert [one.text for one in await here.heard()] == ["hello"]
        monkeypatch.delenv("SSL_CERT_FILE")
        stranger = here.made()
        with pytest.raises(HermesError, match="certificate verify failed"):
            await stranger.run()
        here.channel, before = stranger, here.channel
        with pytest.raises(HermesError, match="cannot reach"):
            await here.send("hello")
        here.channel = before


def test_a_password_never_goes_out_in_the_clear() -> None:
    assert place_of("x", "imap.example.org", 993).safety == "tls"
    assert place_of("x", "imap.example.org:143", 993).safety == "starttls"
    assert place_of("x", "plain://127.0.0.1:143", 993).safety == "plain"
    with pytest.raises(UsageError, match="in the clear"):
        place_of("x", "plain://imap.example.org", 993)


async def test_the_password_is_in_no_mail(here: World) -> None:
    await here.platform.say("hello")
    await here.heard()
    await here.send("hello")
    mails = [*got(here), *there(here)._mails(there(here).me)]
    assert not [raw for raw in mails if PASSWORD.encode() in raw]
