"""Formats values for people."""

from datetime import UTC, datetime


def utc_stamp(time: float | None) -> str:
    if time is None:
        return "-"
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"
