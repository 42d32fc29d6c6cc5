"""What was tried in an incident and what came of it, and the calls of which the course is made."""

import re
from collections.abc import Generator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from hermes_agent.core.messages import ToolMessage
from hermes_agent.models.responder.moves import Answer, Call, Move
from hermes_agent.models.responder.rules.ideas import Idea
from hermes_agent.models.responder.view.seen import Seen, quotes, seen

CASCADE = "cascading-failure"
Steps = Generator[Move, Answer, list[Seen]]


class Tried(Struct):
    """Remedies, and what of them was really carried out."""

    ideas: list[Idea] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    """Copies that should have been kept before a change, and could not be."""
    useful: list[Idea] = field(default_factory=list)
    """Those that eased something, though not all was well afterwards."""
    kept: list[Idea] = field(default_factory=list)
    """Those of them by which something runs again."""
    helped: list[Idea] = field(default_factory=list)
    """Those after which the checks held, and failed again without anything else to be seen."""
    seen: Sequence[Seen] = ()
    """What was seen before the last."""
    earlier: list[tuple[Idea, Sequence[Seen]]] = field(default_factory=list)
    """All of them, with what was seen before each."""
    judged: int = 0
    """How many were looked back at."""
    since: int = 0
    """How many there were when something was eased last: those before it may help now."""

    begun: int = 0
    """How long the machine had been up when the work began."""
    doubted: bool = False
    """Whether the last one did not last, though the checks may hold."""
    fickle: bool = False
    """Whether the checks held and failed by turns, while nothing was done."""
    lapsed: int = 0
    """How many there were when one was seen not to last."""
    proofs: list[str] = field(default_factory=list)
    """Looks that must come out well whatever mends it in the end."""
    doubts: list[str] = field(default_factory=list)
    """What was seen to go on although the checks held."""
    raised: list[tuple[Idea, Sequence[Seen]]] = field(default_factory=list)
    """Remedies after which it was seen to go on, with what was seen before each: what comes later
    must do away with that, too."""
    holding: bool = False
    """Whether the checks hold now, so that it proves nothing if they do after a trial."""
    status: list[Seen] = field(default_factory=list)
    """Who was up when it was looked at last whether the last one lasts."""
    complaint: str = ""
    """What somebody goes on to say although the checks hold."""

    def carried(self, idea: Idea) -> bool:
        """Whether anything of a remedy was carried out."""
        return any(command in self.done for command in idea.fix)

    @property
    def mended(self) -> list[str]:
        """Components of those of which anything was."""
        return [idea.component for idea in self.ideas if self.carried(idea)]

    def barred(self, idea: Idea) -> bool:
        """Whether it was tried since something changed, or the same under another name."""
        recent = self.ideas[max(0, self.since - 1) :]
        same = [x for x in self.ideas if x.fix and (x.fix == idea.fix or _shape(x) == _shape(idea))]
        return (
            any(one.key == idea.key or (one.fix and one.fix == idea.fix) for one in recent)
            or len(same) > 1
            or (self.holding and bool(idea.finish))
        )

    def looked(self, well: bool) -> None:
        """Keep whether the checks hold now: where they do not, a complaint is but one of many."""
        self.holding = well and not self.fickle
        if not self.holding:
            self.complaint = ""

    def refuted(self, idea: Idea) -> bool:
        """Whether it was acted on, and that eased nothing."""
        return any(one.key == idea.key for one in self.ideas) and idea not in self.useful

    @property
    def begun_again(self) -> list[Idea]:
        """Those after which the checks held, and that were seen to go on: what it is was right."""
        found = [one for one, _ in self.raised]
        found += [one for one in self.ideas if one.proof and one.proof in self.proofs]
        return [one for one in found if one.category != "unknown"] if self.doubted else []

    @property
    def cause(self) -> Idea:
        """What was at the root of it: of what eased something, and of what came last. Where that
        was done without an idea what it is, something that helped for a moment tells more."""
        last = self.ideas[-1]
        before = self.helped if last.category == "unknown" else []
        return cause_of([*self.useful, *before, last])

    @property
    def feared(self) -> list[tuple[Idea, Sequence[Seen]]]:
        """What may go on, though the checks hold, with what was seen before it was acted on: the
        last one, and what was at the root, where that eased something and others came after it.
        Where the cause is not known, it is what a restart only puts off."""
        last = self.ideas[-1]
        root = root_of([*self.useful, last])
        found = [(one, known) for one, known in self.earlier if one == root and one != last]
        kinds = ("descriptor-leak", "memory-leak") if last.category == "unknown" else ()
        own = [last, *(replace(last, category=one) for one in (*kinds, last.root) if one)]
        return [*((one, self.seen) for one in own), *found[-1:]]

    @property
    def told(self) -> str:
        return "; ".join(self.done)


def terminal(command: str) -> Call:
    return Call("terminal", {"command": command})


def incident(action: str, **given: object) -> Call:
    return Call("incident", {"action": action, **given})


def hypothesis(idea: Idea, confidence: float, **state: str) -> Call:
    """What is believed, for the board; `state`, where it is settled."""
    return incident(
        "hypothesis", claim=idea.claim, component=idea.component, category=idea.category,
        confidence=confidence, evidence=list(quotes(idea.evidence)), **state,
    )  # fmt: skip


def run(text: str, commands: Sequence[str], more: Sequence[Call] = ()) -> Steps:
    """Run commands, and whatever else goes with them; what they came to."""
    answer = yield Move(text, (*(terminal(command) for command in commands), *more))
    return [
        seen(command, result) for command, result in zip(commands, answer.results, strict=False)
    ]


def holds(answer: Answer) -> bool:
    """Whether the last call was a verification that found all well."""
    return bool(answer.results) and held(answer.results[-1])


def held(result: ToolMessage) -> bool:
    """Whether a verification found all well."""
    return result.ok and "FAILS" not in result.text and ": holds" in result.text


def root_of(tried: Sequence[Idea]) -> Idea:
    return max(tried, key=lambda idea: (idea.category != CASCADE, idea.score))


def cause_of(tried: Sequence[Idea]) -> Idea:
    """Of all that was mended, what was at the root: what was surest. Where others had given up on
    it, it took them with it."""
    root = root_of(tried)
    after = tried[list(tried).index(root) + 1 :]
    others = [idea for idea in after if idea.category == CASCADE]
    if not others:
        return root
    return replace(
        root,
        category=CASCADE,
        root=root.category,
        claim=f"{root.claim}, and then {others[0].claim}",
        evidence=(*root.evidence[:2], *others[0].evidence[:1]),
        prevent=(*root.prevent, "let those that give up try again by themselves"),
    )


def _shape(idea: Idea) -> tuple[str, str, str]:
    """A remedy without its numbers: who begins again has another one."""
    said = " ".join((idea.claim, *idea.fix))
    return idea.category, idea.component, re.sub(r"\d+", "#", said)
