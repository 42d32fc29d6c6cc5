"""Reads how to log in to a cluster: from a kubeconfig, with tokens, certificates and login
programs, or from the account of the pod that Hermes runs in."""

import asyncio
import base64
import binascii
import json
import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from msgspec import Struct

from hermes_agent.core.errors import ToolError
from hermes_agent.core.protocols import Clock
from hermes_agent.tools.sources.connection import Source, tls
from hermes_agent.tools.sources.times import parsed

LOGIN_SECONDS = 30.0
TOKEN_SECONDS = 60.0
"""How long a login without an end is used again."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TMPDIR|KUBE\w*|XDG_\w+|DBUS_\w+|SSL_CERT_\w+"
    r"|(AWS|GOOGLE|CLOUDSDK|GCLOUD|AZURE|AAD|OIDC|VAULT|TSH|TELEPORT|DIGITALOCEAN)_\w+"
    r"|(HTTPS?|NO|ALL)_PROXY",
    re.IGNORECASE,
)
"""The variables that a login program gets."""
_logins: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}
"""What login programs said, until it ends."""


class ClusterLogin(Struct, frozen=True):
    server: str
    namespace: str = "default"
    token: str = ""
    basic: tuple[str, str] | None = None
    context: ssl.SSLContext | None = None
    server_name: str = ""
    """Whom the server's certificate names, if that is not its address."""


async def login(source: Source, environ: Mapping[str, str] | None = None) -> ClusterLogin:
    """What the settings give comes first, then a kubeconfig, then the pod's own account."""
    environ = os.environ if environ is None else environ
    settings = source.settings
    if settings.url and (settings.token or settings.user or settings.headers):
        return ClusterLogin(settings.url)
    paths = kubeconfigs(settings.kubeconfig, environ)
    if paths:
        return await from_kubeconfig(source, paths, environ)
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    if settings.kubeconfig or not host or not (ACCOUNT / "token").exists():
        raise ToolError(
            f"no kubeconfig at {settings.kubeconfig or '~/.kube/config'} for {source.label}",
            f"`hermes config set sources.{source.name}.kubeconfig PATH`", "never",
        )  # fmt: skip
    return ClusterLogin(
        _own_server(environ),
        (ACCOUNT / "namespace").read_text().strip(),
        (ACCOUNT / "token").read_text().strip(),
        context=tls(str(ACCOUNT / "ca.crt")),
    )


def kubeconfigs(chosen: str, environ: Mapping[str, str]) -> list[Path]:
    """Those that exist: the chosen one, or KUBECONFIG's, or the usual one."""
    home = environ.get("HOME", "")
    chosen = chosen or environ.get("KUBECONFIG", "") or f"{home}/.kube/config"
    paths = [f"{home}{one[1:]}" if one.startswith("~/") else one for one in chosen.split(":")]
    return [Path(one) for one in paths if one and Path(one).is_file()]


def merged(paths: list[Path]) -> dict[str, Any]:
    """Several kubeconfigs as one: the first that names something wins. Files that they name are
    relative to the kubeconfig."""
    whole: dict[str, Any] = {"clusters": {}, "users": {}, "contexts": {}, "current-context": ""}
    for path in paths:
        try:
            read = yaml.safe_load(path.read_text()) or {}
            for part in ("clusters", "users", "contexts"):
                for one in read.get(part) or []:
                    value = {**(one.get(part[:-1]) or {}), "folder": path.parent}
                    whole[part].setdefault(one["name"], value)
            whole["current-context"] = whole["current-context"] or read.get("current-context", "")
        except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
            raise ToolError(
                f"cannot read the kubeconfig {path}: {str(error) or type(error).__name__}",
                "`kubectl config view` shows whether kubectl can", "never",
            ) from None  # fmt: skip
    return whole


def server(kubeconfig: str, context: str, environ: Mapping[str, str]) -> str:
    """The address of the cluster that a kubeconfig names, or of the one that Hermes runs in."""
    if paths := kubeconfigs(kubeconfig, environ):
        _, cluster, _ = _chosen(paths, context, "--context NAME")
        return str(cluster.get("server", ""))
    if kubeconfig or not environ.get("KUBERNETES_SERVICE_HOST"):
        what = f"no kubeconfig at {kubeconfig or '~/.kube/config'}"
        raise ToolError(what, "--kubeconfig PATH, or the cluster's address", "never")
    return _own_server(environ)


def _own_server(environ: Mapping[str, str]) -> str:
    host = environ["KUBERNETES_SERVICE_HOST"]
    name = f"[{host}]" if ":" in host else host
    return f"https://{name}:{environ.get('KUBERNETES_SERVICE_PORT', '443')}"


Part = Mapping[str, Any]


def _chosen(paths: list[Path], name: str, hint: str) -> tuple[Part, Part, Part]:
    """The context of that name, or the current one, with its cluster and its user."""
    config = merged(paths)
    name = name or config["current-context"]
    context = config["contexts"].get(name)
    if context is None:
        known = ", ".join(config["contexts"]) or "none"
        raise ToolError(
            f"{paths[0]} has no context {name!r}", f"{hint}; there are: {known}", "never"
        )
    cluster = config["clusters"].get(context.get("cluster"), {})
    return context, cluster, config["users"].get(context.get("user"), {})


