"""Which grammars can be emitted for other engines, and why can the others not?

    python -m benchmarks.emitted [--sets 20] [--formats hermes,lfm2] [--key-order any] \\
      [--walks 0] [PATH ...]

PATHs are files of JSON Lines with `tools`; by default the sample in `tests/data`. Every format is
tried with every set, with its markers as special tokens. With `--walks N`, llama.cpp judges N texts
of each grammar and near misses of them, and our grammar judges N texts of llama.cpp.
"""

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.emitters.emitted_texts import (
    ATOMS,
    Agreement,
    EngineVocabulary,
    compare,
    make_vocabulary,
)
from benchmarks.emitters.gbnf_engine import GbnfEngine
from benchmarks.inputs.tool_sets import read_rows, sample_paths
from constrained.tools.shapes import read_tools
from grammars.build.turn import build_turn
from grammars.emit.emitter import LANGUAGES, emit
from grammars.errors import CannotEmitError, Error
from grammars.formats import FORMATS
from grammars.ir.grammar import Grammar
from grammars.turn import KeyOrder, Policy, State, Tool
from grammars.wire.format import Format
from tests.agreement.matching import Masked

MARKERS = {atom: 1_000 + number for number, atom in enumerate(ATOMS)}


@dataclass
class Tally:
    """What came of one language.

    Args:
        seconds, sizes: of what was said.
        refused: how often, by reason.
        formats: of which formats something was refused, by reason.
    """

    seconds: list[float] = field(default_factory=list[float])
    sizes: list[int] = field(default_factory=list[int])
    refused: Counter[str] = field(default_factory=Counter[str])
    formats: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def note(self, grammar: Grammar, language: str, format: Format) -> str | None:
        """Emits a grammar, and keeps what came of it; returns the text."""
        begin = time.perf_counter()
        try:
            text = emit(grammar, language)
        except CannotEmitError as error:
            self.refused[error.message] += 1
            self.formats.setdefault(error.message, set()).add(format.name)
            return None
        self.seconds.append(time.perf_counter() - begin)
        self.sizes.append(len(text))
        return text


class _Walks:
    """Texts of both sides, judged by the other one."""

    def __init__(self, known: EngineVocabulary, walks: int):
        self.agreement = Agreement()
        self._known = known
        self._engine = GbnfEngine(known.path)
        self._walks = walks
        self._draw = random.Random(0)

    def judge(self, format: Format, tools: Sequence[Tool], policy: Policy) -> None:
        """Judges texts of the grammar of a request; what cannot be said is counted elsewhere."""
        known = self._known
        ours = Masked(format, tools, policy, State(), real=(known.vocabulary, known.tokenizer))
        try:
            text = emit(build_turn(format, tools, policy, markers=ours.ids), "gbnf")
        except CannotEmitError:
            return
        with self._engine.reading(text) as theirs:
            found = compare(ours, theirs, known.drawn, self._draw, self._walks)
        self.agreement.judged += found.judged
        self.agreement.disputed += [(f"{format.name}, {way}", text) for way, text in found.disputed]


def main() -> int:
    """Prints what was said and refused; 1 if llama.cpp and llguidance disagree about a text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument(
        "--sets", type=int, default=1_000_000, help="how many tool sets at most, of all kinds alike"
    )
    parser.add_argument("--key-order", choices=tuple(KeyOrder), default=KeyOrder.ANY)
    parser.add_argument("--formats", metavar="NAME,...", help="default: all")
    parser.add_argument("--walks", type=int, default=0)
    options = parser.parse_args()
    policy = Policy(key_order=KeyOrder(options.key_order))
    sets = _read_sets(options.paths or sample_paths())
    sets = sets[:: -(-len(sets) // options.sets)]
    formats = [f for f in FORMATS if not options.formats or f.name in options.formats.split(",")]
    tallies = {language: Tally() for language in LANGUAGES}
    unfit = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        walks = None
        if options.walks:
            walks = _Walks(make_vocabulary(Path(folder), marked=True), options.walks)
        for format in formats:
            for tools in sets:
                try:
                    grammar = build_turn(format, tools, policy, markers=MARKERS)
                except Error as error:
                    unfit[type(error).__name__] += 1
                    continue
                for language, tally in tallies.items():
                    tally.note(grammar, language, format)
                if walks is not None:
                    walks.judge(format, tools, policy)
    asked = len(formats) * len(sets)
    print(f"{len(formats)} formats x {len(sets)} tool sets: {asked:,} turns")
    print(f"order of keys: {policy.key_order}; no grammar of ours: {sum(unfit.values()):,}")
    _print_tallies(tallies)
    if walks is None:
        return 0
    return _print_agreement(walks.agreement)


def _read_sets(paths: Sequence[Path]) -> list[Sequence[Tool]]:
    """Returns the tool sets of the files that can be enforced as a whole."""
    sets: list[Sequence[Tool]] = []
    for row in read_rows(paths):
        try:
            sets.append(read_tools(row["tools"]))
        except Error as error:
            print(f"left out: {row.get('id')}: {error}")
    return sets


def _print_tallies(tallies: dict[str, Tally]) -> None:
    columns = f"{'median ms':>12}{'slowest s':>12}{'median kB':>12}{'largest kB':>12}"
    print(f"\n{'language':<18}{'said':>8}{'refused':>10}{columns}")
    for language, tally in tallies.items():
        said, refused = len(tally.sizes), sum(tally.refused.values())
        if not said:
            print(f"{language:<18}{said:>8}{refused:>10}")
            continue
        times = f"{1_000 * median(tally.seconds):>12.1f}{max(tally.seconds):>12.2f}"
        sizes = f"{median(tally.sizes) / 1_000:>12.1f}{max(tally.sizes) / 1_000:>12.1f}"
        print(f"{language:<18}{said:>8}{refused:>10}{times}{sizes}")
    for language, tally in tallies.items():
        for reason, count in tally.refused.most_common():
            print(f"\n{language}: {count} x {reason}\n  {', '.join(sorted(tally.formats[reason]))}")


def _print_agreement(agreement: Agreement) -> int:
    judged = ", ".join(f"{count:,} {way}" for way, count in agreement.judged.items())
    print(f"\ntexts that llama.cpp and llguidance were asked about: {judged}")
    print(f"disputed: {len(agreement.disputed)}")
    for way, text in agreement.disputed[:20]:
        print(f"  {way}: {text!r}")
    return 1 if agreement.disputed else 0


if __name__ == "__main__":
    raise SystemExit(main())
