import asyncio
import contextlib
import re

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.core.text.addresses import address_of, classify, host_of, plain

KINDS = {
    "loopback": """127.0.0.1 127.1 2130706433 0x7f000001 0x7f.1 0177.0.0.1 017700000001 0 0.0.0.0
        [::1] ::1 :: [::ffff:127.0.0.1] ::ffff:7f00:1 ::127.0.0.1 2002:7f00:1:: 64:ff9b::7f00:1
        ::ffff:0:7f00:1 2001:0:1:2:3:4:80ff:fffe localhost LOCALHOST. deep.localhost
        127%2e0%2e0%2e1 %31%32%37.0.0.1 ①②⑦.0.0.1 127。0。0。1 127\uff0e0\uff0e0\uff0e1
        127.0.0.1:80 [::1]:443 user@127.0.0.1""",
    "metadata": """169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518
        169。254。169。254 \uff11\uff16\uff19.254.169.254 169.254.169.254. [::ffff:169.254.169.254]
        ::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: fd00:ec2::254 100.100.100.200
        169.254.170.2 192.0.0.192 168.63.129.16 metadata.google.internal
        Metadata.Google.Internal. metadata.google.internal:80 metadata instance-data""",
    "private": """10.0.0.1 10.1 167772161 172.16.3.4 172.31.255.255 192.168.1.1 192.168.257
        100.64.0.1 100.127.255.255 fd12::1 fec0::1 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1::
        192.0.2.1 198.18.0.1 2001:db8::1 db.internal printer.local router.lan""",
    "link-local": "169.254.1.1 fe80::1 fe80::1%eth0 [fe80::1%25eth0]",
    "multicast": "224.0.0.1 239.1.2.3 ff02::1",
    "reserved": "240.0.0.1 255.255.255.255 256.256.256.256 1.2.3.4.5 08.8.8.8 0x 4294967296 a.0x7f",
    "public": "8.8.8.8 1.1 134744072 2606:4700:4700::1111 [2606:4700::1]:443 172.32.0.1 100.63.1.1",
    "name": "example.com example.com. EXAMPLE.COM:443 bücher.de localhost.com 10.example.com",
}


@pytest.mark.parametrize(
    ("host", "kind"), [(host, kind) for kind, hosts in KINDS.items() for host in hosts.split()]
)
def test_a_host_is_classified_however_it_is_written(host: str, kind: str) -> None:
    assert classify(host) == kind


def test_no_host_at_all_is_not_a_name() -> None:
    assert classify("") == "reserved"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://public@169.254.169.254/", "169.254.169.254"),
        ("http://public:80@169.254.169.254:80/x@y", "169.254.169.254"),
        ("http://10.0.0.1#public.com", "10.0.0.1"),
        ("http://public.com/?@10.0.0.1", "public.com"),
        ("http://public.com%2f@10.0.0.1/", "10.0.0.1"),
        ("http:///10.0.0.1/", "10.0.0.1"),
        ("http:10.0.0.1/", "10.0.0.1"),
        ("ht\ttp://10.0\n.0.1", "10.0.0.1"),
        ("//10.0.0.1/x", "10.0.0.1"),
        ("10.0.0.1:80/x", "10.0.0.1"),
        ("http://[::1]:80/x", "::1"),
        ("HTTPS://Example.COM.:443/a", "example.com"),
        ("git@github.com:a/b.git", "github.com"),
        ("ssh://git@github.com:22/a", "github.com"),
        ("example.com", "example.com"),
    ],
)
def test_the_host_of_a_url_is_the_one_that_it_leads_to(url: str, host: str) -> None:
    assert host_of(url) == host


ODD_URLS = r"""http://10.0.0.1\@public.com/ http://public.com\@10.0.0.1/ http://10.0.0.1#@public.com/
    http://10.0.0.1?@public.com http://10.0.0.1;@public.com/ ftp://10.0.0.1;x@public.com/
    http://public.com@x@10.0.0.1/ http://public.com%4010.0.0.1/ sftp:/10.0.0.1/ http://[::1]x/
    http://{x@10.0.0.1/,}public.com/ http://public.com{/,@10.0.0.1/} http://10.0.0.[1-9]/
    http://public.com:{80/,@10.0.0.1/} http://[10.0.0.1]/ http://a:1:2/ http://a,b/ file:///etc/x
    http://10.0.0.1\uff03@public.com/ http://10.0.0.1\uff03.public.com/ http:\\10.0.0.1\x
    http://10.0.0.1\x"""


