"""Files of messages that came or go: each is stored once, however many messages carry it."""

from collections.abc import Mapping, Sequence

import apsw
import msgspec
from msgspec.structs import replace

from hermes_agent.core.messages import Media
from hermes_agent.store.blobs import BlobStore
from hermes_agent.store.engine.database import rows

_media = msgspec.json.Decoder(Media)


def put(
    db: apsw.Connection, bodies: BlobStore, owner: int, given: Mapping[str, Sequence[Media]]
) -> None:
    flat = [(kind, media) for kind, several in given.items() for media in several]
    for place, (kind, media) in enumerate(flat):
        head = msgspec.json.encode(replace(media, data=b"")).decode()
        body = bodies.pack(db, owner, msgspec.json.encode(media))
        db.execute(
            "insert into gateway_media values (?, ?, ?, ?, ?)", (owner, place, kind, head, body)
        )


def get(
    db: apsw.Connection, bodies: BlobStore, owner: int, whole: bool
) -> Mapping[str, Sequence[Media]]:
    """By kind; where they are not wanted whole, without their content."""
    found: dict[str, list[Media]] = {}
    column = "body" if whole else "head"
    ask = f"select kind, {column} from gateway_media where owner = ? order by place"
    for kind, body in rows(db, ask, (owner,)):
        text = bodies.unpack(body) if whole else body
        found.setdefault(kind, []).append(_media.decode(text))
    return found


def drop(db: apsw.Connection, bodies: BlobStore, owner: int) -> None:
    db.execute("delete from gateway_media where owner = ?", (owner,))
    bodies.release(db, owner)
