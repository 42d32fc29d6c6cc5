"""AWS credentials from where AWS's own tools look: the environment and the shared files."""

import configparser
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes_agent.core.errors import ModelError
from hermes_agent.core.protocols import Clock
from hermes_agent.models.keys.command import EARLY_SECONDS, LIMIT_SECONDS, moment, run_program
from hermes_agent.models.keys.validation import Learn, checked
from hermes_agent.models.wires.base import Credential

_UNSPOKEN = ("role_arn", "sso_session", "sso_start_url", "login_session", "web_identity_token_file")
"""Profile fields whose credentials must be requested from AWS."""

Profile = dict[str, str]


def aws_region(environ: Mapping[str, str]) -> str:
    """The region that the environment or the profile names, or ""."""
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if named := environ.get(variable, "").strip():
            return named
    return _Files(environ).merged.get("region", "")


def aws_source(environ: Mapping[str, str], learn: Learn, clock: Clock) -> "AwsSource | None":
    """The source of AWS credentials, or None if there is none. Bedrock's bearer tokens are plain
    keys and not handled here."""
    source = AwsSource(environ, learn, clock)
    return source if source.present() else None


class AwsSource:
    """In AWS's order: the variables, the credentials file, `credential_process`, the config
    file. Roles, single sign-on and the metadata service are left to AWS's own program, which
    `credential_process` can run."""

    def __init__(self, environ: Mapping[str, str], learn: Learn, clock: Clock) -> None:
        self._environ, self._learn, self._clock = environ, learn, clock
        self._kept: Credential | None = None
        self._expires: float | None = None
        if environ.get("AWS_ACCESS_KEY_ID"):
            self.label, self.where = "AWS_ACCESS_KEY_ID", "the environment"
        else:
            profile = environ.get("AWS_PROFILE") or "default"
            self.label, self.where = f"the AWS profile {profile!r}", "AWS's shared files"

    async def credential(self) -> Credential:
        late = self._expires is not None and self._clock() > self._expires - EARLY_SECONDS
        if self._kept is None or late:
            self._kept = await self._find()
        return self._kept

    def refused(self) -> None:
        self._kept = None

    def present(self) -> bool:
        if self._environ.get("AWS_ACCESS_KEY_ID") or self._environ.get("AWS_PROFILE"):
            return True
        names = ("aws_access_key_id", "credential_process", *_UNSPOKEN)
        try:
            return any(name in _Files(self._environ).merged for name in names)
        except ModelError:
            return True  # the file is broken; reading it reports how

    async def _find(self) -> Credential:
        self._expires = None
        if self._environ.get("AWS_ACCESS_KEY_ID"):
            variables = self._environ
            return self._made(
                variables["AWS_ACCESS_KEY_ID"],
                variables.get("AWS_SECRET_ACCESS_KEY", ""),
                variables.get("AWS_SECURITY_TOKEN") or variables.get("AWS_SESSION_TOKEN", ""),
            )
        files = _Files(self._environ)
        if any(name in files.merged for name in _UNSPOKEN):
            raise ModelError(
                "auth",
                f"{self.label} uses a role or single sign-on",
                "let the AWS CLI do it: add a profile with `credential_process = aws "
                f"configure export-credentials --profile {files.profile}`, named in AWS_PROFILE",
            )
        if "aws_access_key_id" in files.credentials:
            return self._of(files.credentials)
        if command := files.merged.get("credential_process"):
            return await self._process(command)
        return self._of(files.config)

    def _of(self, profile: Profile) -> Credential:
        token = profile.get("aws_security_token") or profile.get("aws_session_token", "")
        return self._made(
            profile.get("aws_access_key_id", ""), profile.get("aws_secret_access_key", ""), token
        )

    def _made(self, id: str, secret: str, session: str) -> Credential:
        for learned in (secret, session):
            if learned:
                self._learn(self.label, learned)
        if not (id and secret):
            missing = "secret access key" if id else "access key id"
            raise ModelError("auth", f"{self.label} has no {missing}", "AWS needs both")
        return Credential(
            checked(secret, self.label),
            id=checked(id, self.label),
            session=checked(session, self.label) if session else "",
            label=self.label,
        )

    async def _process(self, command: str) -> Credential:
        label = f"the credential_process of {self.label}"
        try:
            argv = shlex.split(command)
        except ValueError:
            argv = []
        if not argv:
            raise ModelError("auth", f"{label} is not a valid command", "check its quotes")
        output = await run_program(argv, self._environ, None, LIMIT_SECONDS, label)
        try:
            printed: Any = msgspec.json.decode(output)
        except msgspec.MsgspecError:
            printed = None
        if not isinstance(printed, dict) or printed.get("Version") != 1:
            raise ModelError(
                "auth", f"{label} printed no credentials", "AWS expects JSON of version 1"
            )
        made = self._made(
            str(printed.get("AccessKeyId") or ""),
            str(printed.get("SecretAccessKey") or ""),
            str(printed.get("SessionToken") or ""),
        )
        self._expires = moment(printed.get("Expiration"), label)
        return made


class _Files:
    """The chosen profile in AWS's two shared files."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.profile = environ.get("AWS_PROFILE") or "default"
        self.credentials = self._sections("AWS_SHARED_CREDENTIALS_FILE", "credentials").get(
            self.profile, {}
        )
        sections = self._sections("AWS_CONFIG_FILE", "config")
        self.config = next(
            (values for name, values in sections.items() if self._is_ours(name)), Profile()
        )

    @property
    def merged(self) -> Profile:
        return self.config | self.credentials

    def _is_ours(self, section: str) -> bool:
        if section == "default":
            return self.profile == "default"
        try:
            words = shlex.split(section)
        except ValueError:
            return False
        return words == ["profile", self.profile]

    def _sections(self, variable: str, name: str) -> dict[str, Profile]:
        home = self._environ.get("HOME") or str(Path.home())
        written = self._environ.get(variable) or f"{home}/.aws/{name}"
        path = Path(home, written[2:]) if written.startswith("~/") else Path(written)
        parser = configparser.RawConfigParser()
        try:
            with path.open(encoding="utf-8") as file:
                parser.read_file(file)
        except (FileNotFoundError, IsADirectoryError):
            return {}
        except (configparser.Error, UnicodeDecodeError):
            # The parser's message quotes the line.
            raise ModelError("auth", f"{str(path)!r} is not a valid AWS file") from None
        except OSError as error:
            raise ModelError("auth", f"cannot read {str(path)!r}: {error.strerror}") from None
        return {section: dict(parser.items(section)) for section in parser.sections()}
