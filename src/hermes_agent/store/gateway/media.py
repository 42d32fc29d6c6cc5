"""Attachments, each stored once however many messages carry it."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from hermes_agent.core.messages import Media
from hermes_agent.store.engine.connection import Connection

_media = msgspec.json.Decoder(Media)


def put(db: Connection, owner: int, given: Mapping[str, Sequence[Media]]) -> None:
    flat = [(kind, media) for kind, several in given.items() for media in several]
    for place, (kind, media) in enumerate(flat):
        head = msgspec.json.encode(replace(media, data=b"")).decode()
        body = db.blobs.pack(db, owner, msgspec.json.encode(media))
        db.execute(
            "insert into gateway_media values (?, ?, ?, ?, ?)", (owner, place, kind, head, body)
        )


def get(db: Connection, owner: int, whole: bool) -> Mapping[str, Sequence[Media]]:
    """By kind; without content unless `whole`."""
    found: dict[str, list[Media]] = {}
    column = "body" if whole else "head"
    sql = f"select kind, {column} from gateway_media where owner = ? order by place"
    for kind, body in db.rows(sql, (owner,)):
        text = db.blobs.unpack(body) if whole else body
        found.setdefault(kind, []).append(_media.decode(text))
    return found


def drop(db: Connection, owner: int) -> None:
    db.execute("delete from gateway_media where owner = ?", (owner,))
    db.blobs.release(db, owner)
