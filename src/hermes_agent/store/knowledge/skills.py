"""Skills: all versions, their states, and how they performed."""

import difflib
import zlib
from collections.abc import Mapping, Sequence

import msgspec

from hermes_agent.core.errors import NotFound
from hermes_agent.core.knowledge import (
    Author,
    EvaluationCase,
    SkillChange,
    SkillRecord,
    SkillUse,
    SkillVersion,
    Trial,
)
from hermes_agent.core.skills import SkillState
from hermes_agent.store.engine.connection import Connection

_SKILL = "select name, state, version, digest, created, changed, by, model, reason from skills "
_VERSION = "select skill, number, digest, time, by, model, why, good from skill_versions "


def skills(db: Connection) -> list[SkillRecord]:
    return [SkillRecord(*row) for row in db.rows(_SKILL + "order by name")]


def skill(db: Connection, name: str) -> SkillRecord:
    """`NotFound` with similar names."""
    found = db.rows(_SKILL + "where name = ?", (name,))
    if found:
        return SkillRecord(*found[0])
    near = difflib.get_close_matches(
        name, [known for (known,) in db.rows("select name from skills")]
    )
    hint = f"there is {', '.join(near)}" if near else "`hermes skills list` shows them"
    raise NotFound(f"no skill called {name!r}", hint)


def versions(db: Connection, name: str) -> list[SkillVersion]:
    found = db.rows(_VERSION + "where skill = ? order by number", (name,))
    return [SkillVersion(*[*row[:7], bool(row[7])]) for row in found]


def _version(db: Connection, name: str, number: int) -> SkillVersion:
    found = db.rows(_VERSION + "where skill = ? and number = ?", (name, number))
    if not found:
        raise NotFound(
            f"no version {number} of the skill {name!r}", f"`hermes skills log {name}` shows them"
        )
    return SkillVersion(*[*found[0][:7], bool(found[0][7])])


def files(db: Connection, name: str, version: int) -> dict[str, bytes]:
    _version(db, name, version)
    sql = "select files from skill_versions where skill = ? and number = ?"
    data = zlib.decompress(db.execute(sql, (name, version)).get)
    return msgspec.msgpack.decode(data, type=dict[str, bytes])


def _log(db: Connection, name: str, now: float, what: str, why: str, by: str) -> None:
    db.execute(
        "insert into skill_changes (skill, time, what, why, by) values (?, ?, ?, ?, ?)",
        (name, now, what, why, by),
    )


def save_version(
    db: Connection,
    name: str,
    files: Mapping[str, bytes],
    digest: str,
    by: Author,
    state: SkillState,
    *,
    model: str = "",
    why: str = "",
    good: bool = False,
    pending: bool = False,
) -> SkillVersion:
    """Make these files the current version. Nothing changes if they have its digest already. A
    `pending` version is stored beside the current one, whose state and version stay: a working
    skill is not replaced before the new version is proven."""
    new = SkillVersion(name, 0, digest, db.now(), by, model, why, good)
    return _save_pending(db, new, files) if pending else _save_current(db, new, files, state)


def _save_current(
    db: Connection, new: SkillVersion, contents: Mapping[str, bytes], state: SkillState
) -> SkillVersion:
    known = db.rows(_SKILL + "where name = ?", (new.skill,))
    before = SkillRecord(*known[0]) if known else None
    if before is not None and before.digest == new.digest:
        return _version(db, new.skill, before.version)
    number = _add_version(db, new, contents)
    db.execute(
        "insert into skills values (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8) on conflict (name) "
        "do update set state = ?2, version = ?3, digest = ?4, changed = ?5, by = ?6, model = ?7, "
        "reason = ?8",
        (new.skill, state, number, new.digest, new.time, new.by, new.model, new.why),
    )
    _log(db, new.skill, new.time, f"version {number}", new.why, new.by)
    if before is None or before.state != state:
        _log(db, new.skill, new.time, state, new.why, new.by)
    return _version(db, new.skill, number)


def _save_pending(db: Connection, new: SkillVersion, contents: Mapping[str, bytes]) -> SkillVersion:
    skill(db, new.skill)
    same = [one for one in versions(db, new.skill) if one.digest == new.digest]
    if same:
        return same[-1]
    number = _add_version(db, new, contents)
    _log(db, new.skill, new.time, f"version {number} (pending)", new.why, new.by)
    return _version(db, new.skill, number)


