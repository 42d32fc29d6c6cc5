"""`hermes mcp serve`: Hermes as an MCP server, for other agents, editors and chats.

Every effect passes the gate, as with any other client. It serves over standard input and output by
default; with --http over streamable HTTP at /mcp, to whoever has the token. The client's user
is asked for approval if the client supports that (elicitation); otherwise it is refused."""

import argparse
import os
import secrets

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.installation.extras import install_hint, needs

TOKEN_VARIABLE = "HERMES_MCP_TOKEN"  # noqa: S105 - a name
SHORTEST_TOKEN = 16
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http", default="", metavar="[HOST:]PORT",
        help="serve over HTTP instead of standard input; default host: 127.0.0.1",
    )  # fmt: skip
    parser.add_argument(
        "--token", default="",
        help=f"the token HTTP clients must send; better in {TOKEN_VARIABLE}; default: a new one, "
        "which is printed",
    )  # fmt: skip
    parser.add_argument(
        "--workspace", default="", help="working folder of new sessions; default: this one"
    )


def serve(options: argparse.Namespace) -> int:
    """Serve until the client leaves, or until stopped."""
    token = options.token or os.environ.get(TOKEN_VARIABLE, "")
    if options.http:
        host, port = address(options.http)
        check_token(token, host)
    elif options.token:
        raise UsageError("--token needs --http", "add --http PORT, or leave it out")
    workspace = os.path.abspath(options.workspace or os.getcwd())
    if options.workspace and not os.path.isdir(workspace):
        raise UsageError(f"no folder at {workspace!r}", "the workspace must exist")
    try:
        from hermes_agent.cli.mcp.serve.server import over_http, over_stdio
    except ModuleNotFoundError as error:
        raise HermesError(needs("MCP", [error.name or "mcp"]), install_hint("mcp")) from None
    if options.http:
        made = "" if token else secrets.token_urlsafe(24)
        over_http(workspace, host, port, token or made, show_token=bool(made))
    else:
        over_stdio(workspace)
    return 0


def address(text: str) -> tuple[str, int]:
    """`8000`, `localhost:8000`, `[::1]:8000`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"not a valid address: {text!r}", "write PORT or HOST:PORT, such as 8000")
    return host.strip("[]") or LOOPBACK[0], int(port)


def check_token(token: str, host: str) -> None:
    if not token and host not in LOOPBACK:
        raise UsageError(
            f"{host} can be reached from other machines, and no token is set",
            f"set one with {TOKEN_VARIABLE} or --token, and put TLS in front; "
            "or leave out the host",
        )
    if token and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise UsageError(
            f"the token must have at least {SHORTEST_TOKEN} plain characters",
            "for instance the output of: openssl rand -hex 24",
        )
