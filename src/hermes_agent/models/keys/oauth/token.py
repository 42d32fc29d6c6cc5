"""What a login gives."""

from msgspec import Struct


class Token(Struct, frozen=True):
    """What a login gave. Never shown."""

    access: str
    refresh: str = ""
    expires: float = 0.0
    """When, in seconds since the epoch; 0 when the service does not say."""
    account: str = ""
    """Whose it is, where requests must say so."""

    def __repr__(self) -> str:
        return f"Token(expires={self.expires:.0f})"

    __str__ = __repr__
