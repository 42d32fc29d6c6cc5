"""Checks settings that name something else: a policy profile, a time zone, a target."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hermes_agent.core.errors import HermesError, UsageError
from hermes_agent.core.settings.root import Settings


class DanglingReference(NamedTuple):
    name: str
    error: HermesError


def dangling_references(home: Path, settings: Settings) -> Iterator[DanglingReference]:
    """Yield each setting that names something that does not exist."""
    from hermes_agent.host.outbound import places
    from hermes_agent.host.policy_gates import GateFactory
    from hermes_agent.jobs.schedules.slots import zone_of

    gates = GateFactory(home, Path.home())
    profiles = {
        "watch.policy": settings.watch.policy,
        "gateway.api_policy": settings.gateway.api_policy,
        **{f"channels.{name}.policy": given.get("policy", "")
           for name, given in settings.channels.items()},
    }  # fmt: skip
    targets = {
        "jobs.alert": settings.jobs.alert,
        "watch.notify": settings.watch.notify,
        "gateway.announce": settings.gateway.announce,
    }
    try:
        if settings.jobs.zone:
            zone_of(settings.jobs.zone)
    except HermesError as error:
        yield DanglingReference("jobs.zone", error)
    spoken = {"voice": settings.gateway.voice, "speak": settings.gateway.speak}
    for name, voice in spoken.items():
        service, _, model = voice.partition("/")
        if not voice or voice == "local/tiny" or (name == "speak" and service == "local" and model):
            continue
        from hermes_agent.models.catalogue.services import known_services

        if service == "local" or not model or service not in known_services(settings.models):
            own = {"voice": "local/tiny", "speak": "local/VOICE of espeak-ng"}[name]
            hint = f"{own}, or SERVICE/MODEL: `hermes model` lists services"
            yield DanglingReference(f"gateway.{name}", UsageError(f"unknown name: {voice!r}", hint))
    for name, profile in profiles.items():
        try:
            if profile:
                gates.expect(_text(profile))
        except HermesError as error:
            yield DanglingReference(name, error)
    for name, asked in targets.items():
        try:
            places(settings.channels, asked)
        except HermesError as error:
            yield DanglingReference(name, error)


def _text(profile: object) -> str:
    if not isinstance(profile, str):
        raise UsageError(f"not a policy name: {profile!r}", "`hermes policy` lists the profiles")
    return profile
