"""Violations as anomalies: named, with a sentence for each edge and one for the whole."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from isolde._core import (
    Assumption,
    Basis,
    BeforeInitial,
    Blocks,
    Columns,
    Cycle,
    LostUpdate,
    NoOrder,
    OrderConflict,
    Reason,
    Reversed,
    SearchConflict,
    ToldTwice,
    UnexplainedRead,
    Violation,
    WrongAnswer,
)
from isolde._core import Case as CoreCase
from isolde.engines.check.cycle_sentences import WHOLE, circle_told
from isolde.engines.check.evidence import NOTHING, Evidence
from isolde.engines.check.mentioned import Mentioned, mentioned, op_key, plain, reading, written_text
from isolde.engines.check.naming import Violated, adya_class, common_name, named, txn_name
from isolde.engines.check.rules import ANTI
from isolde.engines.check.story import story
from isolde.engines.check.unordered_text import unordered_sentence
from isolde.errors import IsoldeError
from isolde.findings import Anomaly, Case, Circle, Link, Supposition, circles_of
from isolde.findings.model import Kind, LinkBasis
from isolde.history import (
    Append,
    CompareAndSet,
    Read,
    TxnId,
    observed,
    render_value,
    token,
    written,
)
from isolde.levels import WIDEST, Level


class Explainer(Mentioned):
    """One violation and the transactions it is about."""

    def __init__(
        self,
        columns: Columns,
        level: Level,
        violation: Violation,
        violated: Violated,
        evidence: Evidence = NOTHING,
    ) -> None:
        super().__init__(columns, mentioned(violation))
        self.level = level
        self.violation = violation
        self.violated = violated
        self.evidence = evidence

    def anomaly(self) -> Anomaly:
        """The violation, explained."""
        match self.violation:
            case UnexplainedRead():
                return self.unexplained(self.violation)
            case Cycle() | LostUpdate():
                return self.cycle(self.violation)
            case NoOrder():
                return self.no_order(self.violation)
            case OrderConflict():
                return self.order_conflict(self.violation)
            case Blocks():
                return self.blocks(self.violation)
            case SearchConflict():
                return self.unordered(self.violation)
            case WrongAnswer():
                return self.wrong_answer(self.violation)
            case Reversed():
                return self.reversed(self.violation)
            case BeforeInitial(_, writer, write):
                text = (
                    f"The versions lines put {self.written(write)} of {self.name(writer)} before the initial value of the key,"
                    " which comes before every write: they contradict what they are about."
                )
                return self.build("contradictory-versions", (writer,), (), text)
            case ToldTwice(key, writer, write):
                of = f"the initial value of {render_value(json.loads(key))}" if write is None else self.written(write)
                text = f"The versions lines name {of} more often than it was written: they contradict each other, or themselves."
                return self.build("contradictory-versions", () if writer is None else (writer,), (), text)
            case _:
                assert_never(self.violation)

    def unexplained(self, found: UnexplainedRead) -> Anomaly:
        reader = self.name(found.read.txn)
        key, value = reading(self.op(found.read))
        what = f"{reader} read {key} = {value}"
        other = "the initial state" if found.other is None else self.name(found.other)
        match found.anomaly:
            case "thin-air-read" if isinstance(op := self.op(found.read), CompareAndSet) and observed(op) is None:
                text = (
                    f"The compare-and-set of {reader} that expects {render_value(op.key)} = {plain(op.expected)} failed, but"
                    " nobody who can have taken effect had replaced that value."
                )
            case "thin-air-read":
                op = self.op(found.read)
                absent = isinstance(op, Read | CompareAndSet) and op.key not in self.history.initial
                first = f"; {key} starts absent, since the header gives it no initial value" if absent else ""
                text = f"{what}, a value that no transaction wrote and that is not the initial one{first}."
            case "aborted-read":
                text = f"{what}, which only {other} wrote, and {other} was aborted."
            case "intermediate-read":
                text = f"{what}, which {other} wrote but overwrote before it committed."
            case "future-read":
                text = f"{what} before it wrote that value itself, and nobody else did."
            case "not-my-last-write":
                text = f"{what}, a value of its own that it had already overwritten."
            case "not-my-own-write" if isinstance(op := self.op(found.read), CompareAndSet) and observed(op) is None:
                text = (
                    f"{reader} had just written {render_value(op.key)} = {plain(op.expected)} itself, and yet its"
                    " compare-and-set that expects this value failed."
                )
            case "not-my-own-write":
                text = f"{what}, from {other}, although it had written {key} itself before."
            case "non-repeatable-read":
                before = reading(self.op(found.seen))[1] if found.seen else "another value"
                own = self.appended_between(found.seen, found.read)
                less = f"although it had appended only {own} itself" if own else f"without writing {key}"
                text = f"{reader} read {key} = {before} and then {key} = {value}, {less} in between."
            case "duplicate-element":
                text = f"{what}: it holds an element twice that {other} appended once."
            case "lost-element" if found.seen is not None and found.seen.txn == found.other and self.reads(found.seen):
                text = f"{what}, which lacks elements that came earlier: {other} read {self.content(found.seen)}."
            case "lost-element":
                text = f"{what}, without {self.written(found.seen)} that {other} had appended before."
            case "incompatible-order" if found.seen is not None and self.reads(found.seen):
                text = f"{what}, and {other} read {self.content(found.seen)}: no order of the appends gives both lists."
            case "incompatible-order":
                text = f"{what}, where the elements of {other} stand in another order than it appended them."
            case name:
                raise IsoldeError(f"the core reported an unknown anomaly {name!r}")
        positions = (found.read.txn,) if found.other in (None, found.read.txn) else (found.other, found.read.txn)
        return self.build(found.anomaly, positions, (), text)

    def wrong_answer(self, found: WrongAnswer) -> Anomaly:
        reader, op = self.name(found.op.txn), self.op(found.op)
        key = render_value(op_key(op))
        if found.writer is None:
            before = f"nobody had changed {key} before it"
        else:
            last = [w for w in self.transaction(found.writer).ops if getattr(w, "key", None) == op_key(op)]
            wrote = [" = ".join(written_text(w)) for w in last if written(w) is not None or isinstance(w, Append)]
            before = f"{self.name(found.writer)} came before it and was the last to leave {wrote[-1] if wrote else key}"
        text = (
            f"In the serial order that the database told, {before}, but {reader} saw {self.content(found.op)}. Another order may"
            " explain the history; this one does not."
        )
        positions = (found.op.txn,) if found.writer in (None, found.op.txn) else (found.writer, found.op.txn)
        return self.build("serialization-order-violation", positions, (), text)

    def reversed(self, found: Reversed) -> Anomaly:
        basis: Basis = "seen" if found.outside is None else "outside"
        if found.relation == "ww" and found.outside is None:
            basis = "installed"
        reason = Reason(found.relation, None, None, None, None, basis, found.outside)
        link = self.link(found.first, found.second, reason)
        text = (
            f"The serial order that the database told has {self.name(found.second)} before {self.name(found.first)}, which"
            f" cannot be: {link.sentence}"
        )
        return self.build("serialization-order-violation", (found.first, found.second), (link,), text)

    def named_cycle(self, found: Cycle | LostUpdate) -> tuple[str, tuple[Link, ...], list[Reason]]:
        """What a cycle is called, its edges with their sentences, and the reason that was chosen for each."""
        name, reasons = named(found, self.level, self.violated)
        if any(reason.relation == "ww" and reason.seen_op is not None for reason in reasons):
            name = self.name_of_inferred(reasons)
        if name == "lost-update" and {reason.relation for reason in reasons} == {"rw"}:
            return name, self.lost_either_way(found, reasons), reasons
        links = (
            replace(self.link(edge.source, edge.target, reason), assumed=edge.assumed)
            for edge, reason in zip(found.edges, reasons, strict=True)
        )
        return name, tuple(links), reasons

    def lost_either_way(self, found: Cycle | LostUpdate, reasons: Sequence[Reason]) -> tuple[Link, Link]:
        """A lost update for the order of the two writes that fits the clock, or the file; the other order has the same cycle."""
        sides = sorted(zip(found.edges, reasons, strict=True), key=lambda side: self.moment(side[0].target))
        (missed, missed_reason), (_, other_reason) = sides
        late, early = missed.source, missed.target
        wrote_first, wrote_last = missed_reason.to_op, other_reason.to_op
        text = (
            f"{self.name(late)} overwrote {self.written(wrote_first)} of {self.name(early)} with {self.written(wrote_last)},"
            f" if {self.name(early)} wrote first; if not, the same with the two exchanged."
        )
        overwrite = Reason("ww", missed_reason.key, wrote_first, wrote_last, None)
        second = replace(self.link(early, late, overwrite), sentence=text, assumed=True)
        return replace(self.link(late, early, missed_reason), assumed=missed.assumed), second

    def cycle(self, found: Cycle | LostUpdate) -> Anomaly:
        name, links, reasons = self.named_cycle(found)
        positions = tuple(edge.source for edge in found.edges)
        if links[0].source != self.transaction(positions[0]).id:
            positions = positions[::-1]
        also = {r.seen_op.txn for r in reasons if r.seen_op is not None} - set(positions)
        return self.build(name, positions, links, self.whole(name, found, reasons), sorted(also))

    def no_order(self, found: NoOrder) -> Anomaly:
        """Cases laid open: whichever holds, there is a cycle."""
        if found.proof is None:
            text = (
                f"No order of the writes explains the history. That follows from {found.choices:,} choices of which write came"
                " first, too many to go through them one by one here, so this was not checked a second time."
            )
            return replace(self.build(WIDEST[self.level], found.transactions, (), text), rechecked=False)
        if isinstance(found.proof, Cycle):
            return self.cycle(found.proof)
        cases = self.cases(found.proof)
        circles = list(circles_of(cases))
        name = common_name([circle.name for circle in circles], self.level, self.violated)
        on_cycles = {link.source for circle in circles for link in circle.cycle}
        positions = tuple(p for p in self.needed if self.transaction(p).id in on_cycles)
        count = "one choice" if found.choices == 1 else f"{found.choices} choices"
        text = f"No order of the writes explains the history. It hangs on {count} that nothing seen decides. "
        text += story(cases, self.timed)
        return replace(self.build(name, positions, (), text, self.needed), cases=cases)

    def cases(self, proof: Sequence[CoreCase]) -> tuple[Case, ...]:
        """The cases, the one that fits the clock first."""
        return tuple(
            self.case(case) for case in sorted(proof, key=lambda case: self.against_the_clock(case.assumption))
        )

    def case(self, case: CoreCase) -> Case:
        supposed = self.supposition(case.assumption)
        if isinstance(case.proof, Cycle):
            name, links, _ = self.named_cycle(case.proof)
            return Case(supposed, Circle(name, links))
        return Case(supposed, self.cases(case.proof))

    def against_the_clock(self, assumed: Assumption) -> tuple[bool, float]:
        """Low for what is likely: who ended first wrote first, and a reader saw the last one that had ended by then."""
        if assumed.kind == "meant":
            return (False, 0)
        first = self.moment(assumed.first.txn)
        second = -math.inf if assumed.second is None else self.moment(assumed.second.txn)
        return (first > second, 0) if assumed.kind == "before" else (second > first, -second)

    def supposition(self, assumed: Assumption) -> Supposition:
        first, second = assumed.first, assumed.second
        target: TxnId | None = None if second is None else self.transaction(second.txn).id
        of = "the initial one" if second is None else f"that of {self.name(second.txn)}"
        match assumed.kind:
            case "before":
                assert second is not None, "two writes are compared"
                key, left = op_key(self.op(first)), self.name(first.txn)
                text = f"{left} wrote {self.written(first)} before {self.name(second.txn)} wrote {self.written(second)}"
            case "source":
                key, left = op_key(self.op(first)), self.name(first.txn)
                seen = f"{render_value(key)}" if observed(self.op(first)) is None else self.content(first)
                text = f"the {seen} that {left} saw was {of}"
            case "meant":
                # Here the place is one in the versions lines.
                line = self.history.versions[first.txn]
                told = f"{render_value(line.key)} = {plain(line.values[first.index])}"
                text = f"the {told} at place {first.index + 1} of the versions line was {of}"
                return Supposition("meant", line.key, first.txn, first.index, target, text)
            case _:
                assert_never(assumed.kind)
        return Supposition(assumed.kind, key, self.transaction(first.txn).id, first.index, target, text)

    def name_of_inferred(self, reasons: Sequence[Reason]) -> str:
        """What a cycle is called that only readers show, by what the level lets a reader see."""
        shown = [(r.from_op, r.seen_op) for r in reasons if r.from_op is not None and r.seen_op is not None]
        sessions = [(self.transaction(a.txn).session, self.transaction(b.txn).session) for a, b in shown]
        match self.level:
            case Level.READ_COMMITTED:
                return "non-monotonic-read"
            case Level.READ_ATOMIC:
                return "session-guarantee-violation" if any(a == b for a, b in sessions) else "fractured-read"
            case _:
                return "causality-violation"

    def link(self, source: int, target: int, reason: Reason) -> Link:
        key = None if reason.key is None else json.loads(reason.key)
        start, end = self.name(source), self.name(target)
        match reason.relation:
            case kind if reason.basis == "outside":
                given = "" if reason.outside is None else self.reason_given(reason.outside)
                text = given or f"{start} comes before {end} ({kind}), as was told besides the history."
            case "ww" if reason.basis == "installed" and reason.from_op is None:
                text = f"The told order of versions puts {start} before {end}."
            case "predicate-wr" | "predicate-rw":
                raise IsoldeError("the core gave an edge of predicates that nobody told")
            case "so":
                text = f"{start} came before {end} in session {self.transaction(source).session}."
            case "rt":
                ended, began = self.transaction(source).end, self.transaction(target).start
                text = f"{start} was over (at {ended}) before {end} began (at {began})."
            case "wr" if self.appends(reason.from_op):
                text = f"{end} read {self.content(reason.to_op)}, which ends with what {start} appended."
            case "wr":
                text = f"{end} read {self.content(reason.to_op)}, which {start} wrote."
            case "ww" if reason.seen_op is not None:
                reader = self.name(reason.seen_op.txn)
                text = (
                    f"{reader} had seen {start}, which wrote {self.written(reason.from_op)}, and yet read"
                    f" {self.content(reason.seen_op)} of {end}, so that came later."
                )
            case "ww" if self.appends(reason.from_op) and self.appends_several(source, target, key):
                # Their elements may alternate: which pair of them a list shows in this order is not told.
                text = f"A list shows something that {start} appended to {render_value(key)} before something of {end}."
            case "ww" if self.appends(reason.from_op):
                text = f"{start} appended {self.written(reason.from_op)}, and {end} then {self.written(reason.to_op)}."
            case "ww" if source == target:
                text = f"The versions lines put {self.written(reason.from_op)} of {start} where nothing can follow it."
            case "ww":
                text = f"{end} overwrote {self.written(reason.from_op)} of {start} with {self.written(reason.to_op)}."
            case "rw" if self.appends(reason.to_op):
                text = f"{start} read {self.content(reason.from_op)}, and {end} then appended {self.written(reason.to_op)}."
            case "rw":
                text = f"{start} read {self.content(reason.from_op)}, which {end} replaced by {self.written(reason.to_op)}."
            case _:
                assert_never(reason.relation)
        through = self.transaction(reason.seen_op.txn).id if reason.relation == "ww" and reason.seen_op else None
        text += self.why_in_this_order(reason, end)
        ids = self.transaction(source).id, self.transaction(target).id
        # Whoever told the order of versions, a link says that it was told.
        basis: LinkBasis = "told" if reason.basis == "installed" else reason.basis
        return Link(*ids, reason.relation, key, text, through, basis=basis)

    def reason_given(self, place: int) -> str:
        """The sentence that came with an edge; edges that stand for told orders of lists have none."""
        return self.evidence.reasons[place] if place < len(self.evidence.reasons) else ""

    def appends_several(self, source: int, target: int, key: object) -> bool:
        """Whether one of the two appended to the key more than once."""
        return any(
            sum(isinstance(op, Append) and op.key == key for op in self.transaction(txn).ops) > 1
            for txn in (source, target)
        )

    def why_in_this_order(self, reason: Reason, later: str) -> str:
        """A sentence about an order of versions that no read shows by itself."""
        match reason.basis:
            case "told":
                return " (A versions line tells that order.)"
            case "installed" if reason.from_op is not None:
                return " (The told order of versions says so.)"
            case "inferred":
                key = render_value(json.loads(reason.key)) if reason.key is not None else "the key"
                return f" (Inferred: {later} did not read {key}, so it came after all that was made from the initial value.)"
            case _:
                return ""

    def whole(self, name: str, found: Cycle | LostUpdate, reasons: Sequence[Reason]) -> str:
        edges = found.edges
        first, second = self.name(edges[0].source), self.name(edges[0].target)
        anti = next((i for i, r in enumerate(reasons) if r.relation in ANTI), None)
        if any(reason.basis == "outside" for reason in reasons):
            return self.told_whole(name, found)
        if name in ("lost-update", "write-skew") and anti is not None:
            return self.two_writers(name, found, reasons, anti)
        if anti is not None and len(edges) == 2:
            # The anti-dependency leads from the reader that missed something to the writer it missed.
            reader, writer = self.name(edges[anti].source), self.name(edges[anti].target)
            missed = self.content(reasons[anti].from_op)
            match name:
                case "session-guarantee-violation":
                    return f"{reader} read {missed} although {writer}, earlier in its own session, had already replaced it."
                case "non-repeatable-read":
                    seen = self.content(reasons[1 - anti].to_op)
                    return f"{reader} read {seen} of {writer}, and {missed}, which that replaced."
                case "fractured-read":
                    return f"{reader} saw a part of {writer} but read {missed}, which {writer} replaced."
                case "non-monotonic-read":
                    return (
                        f"{reader} had seen {writer} and then went back: it read {missed}, which {writer} had replaced."
                    )
        if anti is None and name == "causality-violation":
            return "The readers saw effects without what those depend on: no order of the writes explains them all."
        last = edges[-1]
        reader = self.name(edges[anti].source) if anti is not None else first
        seen = self.name(edges[anti - 1].source) if anti is not None else second
        return WHOLE.get(name, WHOLE["g2-item"]).format(
            first=first,
            reader=reader,
            seen=seen,
            last=self.name(last.source),
            next=self.name(last.target),
            circle=self.circle(found),
        )

    def circle(self, found: Cycle | LostUpdate) -> str:
        return circle_told([self.name(edge.source) for edge in found.edges])

    def told_whole(self, name: str, found: Cycle | LostUpdate) -> str:
        """The sentence for a cycle with edges that were told: these say what happened in their own words."""
        whole = WHOLE.get(name, "")
        if whole and "{" not in whole:
            around = [self.name(edge.source) for edge in found.edges]
            return f"{whole} The circle is {' → '.join([*around, around[0]])}."
        return (whole if "{circle}" in whole else WHOLE["g2-item"]).format(circle=self.circle(found))

    def two_writers(self, name: str, found: Cycle | LostUpdate, reasons: Sequence[Reason], anti: int) -> str:
        a, b = self.name(found.edges[anti].source), self.name(found.edges[anti].target)
        read = self.content(reasons[anti].from_op)
        other = reasons[1 - anti]
        if name == "lost-update":
            if other.relation == "rw" and read == self.content(other.from_op):
                return f"{a} and {b} both read {read} and then overwrote it: whichever wrote first, its update is lost."
            if other.relation == "rw":
                return f"{a} and {b} both overwrote a value without having seen the other's: one update is lost."
            return f"{a} read {read}, {b} replaced it, and {a} then overwrote that unseen: the update of {b} is lost."
        return (
            f"{a} read {read} before {b} replaced it, and {b} read {self.content(other.from_op)} before {a} replaced it:"
            " each decided on what the other changed."
        )

    def order_conflict(self, found: OrderConflict) -> Anomaly:
        key = json.loads(found.key)
        earlier, later = self.name(found.earlier), self.name(found.later)
        links = (
            self.chain_link(found.earlier, found.later, key),
            self.link(found.later, found.earlier, Reason("rt", None, None, None, None)),
        )
        text = (
            f"On {render_value(key)}, {later} follows {earlier} by the values that were read, but {later} was already over"
            f" when {earlier} began."
        )
        return self.build("real-time-violation", (found.earlier, found.later), links, text, found.between)

    def chain_link(self, source: int, target: int, key: object) -> Link:
        first, second = self.transaction(source), self.transaction(target)
        wrote = {token(w[1]) for op in first.ops if (w := written(op)) is not None}
        read = {token(r[1]) for op in second.ops if (r := observed(op)) is not None}
        kind: Kind = "wr" if wrote & read else ("ww" if wrote else "rw")
        start, end = txn_name(first.id), txn_name(second.id)
        text = f"{end} comes after {start} in the chain of values of {key}."
        return Link(first.id, second.id, kind, key if isinstance(key, int | str) else None, text)

    def blocks(self, found: Blocks) -> Anomaly:
        key = json.loads(found.key)
        chain = [found.first_end, found.second_start, found.second_end, found.first_start]
        present = [position for position in chain if position is not None]
        links = []
        if found.first_end is not None:
            links.append(self.link(found.first_end, found.second_start, Reason("rt", None, None, None, None)))
        if found.second_start != found.second_end:
            links.append(self.chain_link(found.second_start, found.second_end, key))
        links.append(self.link(found.second_end, found.first_start, Reason("rt", None, None, None, None)))
        if found.first_end is not None and found.first_start != found.first_end:
            links.append(self.chain_link(found.first_start, found.first_end, key))
        early = "the initial value" if found.first_end is None else self.name(found.first_end)
        text = (
            f"On {render_value(key)}, what belongs to the value of {early} must come before {self.name(found.second_start)},"
            f" yet {self.name(found.first_start)}, which still saw it, began after {self.name(found.second_end)} was over."
        )
        return self.build("real-time-violation", tuple(dict.fromkeys(present)), tuple(links), text, found.between)

    def unordered(self, found: SearchConflict) -> Anomaly:
        required = [position for position in (*found.order, *found.stuck) if position not in found.maybe]
        text = unordered_sentence(
            json.loads(found.key),
            [self.transaction(position) for position in found.order],
            [self.transaction(position) for position in found.stuck],
            self.history.initial,
        )
        return self.build("no-linearization", tuple(required), (), text, found.maybe)

    def build(
        self, name: str, positions: tuple[int, ...], links: tuple[Link, ...], text: str, also: Iterable[int] = ()
    ) -> Anomaly:
        ids = tuple(self.transaction(position).id for position in positions)
        extra = tuple(position for position in also if position not in positions)
        closes = bool(links) and links[-1].target == links[0].source
        inferred = any(link.basis == "inferred" or link.through is not None for link in links)
        adya = adya_class([link.kind for link in links], inferred=inferred) if closes else ""
        if any(link.kind == "rt" for link in links):
            # Adya's classes know no clock.
            adya = ""
        if adya == "g0" and name != "g0":
            adya = "" if name == "contradictory-versions" else "g1c"
        return Anomaly(name, ids, links, text, positions, extra, adya=adya)
