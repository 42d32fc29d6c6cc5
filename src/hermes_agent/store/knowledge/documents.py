"""Documents for recall, their full-text index and their vectors."""

from collections.abc import Mapping, Sequence

from hermes_agent.core.knowledge import Doc, DocKind
from hermes_agent.store.engine.connection import Connection
from hermes_agent.store.search.text import any_of, for_index

TITLE_WEIGHT = 4.0


def save_documents(db: Connection, docs: Sequence[Doc]) -> None:
    """Add or replace documents, by kind and ref."""
    for doc in docs:
        found = db.rows(
            "select id, title, text from docs where kind = ? and ref = ?", (doc.kind, doc.ref)
        )
        if found and found[0][1:] == (doc.title, doc.text):
            db.execute("update docs set time = ? where id = ?", (doc.time, found[0][0]))
            continue
        if found:
            _drop(db, found[0][0])
        db.execute(
            "insert into docs (kind, ref, title, text, time) values (?, ?, ?, ?, ?)",
            (doc.kind, doc.ref, doc.title, doc.text, doc.time),
        )
        db.execute(
            "insert into doc_words (rowid, title, text) values (?, ?, ?)",
            (db.last_insert_rowid(), for_index(doc.title), for_index(doc.text)),
        )


def _drop(db: Connection, id: int) -> None:
    db.execute("delete from doc_words where rowid = ?", (id,))
    db.execute("delete from vectors where doc = ?", (id,))
    db.execute("delete from docs where id = ?", (id,))


def drop_docs(db: Connection, kind: DocKind, refs: Sequence[str]) -> None:
    for ref in refs:
        for (id,) in db.rows("select id from docs where kind = ? and ref = ?", (kind, ref)):
            _drop(db, id)


def docs(db: Connection, kind: DocKind) -> list[Doc]:
    found = db.rows(
        "select kind, ref, title, text, 0.0, time from docs where kind = ? order by id", (kind,)
    )
    return [Doc(*row) for row in found]


def get_docs(db: Connection, wanted: Sequence[tuple[DocKind, str]]) -> list[Doc]:
    """The existing documents among these, in this order."""
    sql = "select kind, ref, title, text, 0.0, time from docs where kind = ? and ref = ?"
    return [Doc(*row) for one in wanted for row in db.rows(sql, one)]


def find_docs(
    db: Connection, words: Sequence[str], kinds: Sequence[DocKind], limit: int = 20
) -> list[Doc]:
    """Documents with any of the words, best first (BM25, titles count more)."""
    expression = any_of(words)
    if not expression:
        return []
    found = db.rows(
        "select d.kind, d.ref, d.title, d.text, -bm25(doc_words, ?, 1.0) as score, d.time "
        "from doc_words w join docs d on d.id = w.rowid "
        f"where doc_words match ? and d.kind in ({_marks(kinds)}) "
        "order by score desc, d.id desc limit ?",
        (TITLE_WEIGHT, expression, *kinds, limit),
    )
    return [Doc(*row) for row in found]


def count_docs(
    db: Connection, groups: Sequence[Sequence[str]], kinds: Sequence[DocKind]
) -> list[int]:
    """For each group of words, how many documents have any of them; for an empty group, how many
    there are."""
    among = f"kind in ({_marks(kinds)})"
    fitting = (
        "select count(*) from doc_words w join docs d on d.id = w.rowid "
        f"where doc_words match ? and {among}"
    )
    counts: list[int] = []
    for words in groups:
        expression = any_of(words)
        if expression:
            counts.append(db.execute(fitting, (expression, *kinds)).get)
        elif words:
            counts.append(0)
        else:
            counts.append(db.execute(f"select count(*) from docs where {among}", kinds).get)
    return counts


def _marks(kinds: Sequence[DocKind]) -> str:
    return ", ".join("?" * len(kinds))


def save_vectors(db: Connection, model: str, vectors: Mapping[tuple[DocKind, str], bytes]) -> None:
    """A vector is deleted when its document changes. Vectors of documents that are gone are
    skipped."""
    for (kind, ref), data in vectors.items():
        db.execute(
            "insert or replace into vectors select ?, id, ? from docs where kind = ? and ref = ?",
            (model, data, kind, ref),
        )


def vectors(
    db: Connection, model: str, kinds: Sequence[DocKind]
) -> list[tuple[DocKind, str, bytes]]:
    found = db.rows(
        "select d.kind, d.ref, v.data from vectors v join docs d on d.id = v.doc "
        f"where v.model = ? and d.kind in ({_marks(kinds)}) order by d.id",
        (model, *kinds),
    )
    return [(kind, ref, data) for kind, ref, data in found]


def without_vector(db: Connection, model: str, limit: int) -> list[Doc]:
    found = db.rows(
        "select kind, ref, title, text, 0.0, time from docs d where not exists "
        "(select 1 from vectors where model = ? and doc = d.id) order by id limit ?",
        (model, limit),
    )
    return [Doc(*row) for row in found]