def _add_version(db: Connection, new: SkillVersion, contents: Mapping[str, bytes]) -> int:
    sql = "select 1 + coalesce(max(number), 0) from skill_versions where skill = ?"
    number: int = db.execute(sql, (new.skill,)).get
    packed = zlib.compress(msgspec.msgpack.encode(dict(contents)))
    db.execute(
        "insert into skill_versions values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            new.skill, number, new.digest, new.time, new.by, new.model, new.why, new.good, packed,
        ),
    )  # fmt: skip
    return number


def set_skill(
    db: Connection,
    name: str,
    state: SkillState,
    why: str,
    by: str,
    *,
    version: int = 0,
    good: bool | None = None,
) -> SkillRecord:
    """Set the state, and the version if one is given; `good` marks that version. The mark of one
    that is no longer good is no entry of the log: what follows from it is."""
    before, now = skill(db, name), db.now()
    chosen = _version(db, name, version or before.version)
    if good is not None:
        db.execute(
            "update skill_versions set good = ? where skill = ? and number = ?",
            (good, name, chosen.number),
        )
    db.execute(
        "update skills set state = ?, version = ?, digest = ?, changed = ?, by = ?, model = ?, "
        "reason = ? where name = ?",
        (state, chosen.number, chosen.digest, now, chosen.by, chosen.model, why, name),
    )
    if chosen.number != before.version:
        went = "reverted to " if chosen.number < before.version else ""
        _log(db, name, now, f"{went}version {chosen.number}", why, by)
    if state != before.state or (chosen.number == before.version and good is not False):
        _log(db, name, now, state, why, by)
    return skill(db, name)


def log_skill(db: Connection, name: str, what: str, why: str, by: str) -> None:
    """What happened to a skill without changing it."""
    _log(db, name, db.now(), what, why, by)


def skill_changes(db: Connection, name: str) -> list[SkillChange]:
    """Newest first."""
    sql = "select skill, time, what, why, by from skill_changes where skill = ? order by id desc"
    return [SkillChange(*row) for row in db.rows(sql, (name,))]


def add_uses(db: Connection, uses: Sequence[SkillUse]) -> None:
    """One row per skill and turn; a later outcome replaces an earlier one."""
    for use in uses:
        db.execute(
            "insert into skill_uses (skill, digest, session, turn, time, opened, outcome, steps, "
            "seconds, tokens, dollars, model, why) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "on conflict (skill, session, turn) do update set digest = excluded.digest, "
            "time = excluded.time, opened = excluded.opened, outcome = excluded.outcome, "
            "steps = excluded.steps, seconds = excluded.seconds, tokens = excluded.tokens, "
            "dollars = excluded.dollars, model = excluded.model, why = excluded.why",
            msgspec.structs.astuple(use),
        )


def uses(db: Connection, skill: str = "", limit: int = 1000) -> list[SkillUse]:
    """The newest first."""
    found = db.rows(
        "select skill, digest, session, turn, time, opened, outcome, steps, seconds, tokens, "
        "dollars, model, why from skill_uses where ?1 = '' or skill = ?1 "
        "order by time desc, id desc limit ?2",
        (skill, limit),
    )
    return [SkillUse(*[*row[:5], bool(row[5]), *row[6:]]) for row in found]


def add_cases(db: Connection, cases: Sequence[EvaluationCase]) -> None:
    for case in cases:
        db.execute(
            "insert or replace into cases values (?, ?, ?, ?, ?, ?, ?)",
            msgspec.structs.astuple(case),
        )


def remove_cases(db: Connection, ids: Sequence[str]) -> None:
    for id in ids:
        db.execute("delete from cases where id = ?", (id,))


def cases(db: Connection, skill: str) -> list[EvaluationCase]:
    found = db.rows(
        'select id, skill, task, setup, "check", held, source from cases where skill = ? '
        "order by rowid",
        (skill,),
    )
    return [EvaluationCase(*[*row[:5], bool(row[5]), row[6]]) for row in found]


def add_trials(db: Connection, trials: Sequence[Trial]) -> None:
    """A repeated trial replaces the earlier result."""
    for trial in trials:
        db.execute(
            'insert or replace into trials (skill, digest, "case", arm, round, time, ok, steps, '
            "seconds, tokens, dollars, model, session, opened) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            msgspec.structs.astuple(trial),
        )


def trials(db: Connection, skill: str = "", digest: str = "") -> list[Trial]:
    found = db.rows(
        'select skill, digest, "case", arm, round, time, ok, steps, seconds, tokens, dollars, '
        "model, session, opened from trials where (?1 = '' or skill = ?1) "
        "and (?2 = '' or digest = ?2) order by id",
        (skill, digest),
    )
    return [Trial(*[*row[:6], bool(row[6]), *row[7:13], bool(row[13])]) for row in found]
