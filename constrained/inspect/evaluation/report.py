"""What an evaluation found: the table, syntax against wits, differences, calibration."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from constrained.inspect.evaluation.asking import AskedWay, WayName
from constrained.inspect.evaluation.judging import Judgement
from constrained.inspect.evaluation.rows import QuestionKind

MEASURES = ("valid", "exact", "no_call")
"""What is compared between models."""
OWN_CALLS = (WayName.MASKED, WayName.SERVED)
"""Ways of which a server's is compared with a file's: what a client gets."""
RESAMPLES = 10_000
COVERAGE = 95  # per cent
BUCKETS = 5


@dataclass(frozen=True)
class MeanInterval:
    """The mean of differences, and the interval in which it lies with 95 % confidence."""

    mean: float
    low: float
    high: float

    @property
    def has_difference(self) -> bool:
        """Whether the interval leaves out 0."""
        return not self.low <= 0 <= self.high


def bootstrap(differences: Sequence[float], seed: int = 0) -> MeanInterval:
    """Returns the mean of paired differences, of which there is at least one, and its interval: the
    percentiles of the means of samples that are drawn from them, with replacement."""
    count = len(differences)
    values, counts = np.unique(np.asarray(differences, dtype=float), return_counts=True)
    # A sample is known by how often it has each value.
    samples = np.random.default_rng(seed).multinomial(count, counts / count, RESAMPLES)
    tail = (100 - COVERAGE) / 2
    low, high = np.percentile(samples @ values / count, [tail, 100 - tail])
    return MeanInterval(float(counts @ values) / count, float(low), float(high))


@dataclass(frozen=True)
class ConfidenceBucket:
    """Answers of similar confidence: their count, mean confidence, and share that is exactly
    right."""

    count: int
    confidence: float
    exact: float


@dataclass(frozen=True)
class Calibration:
    """How well confidence tells the share of right answers."""

    # the expected calibration error: the mean distance between confidence and share of right
    # answers in the buckets, weighted by their sizes. 0 is perfect.
    error: float
    buckets: tuple[ConfidenceBucket, ...]


def calibrate(pairs: Sequence[tuple[float, bool]]) -> Calibration:
    """Compares the confidence of each answer, from 0 to 1, with whether it is right. There is at
    least one answer."""
    sorted_in: list[list[tuple[float, bool]]] = [[] for _ in range(BUCKETS)]
    for confidence, exact in pairs:
        sorted_in[min(int(confidence * BUCKETS), BUCKETS - 1)].append((confidence, exact))
    buckets: list[ConfidenceBucket] = []
    for members in filter(None, sorted_in):
        confidence = sum(confidence for confidence, _ in members) / len(members)
        share = sum(exact for _, exact in members) / len(members)
        buckets.append(ConfidenceBucket(len(members), confidence, share))
    distances = [bucket.count * abs(bucket.confidence - bucket.exact) for bucket in buckets]
    return Calibration(sum(distances) / len(pairs), tuple(buckets))


@dataclass(frozen=True)
class Figures:
    """A row of the table: shares of the questions, the median of seconds, the mean of tokens."""

    way: AskedWay
    kind: QuestionKind | None  # of the questions; None: all of them
    rows: int
    called: float
    # here and below: None if it is no matter of these questions. Shares are of those for which it
    # is one.
    valid: float | None
    right_tool: float | None
    exact: float | None
    no_call: float | None
    cut: float
    seconds: float
    tokens: float
    errors: int


@dataclass(frozen=True)
class SyntaxOrWits:
    """What breaks the calls of a file, by asking the same questions without and with the mask."""

    subject: str
    choice: str  # `tool_choice` of the mask
    rows: int  # asked both ways
    due: int  # of these need a call
    # of those have no call that fits as a strict parser reads it, although the reader or the mask
    # shows that one was meant: the syntax fails
    broken: int
    read: int  # of the broken ones, those of which the reader alone makes calls that fit
    mended: int  # of the broken ones, those of which the mask makes calls that fit
    wrong: int  # rows that are not right as a strict parser reads them
    read_right: int  # of the wrong ones, those that are right with the reader alone
    mask_right: int  # of the wrong ones, those that are right with the mask
    mask_valid: int  # of the wrong ones, those whose calls fit with the mask, but are not right
    # what is wrong, with the mask, with rows that are right neither way: the wits. A strict parser
    # may not see a call that is wrong.
    faults: Mapping[str, int]
    lost: int  # rows that are right as the reader reads them, and wrong with the mask

    def __str__(self) -> str:
        wits = sum(self.faults.values())
        text = (
            f"the syntax fails in {self.broken} of {self.due} expected calls: the parser alone "
            f"repairs {self.read}, the mask {self.mended}. Of {self.wrong} answers that are "
            f"wrong as written, the parser makes {self.read_right} right, the mask "
            f"{self.mask_right}; {wits} of {self.rows} are wrong either way, by the wits"
        )
        if faults := ", ".join(f"{count} {fault}" for fault, count in self.faults.items()):
            text += f" ({faults})"
        if self.lost:
            text += f". {self.lost} are right without the mask, and wrong with it"
        return text


@dataclass(frozen=True)
class PairedDifference:
    """How a model differs from the first one, on the same questions that both were asked."""

    way: AskedWay
    base: AskedWay  # how the first one was asked
    measure: str  # one of MEASURES
    rows: int
    interval: MeanInterval  # of the difference of the shares

    def __str__(self) -> str:
        found = self.interval
        numbers = f"{100 * found.mean:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
        text = f"{self.measure.replace('_', ' ')} {numbers}"
        return text if found.has_difference else f"{text}, no difference seen"


@dataclass(frozen=True)
class Evaluation:
    """What came of an evaluation; `str` shows it as text.

    Attributes:
        about: what is known of each model beforehand, such as its bits per weight.
        notes: on rows that are left out, and kept answers that do not count.
        seed: of the samples of intervals.
    """

    judgements: tuple[Judgement, ...]
    about: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    notes: Sequence[str] = ()
    seed: int = 0

    @property
    def ways(self) -> list[AskedWay]:
        return list(dict.fromkeys(judgement.way for judgement in self.judgements))

    def summarise(self) -> list[Figures]:
        """Returns the rows of the table: the ways of each kind of question, then of all."""
        rows: list[Figures] = []
        kinds = [*dict.fromkeys(judgement.kind for judgement in self.judgements), None]
        for subject in self.subjects:
            ways = [way for way in self.ways if way.subject == subject]
            for kind in kinds:
                for way in ways:
                    found = [j for j in self._find(way) if kind in (None, j.kind)]
                    if found:
                        rows.append(summarise(way, kind, found))
        return rows

    @property
    def subjects(self) -> list[str]:
        return list(dict.fromkeys(way.subject for way in self.ways))

    def weigh(self) -> list[SyntaxOrWits]:
        """Returns syntax against wits, for each file and tool choice that was asked both ways."""
        weighed: list[SyntaxOrWits] = []
        for way in self.ways:
            strict = AskedWay(way.subject, WayName.FREE, "")
            if way.name is WayName.MASKED and strict in self.ways:
                read = AskedWay(way.subject, WayName.READ, "")
                triples = _pair(self._find(strict), self._find(read), self._find(way))
                weighed.append(weigh(way, triples))
        return weighed

    def compare(self) -> list[PairedDifference]:
        """Returns the differences of all models from the first one."""
        differences: list[PairedDifference] = []
        for way in self.ways:
            for base in self.ways:
                is_same = base.name == way.name or {base.name, way.name} == {*OWN_CALLS}
                is_first = base.subject == self.subjects[0] != way.subject
                if is_first and is_same and base.choice == way.choice:
                    differences += self._compare(way, base)
        return differences

    def _compare(self, way: AskedWay, base: AskedWay) -> Iterator[PairedDifference]:
        pairs = _pair(self._find(way), self._find(base))
        for measure in MEASURES:
            values: list[float] = []
            for one, other in pairs:
                found = getattr(one, measure), getattr(other, measure)
                if None not in found:
                    values.append(found[0] - found[1])
            if values:
                interval = bootstrap(values, self.seed)
                yield PairedDifference(way, base, measure, len(values), interval)

    def calibrate(self) -> dict[AskedWay, Calibration]:
        """Returns how well the confidence in calls tells whether they are exactly right, for each
        way that measures it."""
        calibrations: dict[AskedWay, Calibration] = {}
        for way in self.ways:
            pairs: list[tuple[float, bool]] = []
            for judgement in self._find(way):
                if judgement.answer.confidence is not None:
                    pairs.append((judgement.answer.confidence, bool(judgement.exact)))
            if pairs:
                calibrations[way] = calibrate(pairs)
        return calibrations

    def _find(self, way: AskedWay) -> list[Judgement]:
        return [judgement for judgement in self.judgements if judgement.way == way]

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON, with each answer's judgement."""
        answers: list[dict[str, Any]] = []
        for judgement in self.judgements:
            row = {**asdict(judgement), **asdict(judgement.way), "fault": judgement.fault}
            row["seconds"], row["tokens"] = judgement.answer.seconds, judgement.answer.tokens
            del row["way"], row["answer"]
            answers.append(row)
        calibration = [{**asdict(way), **asdict(found)} for way, found in self.calibrate().items()]
        return {
            "notes": list(self.notes),
            "models": [{"name": name, "about": self.about.get(name, ())} for name in self.subjects],
            "figures": [asdict(row) for row in self.summarise()],
            "syntax_or_wits": [asdict(found) for found in self.weigh()],
            "differences": [asdict(found) for found in self.compare()],
            "calibration": calibration,
            "answers": answers,
        }

    def __str__(self) -> str:
        return "\n".join(self._describe())

    def _describe(self) -> Iterator[str]:
        rows = self.summarise()
        for note in self.notes:
            yield f"note: {note}"
        for subject in self.subjects:
            yield f"## {subject}"
            yield ""
            heads = list(self.about.get(subject, ()))
            for found in self.weigh():
                if found.subject == subject:
                    heads.append(f"With {found.choice}, {found}.")
            if heads:
                yield "\n".join([*heads, ""])
            yield from show_table([row for row in rows if row.way.subject == subject])
            yield ""
            for way, calibration in self.calibrate().items():
                if way.subject == subject:
                    yield f"{way}: {_describe_calibration(calibration)}"
            yield ""
        by_way: dict[tuple[AskedWay, AskedWay], list[PairedDifference]] = {}
        for found in self.compare():
            by_way.setdefault((found.way, found.base), []).append(found)
        for (way, base), differences in by_way.items():
            shown = "; ".join(map(str, differences))
            pair = f"{way.subject} against {base.subject}, {way}"
            yield f"{pair}, in points (95 %): {shown}."