async def from_kubeconfig(
    source: Source, paths: list[Path], environ: Mapping[str, str]
) -> ClusterLogin:
    name = source.settings.context
    hint = f"`hermes config set sources.{source.name}.context NAME`"
    context, cluster, user = _chosen(paths, name, hint)
    if cluster.get("proxy-url"):
        raise ToolError(
            f"the context {name!r} needs a proxy, which is not supported", retry="never"
        )
    if user.get("auth-provider"):
        hint = "the cluster's vendor has a login program (`exec`) that replaces it"
        raise ToolError(f"the user of {name!r} logs in by an `auth-provider`", hint, "never")
    if user.get("exec"):
        user = {**user, **await _exec(source.clock, user, cluster, environ)}
    token = user.get("token", "")
    if not token and user.get("tokenFile"):
        token = (user["folder"] / user["tokenFile"]).read_text().strip()
    basic = (user["username"], user.get("password", "")) if user.get("username") else None
    return ClusterLogin(
        source.settings.url or cluster.get("server", ""),
        context.get("namespace") or "default",
        token,
        basic,
        _tls(cluster, user, source.settings.ca_file),
        cluster.get("tls-server-name", ""),
    )


def _tls(
    cluster: Mapping[str, Any], user: Mapping[str, Any], ca_file: str
) -> ssl.SSLContext | None:
    if not cluster.get("server", "").startswith("https:"):
        return None
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        if authority := _bytes(cluster, "certificate-authority"):
            context = ssl.create_default_context(cadata=authority.decode())
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate, key = _bytes(user, "client-certificate"), _bytes(user, "client-key")
        if certificate and key:
            # Python loads a chain only from files; the folder is this user's alone.
            with TemporaryDirectory(prefix="hermes-") as folder:
                files = Path(folder, "certificate"), Path(folder, "key")
                for path, content in zip(files, (certificate, key), strict=True):
                    path.touch(0o600)
                    path.write_bytes(content)
                context.load_cert_chain(*files, password=_refused)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise ToolError(
            f"a certificate of the kubeconfig cannot be used: {error}",
            "`kubectl version` shows whether kubectl can", "never",
        ) from None  # fmt: skip
    return context


def _refused() -> str:
    """Without it, OpenSSL asks for a password on the terminal."""
    raise ValueError("the client-key is encrypted, and no password for it can be given")


def _bytes(part: Mapping[str, Any], name: str) -> bytes:
    """From `NAME-data` in the kubeconfig, or the file that `NAME` is."""
    if data := part.get(f"{name}-data"):
        try:
            return base64.b64decode(data)
        except binascii.Error:
            raise ValueError(f"{name}-data is not base64") from None
    path = part.get(name)
    return (part["folder"] / path).read_bytes() if path else b""


async def _exec(
    clock: Clock, user: Mapping[str, Any], cluster: Mapping[str, Any], environ: Mapping[str, str]
) -> dict[str, str]:
    """Run the login program that the user's kubeconfig names."""
    wanted = user["exec"]
    argv = [wanted["command"], *(wanted.get("args") or [])]
    if "/" in argv[0] and not argv[0].startswith("/"):
        argv[0] = str(user["folder"] / argv[0])
    own = {one["name"]: one["value"] for one in wanted.get("env") or []}
    key = (json.dumps([argv, own]), cluster.get("server", ""))
    if key in _logins and clock() < _logins[key][0]:
        return _logins[key][1]
    info: dict[str, Any] = {
        "apiVersion": wanted.get("apiVersion", "client.authentication.k8s.io/v1"),
        "kind": "ExecCredential", "spec": {"interactive": False},
    }  # fmt: skip
    if wanted.get("provideClusterInfo"):
        info["spec"]["cluster"] = {"server": cluster.get("server", "")}
    environment = {
        **{name: value for name, value in environ.items() if _PASSED_ON.fullmatch(name)},
        **own, "KUBERNETES_EXEC_INFO": json.dumps(info),
    }  # fmt: skip
    reply = await _output(argv, environment, wanted.get("installHint", ""))
    try:
        status = json.loads(reply)["status"]
        names = {"token": "token", "clientCertificateData": "client-certificate",
                 "clientKeyData": "client-key"}  # fmt: skip
        found = {names[name]: value for name, value in status.items() if name in names}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ToolError(
            f"the login program {argv[0]!r} said nothing usable", retry="never"
        ) from None
    for name in ("client-certificate", "client-key"):
        if name in found:
            found[f"{name}-data"] = base64.b64encode(found.pop(name).encode()).decode()
    ends = parsed(status.get("expirationTimestamp")) - TOKEN_SECONDS
    _logins[key] = ends if ends > 0 else clock() + TOKEN_SECONDS, found
    return found


async def _output(argv: list[str], environment: Mapping[str, str], install: str) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        hint = " ".join(install.split()) or "install it, or log in another way"
        raise ToolError(
            f"cannot run the kubeconfig's login program {argv[0]!r}: {error.strerror}",
            hint,
            "never",
        ) from None
    try:
        async with asyncio.timeout(LOGIN_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        raise ToolError(
            f"the login program {argv[0]!r} took longer than {LOGIN_SECONDS:.0f} s",
            "log in once yourself: `kubectl version`", "never",
        ) from None  # fmt: skip
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = errors.decode(errors="replace").strip()[-300:]
        raise ToolError(
            f"the login program {argv[0]!r} failed: {said}",
            "log in once yourself: `kubectl version`", "never",
        )  # fmt: skip
    return output
