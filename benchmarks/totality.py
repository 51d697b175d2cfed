"""Any text against the parser: does it ever raise, lose text, or depend on the chunks?

    python -m benchmarks.totality [--inputs 200000] [--seed 0] [PATH ...]

Inputs are random bytes (invalid UTF-8 is replaced), turns that were damaged or cut, and tags in any
order, for each format in turn, with recovery or without, and each again in random pieces. PATHs are
files of JSON Lines; their `text` is read in every format, too.

Text is lost where a word that no format writes comes out less often than it went in: as content,
reasoning, a name, an id, an argument or `unfinished`; or more often, since then it was reported
twice. A text that holds none of what the format writes has to come out as content, to the
character. Of an argument that is written twice in one call, one is read; such texts are exempt.
"""

import argparse
import json
import multiprocessing
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from benchmarks.inputs.texts import TOOLS, Input, cut, make_input, make_rendering
from grammars.formats import FORMATS
from grammars.parse.parser import Parser, collect
from grammars.suite.parser_output import as_reading
from grammars.suite.reading import find_lost
from grammars.turn import Event, Turn
from grammars.wire.format import Format

FAULTS = ("raised", "lost", "chunks")


@dataclass(frozen=True)
class Outcome:
    """What came of one input."""

    format: str
    kind: str
    recover: bool
    calls: int
    fault: str = ""
    text: str = ""


def read(format: Format, pieces: Sequence[str], recover: bool) -> Turn:
    """Returns what the parser reads in these pieces."""
    parser = Parser(format, TOOLS, recover=recover)
    events: list[Event] = [event for piece in pieces for event in parser.feed(piece)]
    return collect([*events, *parser.close()])


def play(number: int, seed: int, text: str | None = None) -> Outcome:
    """Reads input `number`."""
    draw = random.Random(f"{seed}/{number}")
    format = FORMATS[number % len(FORMATS)]
    recover = number // len(FORMATS) % 2 == 1
    given = make_input(format, _renderings(format), draw) if text is None else Input("file", text)
    try:
        turn = read(format, [given.text], recover)
        fault = _find_fault(given, format, turn)
        if not fault and repr(read(format, cut(given.text, draw), recover)) != repr(turn):
            fault = "chunks"
    except Exception as e:
        return Outcome(format.name, given.kind, recover, 0, "raised", f"{e!r}: {given.text!r}")
    return Outcome(format.name, given.kind, recover, len(turn.calls), fault, repr(given.text))


def _find_fault(given: Input, format: Format, turn: Turn) -> str:
    ids = "\n".join(call.id or "" for call in turn.calls)
    heard = as_reading(replace(turn, unfinished=f"{turn.unfinished}\n{ids}"), [])
    if find_lost(given.text, heard, damaged=given.kind != "truncated", tags=format.structure):
        return "lost"
    is_plain = not any(part.strip() in given.text for part in _parts(format))
    whole = turn.content + turn.unfinished
    return "lost" if is_plain and (whole != given.text or turn.calls or turn.reasoning) else ""


@lru_cache
def _parts(format: Format) -> tuple[str, ...]:
    parts = ("{", *format.structure)
    return tuple(p for p in parts if p.strip())


@lru_cache
def _renderings(format: Format) -> list[str]:
    draw = random.Random(format.name)
    return [make_rendering(format, draw) for _ in range(200)]


def _play(job: tuple[int, int, str | None]) -> Outcome:
    return play(*job)


def _read_texts(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            text = row.get("text", row.get("assistant_text"))
            if isinstance(text, str):
                yield text


def main() -> int:
    """Reads the inputs and prints a table; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    jobs: list[tuple[int, int, str | None]] = [
        (n, options.seed, None) for n in range(options.inputs)
    ]
    for text in _read_texts(options.paths):
        jobs += [(n, options.seed, text) for n in range(2 * len(FORMATS))]
    with multiprocessing.Pool() as pool:
        outcomes = pool.map(_play, jobs, chunksize=256)
    _print_table(outcomes)
    faults = [o for o in outcomes if o.fault]
    for o in faults[:20]:
        print(f"{o.fault}: {o.format}, {'recover' if o.recover else 'strict'}, {o.text[:600]}")
    return 1 if faults else 0


def _print_table(outcomes: Sequence[Outcome]) -> None:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for o in outcomes:
        mode = "recover" if o.recover else "strict"
        for key in ((o.format, mode), ("all", o.kind), ("all", "all")):
            count = counts.setdefault(key, Counter())
            count.update(["inputs", *([o.fault] if o.fault else [])], with_calls=o.calls > 0)
    columns = ("inputs", "with_calls", *FAULTS)
    print(f"{'format':<18}{'mode, kind':<12}" + "".join(f"{c:>12}" for c in columns))
    for (format, mode), count in counts.items():
        print(f"{format:<18}{mode:<12}" + "".join(f"{count[c]:>12}" for c in columns))


if __name__ == "__main__":
    raise SystemExit(main())