@pytest.mark.parametrize("url", ODD_URLS.replace(r"\uff03", "\uff03").split())
def test_a_url_that_programs_read_differently_has_no_host(url: str) -> None:
    assert host_of(url) == ""
    assert classify(host_of(url)) == "reserved"


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_way_of_writing_an_address_is_the_same_kind(number: int) -> None:
    parts = number.to_bytes(4)
    forms = [
        ".".join(map(str, parts)),
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(map(hex, parts)),
        ".".join(f"0{part:o}" for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"[::ffff:{'.'.join(map(str, parts))}]",
        "。".join(map(str, parts)),
    ]
    assert len({classify(form) for form in forms}) == 1
    assert classify(forms[0]) != "name"


@settings(deadline=None)
@given(st.text())
def test_no_text_is_too_strange_to_classify(text: str) -> None:
    assert isinstance(classify(text), str)
    assert isinstance(host_of(text), str)
    assert address_of(text) is None or classify(text) != "name"


PIECES = r"""a.test b.test 169.254.169.254 localhost [::1] [::ffff:1.2.3.4] 0x7f.1 user x @ @ @ # ?
    / / \ : :80 ; , & = %40 %2f %23 %2e . - _ { } [ ] {a,b} {x@b.test/,} {80/,@b.test/} [1-2] ~ !
    http: https:// ' | ^ $ * ( +"""
WIDE_PIECES = ("\u3002", "\uff03", "\uff0f", "\ufb00")
STARTS = ("http://", "http://", "http:", "http:/", "http:///", "https://", "", "//")
RESTS = st.lists(st.sampled_from((*PIECES.split(), *WIDE_PIECES)), max_size=6)
URLS = st.builds(lambda start, rest: start + "".join(rest), st.sampled_from(STARTS), RESTS)


async def reached_by_curl(urls: list[str]) -> list[tuple[str, str]]:
    """Each URL with a host that curl asks its proxy for."""
    reached = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(EOFError, OSError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            number = re.search(r"(?im)^x-number: (\d+)", head)
            host = re.search(r"(?im)^host: (.*?)\r", head)
            assert number, head
            reached.append((urls[int(number[1])], host[1] if host else ""))
            writer.write(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        config = ""
        for number, url in enumerate(urls):
            quoted = re.sub(r'(["\\])', r"\\\1", url)
            config += f'url = "{quoted}"\nproxy = "http://127.0.0.1:{port}"\nnoproxy = ""\n'
            config += f'header = "X-Number: {number}"\nproxy-header = "X-Number: {number}"\nnext\n'
        curl = await asyncio.create_subprocess_exec(
            "curl", "-q", "-s", "-m", "60", "-K", "-", stdin=-1, stdout=-3, env={}
        )
        await curl.communicate(config.encode())
    return reached


def same_host(one: str, other: str) -> bool:
    there = plain(".".join(_decoded(label) for label in other.split(".")))
    return plain(one) == there or (address_of(one) or one) == address_of(there)


def _decoded(label: str) -> str:
    return label[4:].encode().decode("punycode") if label.startswith("xn--") else label


@settings(deadline=None, max_examples=12)
@given(st.lists(URLS, min_size=60, max_size=60))
def test_real_programs_connect_to_the_host_that_is_judged(urls: list[str]) -> None:
    reached = asyncio.run(reached_by_curl([url for url in urls if url]))
    for url in urls:
        with contextlib.suppress(httpx.InvalidURL, UnicodeError):
            reached.append((url, httpx.URL(url).host))
    assert [
        (url, host_of(url), host)
        for url, host in reached
        if host and host_of(url) and not same_host(host_of(url), host)
    ] == []


def test_the_programs_are_asked_at_all() -> None:
    urls = ["http://user@a.test:80/x", "http:/b.test", "https://c.test?x", "http://{d,e}.test/"]
    reached = asyncio.run(reached_by_curl(urls))
    assert [plain(host) for _, host in reached] == [
        "a.test",
        "b.test",
        "c.test",
        "d.test",
        "e.test",
    ]