def summarise(way: AskedWay, kind: QuestionKind | None, judgements: Sequence[Judgement]) -> Figures:
    """Returns the row of the table for these judgements, at least one."""
    return Figures(
        way=way,
        kind=kind,
        rows=len(judgements),
        called=statistics.fmean(judgement.called for judgement in judgements),
        valid=_share(judgement.valid for judgement in judgements),
        right_tool=_share(judgement.right_tool for judgement in judgements),
        exact=_share(judgement.exact for judgement in judgements),
        no_call=_share(judgement.no_call for judgement in judgements),
        cut=statistics.fmean(judgement.answer.cut for judgement in judgements),
        seconds=statistics.median(judgement.answer.seconds for judgement in judgements),
        tokens=statistics.fmean(judgement.answer.tokens for judgement in judgements),
        errors=sum(bool(judgement.answer.error) for judgement in judgements),
    )


def _share(values: Iterable[bool | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def weigh(way: AskedWay, triples: Sequence[tuple[Judgement, ...]]) -> SyntaxOrWits:
    """Weighs syntax against wits, for a way with the mask: each triple is what came of a question,
    read strictly, read by this library, with the mask."""
    due = [triple for triple in triples if triple[0].valid is not None]
    broken = [
        (read, masked)
        for strict, read, masked in due
        if not strict.valid and (strict.called or read.called or masked.called)
    ]
    wrong = [(read, masked) for strict, read, masked in triples if not strict.is_right]
    faults = Counter(
        masked.fault for _, read, masked in triples if not read.is_right and not masked.is_right
    )
    return SyntaxOrWits(
        subject=way.subject,
        choice=way.choice,
        rows=len(triples),
        due=len(due),
        broken=len(broken),
        read=sum(bool(read.valid) for read, _ in broken),
        mended=sum(bool(masked.valid) for _, masked in broken),
        wrong=len(wrong),
        read_right=sum(read.is_right for read, _ in wrong),
        mask_right=sum(masked.is_right for _, masked in wrong),
        mask_valid=sum(bool(masked.valid) and not masked.is_right for _, masked in wrong),
        faults=dict(faults.most_common()),
        lost=sum(read.is_right and not masked.is_right for _, read, masked in triples),
    )


def _pair(*groups: Sequence[Judgement]) -> list[tuple[Judgement, ...]]:
    """Returns the judgements of the same question together, of those that are in all groups."""
    by_id = [{judgement.id: judgement for judgement in group} for group in groups]
    first, *others = by_id
    shared = [id for id in first if all(id in other for other in others)]
    return [tuple(group[id] for group in by_id) for id in shared]


def show_table(rows: Sequence[Figures]) -> list[str]:
    """Returns the lines of a table in Markdown, without columns that have no figures."""
    columns: dict[str, list[str]] = {
        "questions": [f"{row.rows} {row.kind or 'all'}" for row in rows],
        "way": [str(row.way) for row in rows],
        "called": [_percent(row.called) for row in rows],
        "valid": [_percent(row.valid) for row in rows],
        "right tool": [_percent(row.right_tool) for row in rows],
        "exact": [_percent(row.exact) for row in rows],
        "no call": [_percent(row.no_call) for row in rows],
        "cut": [_percent(row.cut) for row in rows],
        "seconds": [f"{row.seconds:.1f}" for row in rows],
        "tokens": [f"{row.tokens:.0f}" for row in rows],
        "errors": [str(row.errors or "") for row in rows],
    }
    shown = [[name, *cells] for name, cells in columns.items() if any(cells)]
    widths = [max(map(len, cells)) for cells in shown]
    for cells, width in zip(shown, widths, strict=True):
        cells.insert(1, "-" * width)
    lines: list[str] = []
    for cells in zip(*shown, strict=True):
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append(f"| {' | '.join(padded)} |")
    return lines


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _describe_calibration(found: Calibration) -> str:
    shown = [f"{b.confidence:.0%}: {b.exact:.0%} of {b.count}" for b in found.buckets]
    return f"confidence, and how many are exact: {', '.join(shown)} (error {found.error:.2f})."
