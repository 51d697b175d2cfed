"""Is the mask of a JSON Schema exact? Valid values that it refuses, in any spelling and any tokens;
refused bytes that could be completed; invalid values that it accepts.

    python -m benchmarks.exact [PATH ...] [--rows N] [--engines NAME ...] [--causes N]

PATHs are as for `benchmarks.schemas`. For each schema there are the values of its row and drawn
ones; `benchmarks.inputs.judges` says which are valid.

- **refused**: each valid value, written as three languages do and with random white space,
  escapes, numbers and order of keys, cut at random into tokens of a model's vocabulary.
- **completed**: bytes that the mask refuses in these texts: first those that llguidance's own
  grammar of the schema allows, then others at random. A completion is looked for with that grammar,
  with that of any JSON, and with what follows in the text. Where one is valid, the mask refuses its
  value, or only this spelling of it. Bytes are enough: at the same places the mask of the model's
  tokens is compared with that of bytes.
- **accepted**: valid values with one change that makes them invalid.
- **written**: random walks through the mask.

An error is silent if the report says nothing of it: `narrowed` for the first two, `checked` for the
others. Its cause is shown as the smallest schema and value that fail so. Other engines are measured
beside ours where they are installed.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import isinf
from typing import Any

import numpy as np

from benchmarks.inputs.changed_instances import change_instances
from benchmarks.inputs.drawn_instances import draw_instances
from benchmarks.inputs.judges import Judges
from benchmarks.inputs.masks import (
    BYTES,
    Mask,
    Walk,
    compile_llguidance,
    compile_ours,
    compile_xgrammar,
    list_engines,
    load_tokens,
)
from benchmarks.inputs.smaller_cases import make_smaller
from benchmarks.inputs.spelled_instances import WAYS, write_instance
from benchmarks.processes.limits import Limited
from benchmarks.schemas import read
from constrained.errors import GrammarError
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Schema
from grammars.schema.numbers import normalise_numbers
from grammars.schema.subschemas import is_list, is_object, map_parts

OURS = "constrained"
_CHANGES, _PLACES = 4, 5  # of each value; places in its text
_TOKENS = 20  # of each sort that are compared there
_MOST_VALUES, _GENERATED = 12, 8  # of each schema
_TEXTS, _LONGEST, _TRIES = 8, 1_000, 30  # texts of a schema, their bytes, tries of each sort


def list_subschemas(schema: Json) -> Iterator[Mapping[str, Json]]:
    """Yields a schema and all its subschemas that are objects."""
    parts: list[Json] = []

    def add(part: Json, pointer: str) -> Json:
        parts.append(part)
        return part

    if is_object(schema):
        yield schema
        map_parts(schema, add)
    for part in parts:
        yield from list_subschemas(part)


def list_keywords(schema: Json) -> set[str]:
    """Returns the keywords of a schema and its subschemas."""
    return {keyword for part in list_subschemas(schema) for keyword in part}


def list_names(schema: Json) -> list[str]:
    """Returns the names that a schema declares or requires."""
    names: dict[str, None] = {}
    for part in list_subschemas(schema):
        for keyword in ("required", "properties"):
            if is_list(part.get(keyword)) or is_object(part.get(keyword)):
                names |= dict.fromkeys(name for name in part[keyword] if isinstance(name, str))
    return list(names)


def choose_document(source: Json, schema: Schema | None) -> Json:
    """Returns the document by which values are judged: as it is repaired, where it is."""
    if schema is None or not schema.report.repaired:
        return source
    return schema.source


class Bench:
    """The trials of one schema.

    Args:
        row: `{id, schema, tests}`, and under `options` those of the command.
    """

    def __init__(self, row: Mapping[str, Any]):
        self._options = row["options"]
        self._source: Json = row["schema"]
        self._rng = random.Random(f"{self._options['seed']} {row['id']}")
        self._tokens = load_tokens(self._options["model"])
        self._schema = self._lower(self._source)
        self._document = choose_document(self._source, self._schema)
        self._judges = Judges(self._document)
        self.counts: dict[str, Counter[str]] = {}
        self.failures: list[tuple[str, Json, Json]] = []
        names = list_names(self._source)
        self._walk = Walk(self._tokens, names, least=self._rng.randint(3, 30))
        self._byte_walk = Walk(load_tokens(BYTES), names, least=0)
        self._long_walk = Walk(load_tokens(BYTES), names, least=60)
        self._generators = self._compile_generators()
        self._texts: list[bytes] = []  # as the generator of the schema writes valid values
        self._values = self._choose_values([test["data"] for test in row.get("tests", [])])

    def _compile_generators(self) -> list[Mask]:
        """Returns grammars of llguidance: of the schema, if it can be, and of any JSON."""
        tokens = load_tokens(BYTES)
        generators: list[Mask] = []
        with suppress(GrammarError):
            generators.append(compile_llguidance(self._document, tokens, tight=True))
        return [*generators, compile_llguidance(True, tokens, tight=True)]

    @staticmethod
    def _lower(source: Json) -> Schema | None:
        try:
            return lower(source, close=False, only_object=False)
        except Exception:  # whatever it is, there is no mask
            return None

    def _choose_values(self, given: Sequence[Json]) -> list[Json]:
        """Returns valid values, with numbers as the schema means them."""
        values = [*given, *draw_instances(self._document, self._options["drawn"])]
        values = [value for value in values if self._judges.admits(value)]
        self._rng.shuffle(values)
        values = [*values[:_MOST_VALUES], *self._generate()]
        if self._schema is None:
            return values
        return [normalise_numbers(value, self._schema) for value in values]

    def _generate(self) -> Iterator[Json]:
        """Yields valid values that llguidance's own grammar writes, and keeps their texts."""
        rng = np.random.default_rng(self._rng.randrange(2**32))
        if len(self._generators) == 1:
            return
        for number in range(_GENERATED):
            walk = self._byte_walk if number % 2 else self._long_walk
            text = walk.write(self._generators[0].fork(), rng)
            parsed = None if text is None else parse(text)
            if text is not None and parsed is not None and self._judges.admits(parsed[0]):
                self._texts.append(text)
                yield parsed[0]

    def run(self) -> None:
        """Tries all engines."""
        for engine in self._options["engines"]:
            counts = self.counts[engine] = Counter(schemas=1)
            try:
                mask = self._compile(engine)
            except Exception:  # each engine has its own errors
                continue
            counts["compiling"] += 1
            self._try_valid(engine, mask, counts)
            self._try_changed(engine, mask, counts)
            self._try_walks(engine, mask, counts)
        if self._schema is not None and "compiling" in self.counts.get(OURS, {}):
            self._try_refused_bytes(self.counts[OURS])

    def _compile(self, engine: str) -> Mask:
        if engine == "llguidance":
            return compile_llguidance(self._source, self._tokens)
        if engine == "xgrammar":
            return compile_xgrammar(self._source, self._options["model"])
        if self._schema is None:
            raise ValueError("it is not lowered")
        return compile_ours(self._schema, self._tokens)

    def _accepts(self, mask: Mask, text: str) -> bool:
        """Returns whether a mask over the model's tokens accepts a whole text, cut at random."""
        tokens = self._tokens.cut(text.encode(), self._rng)
        fork = mask.fork()
        return fork.try_commit(tokens) and fork.is_complete

    def _note(self, engine: str, kind: str, value: Json) -> None:
        """Counts an error, and keeps one of ours that no report tells of."""
        report = None if self._schema is None else self._schema.report
        told = report and (report.checked if "invalid" in kind else report.narrowed)
        told = told and engine == OURS
        self.counts[engine][f"{kind}, told" if told else kind] += 1
        if engine == OURS and not told and kind not in {k for k, *_ in self.failures}:
            self.failures.append((kind, self._source, value))

    def _try_valid(self, engine: str, mask: Mask, counts: Counter[str]) -> None:
        for value in self._values:
            for way in WAYS:
                try:
                    text = write_instance(value, way, self._rng)
                    accepted = self._accepts(mask, text)
                except UnicodeEncodeError:  # a lone surrogate, which no model can write
                    continue
                counts[f"written {way}"] += 1
                if not accepted:
                    self._note(engine, f"refused {way}", value)

    def _try_changed(self, engine: str, mask: Mask, counts: Counter[str]) -> None:
        for number, value in enumerate(self._values):
            for changed in change_instances(value, _CHANGES, seed=number):
                if self._schema is not None:
                    changed = normalise_numbers(changed, self._schema)
                if self._judges.admits(changed) is not False:
                    continue
                counts["changed"] += 1
                if self._accepts(mask, json.dumps(changed, ensure_ascii=False)):
                    self._note(engine, "invalid accepted", changed)

    def _try_walks(self, engine: str, mask: Mask, counts: Counter[str]) -> None:
        rng = np.random.default_rng(self._rng.randrange(2**32))
        for _ in range(self._options["walks"]):
            counts["walks"] += 1
            text = self._walk.write(mask.fork(), rng)
            if text is None:
                counts["unfinished"] += 1
                continue
            try:
                value = json.loads(text)
            except ValueError:
                counts["no JSON"] += 1
                continue
            admitted = self._judges.admits(value)
            counts["undecided"] += admitted is None
            if admitted is False:
                self._note(engine, "invalid written", value)

    def _try_refused_bytes(self, counts: Counter[str]) -> None:
        """Looks for completions of what our mask refuses."""
        assert self._schema is not None
        mask, ours = self._compile(OURS), compile_ours(self._schema, load_tokens(BYTES))
        texts = [json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in self._values]
        with suppress(UnicodeEncodeError):
            self._texts += [text.encode() for text in texts]
        raws = [raw for raw in self._texts if len(raw) < _LONGEST]
        suspects: list[tuple[bytes, int, int]] = []
        others: list[tuple[bytes, int, int]] = []
        for raw in self._rng.sample(raws, min(_TEXTS, len(raws))):
            places = self._rng.sample(range(len(raw)), min(_PLACES, len(raw)))
            states = [ours.fork(), *(generator.fork() for generator in self._generators)]
            for place, byte in enumerate(raw):
                allowed, *by_others = (state.mask()[:256] for state in states)
                here = [*map(int, np.flatnonzero(by_others[0] & ~allowed))]
                suspects += [(raw, place, other) for other in here]
                if place in places:
                    self._compare_tokens(mask, states[0], raw[:place], counts)
                    here = [*map(int, np.flatnonzero(by_others[-1] & ~allowed))]
                    others += [(raw, place, other) for other in here]
                    counts["refused bytes"] += len(here)
                states = [state for state in states if state.try_commit([byte])]
                if len(states) < 2 or not allowed[byte]:
                    break
        for tries in (suspects, others):
            for raw, place, byte in self._rng.sample(tries, min(_TRIES, len(tries))):
                self._complete(raw, place, byte, counts)

    def _compare_tokens(self, mask: Mask, exact: Mask, prefix: bytes, counts: Counter[str]) -> None:
        """Counts tokens that the mask of the model's vocabulary allows and that of bytes does not,
        or the reverse."""
        fork = mask.fork()
        fork.try_commit(self._tokens.cut(prefix, self._rng))
        allowed = fork.mask()
        allowed[list(self._tokens.special)] = False
        few = np.flatnonzero(allowed).tolist()
        ordinary = self._tokens.ordinary
        chosen = self._rng.sample(few, min(_TOKENS, len(few)))
        for token in chosen + self._rng.sample(ordinary, _TOKENS):
            text = self._tokens.vocabulary.tokens[token]
            counts["tokens"] += 1
            is_exact = exact.count_accepted(list(text)) == len(text)
            counts["tokens that differ"] += bool(allowed[token]) != is_exact

    def _complete(self, raw: bytes, place: int, byte: int, counts: Counter[str]) -> None:
        """Looks for a valid completion of a text in which a byte was refused."""
        counts["bytes tried"] += 1
        prefix = raw[:place] + bytes([byte])
        is_decided = False
        for text in self._list_completions(prefix, raw[place:]):
            parsed = parse(text)
            if parsed is None:
                continue
            admitted = self._judges.admits(parsed[0])
            is_decided = is_decided or admitted is not None
            if admitted:
                self._note_completed(parsed[0], counts)
                return
        counts["none found" if is_decided else "bytes undecided"] += 1

    def _note_completed(self, value: Json, counts: Counter[str]) -> None:
        assert self._schema is not None
        meant = normalise_numbers(value, self._schema)
        mask = compile_ours(self._schema, self._tokens)
        if self._accepts(mask, json.dumps(meant, ensure_ascii=False)):
            counts["another spelling"] += 1
        else:
            self._note(OURS, "completed", meant)

    def _list_completions(self, prefix: bytes, rest: bytes) -> Iterator[bytes]:
        yield prefix + rest
        yield prefix + rest[1:]
        rng = np.random.default_rng(self._rng.randrange(2**32))
        for generator in self._generators:
            mask = generator.fork()
            if not mask.try_commit(list(prefix)):
                continue
            for _ in range(self._options["steps"] // len(self._generators)):
                text = self._byte_walk.write(mask.fork(), rng)
                if text is not None:
                    yield prefix + text

    def make_smaller(self) -> Iterator[tuple[str, Json, Json]]:
        """Yields the kinds of our silent errors, each with a small schema and value."""
        for kind, schema, value in self.failures:
            yield (
                kind,
                *make_smaller(schema, value, lambda s, v, kind=kind: self._fails(kind, s, v)),
            )

    def _fails(self, kind: str, source: Json, value: Json) -> bool:
        schema = lower(source, close=False, only_object=False)
        way = kind.removeprefix("refused ") if kind.startswith("refused") else "plain"
        is_invalid = "invalid" in kind
        if schema.report.checked if is_invalid else schema.report.narrowed:
            return False
        meant = normalise_numbers(value, schema)
        if Judges(choose_document(source, schema)).admits(meant) is is_invalid:
            return False
        mask = compile_ours(schema, self._tokens)
        texts = [write_instance(meant, way, random.Random(seed)) for seed in range(8)]
        return any(self._accepts(mask, text) is is_invalid for text in texts)


def parse(text: bytes) -> tuple[Json] | None:
    """Returns the value of a JSON text; None: it is none, has a key twice, or a number that is no
    finite double."""
    try:
        decoded = json.loads(text, object_pairs_hook=_join, parse_float=_read_finite)
    except (ValueError, RecursionError):
        return None
    return (decoded,)


def _join(members: list[tuple[str, Json]]) -> dict[str, Json]:
    joined = dict(members)
    if len(joined) < len(members):
        raise ValueError("a key is there twice")
    return joined


def _read_finite(digits: str) -> float:
    if isinf(number := float(digits)):
        raise ValueError("it is no finite double")
    return number


def try_out(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the counts of each engine for a row, and the causes of our silent errors."""
    bench = Bench(row)
    bench.run()
    return {"counts": bench.counts, "causes": list(bench.make_smaller())}


class Tally:
    """What has come out so far."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.keywords: dict[str, Counter[str]] = {}
        self.causes: dict[tuple[str, ...], list[str]] = {}

    def add(self, row: Mapping[str, Any], found: dict[str, Any] | Exception | None) -> None:
        """Counts a row."""
        if not isinstance(found, dict):
            state = "too slow" if found is None else "DEFECT"
            self.counts.setdefault(OURS, Counter())[state] += 1
            self.causes.setdefault((state,), []).append(f"{row['id']} {found!r}")
            return
        for engine, counts in found["counts"].items():
            self.counts.setdefault(engine, Counter()).update(counts)
        ours = found["counts"].get(OURS, Counter())
        for keyword in list_keywords(row["schema"]):
            tally = self.keywords.setdefault(keyword, Counter())
            tally.update(ours)
        for kind, schema, value in found["causes"]:
            case = f"{json.dumps(schema)} {json.dumps(value)} ({row['id']})"
            self.causes.setdefault((kind, *sorted(list_keywords(schema))), []).append(case)

    def show(self) -> Iterator[str]:
        """Yields the tables."""
        lines = ["schemas", "compiling", "too slow", "DEFECT"]
        for way in WAYS:
            lines += [f"written {way}", f"refused {way}", f"refused {way}, told"]
        lines += [
            "tokens",
            "tokens that differ",
            "refused bytes",
            "bytes tried",
            "completed",
            "completed, told",
        ]
        lines += ["another spelling", "none found", "bytes undecided"]
        lines += ["changed", "invalid accepted", "invalid accepted, told"]
        lines += ["walks", "unfinished", "undecided", "no JSON"]
        lines += ["invalid written", "invalid written, told"]
        yield f"| | {' | '.join(self.counts)} |"
        yield f"|---|{'---:|' * len(self.counts)}"
        for line in lines:
            cells = [str(counts[line]) for counts in self.counts.values()]
            yield f"| {line} | {' | '.join(cells)} |"

    def show_keywords(self) -> Iterator[str]:
        """Yields our errors in schemas with a keyword."""
        kinds = {"refused": "refused", "completed": "completed", "invalid": "invalid"}
        yield f"| keyword | schemas | {' | '.join(f'{k} | {k}, told' for k in kinds)} |"
        yield f"|---|{'---:|' * (1 + 2 * len(kinds))}"
        for keyword, counts in sorted(self.keywords.items()):
            cells = [counts["schemas"]]
            for kind in kinds:
                named = [k for k in counts if k.startswith(kind) and k != "refused bytes"]
                told = sum(counts[k] for k in named if k.endswith("told"))
                cells += [sum(counts[k] for k in named) - told, told]
            yield f"| `{keyword}` | {' | '.join(map(str, cells))} |"

    def show_causes(self) -> Iterator[str]:
        """Yields the causes, the commonest first, each with its shortest case."""
        for key, cases in sorted(self.causes.items(), key=lambda cause: -len(cause[1])):
            yield f"{len(cases)} {key[0]} {' '.join(key[1:])}: {min(cases, key=len)}"


def main() -> int:
    """Prints the tables; 1 if one of our errors is silent."""
    engines = list(list_engines())
    parser = argparse.ArgumentParser(description="Measures how exact the masks of schemas are.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--rows", type=int, metavar="N", help="so many of the rows, at random")
    parser.add_argument("--engines", nargs="+", choices=engines, default=[OURS], metavar="NAME")
    parser.add_argument("--model", default="demo", help="whose vocabulary is used")
    parser.add_argument("--drawn", type=int, default=10, metavar="N", help="values of each schema")
    parser.add_argument("--walks", type=int, default=4, metavar="N", help="for each schema")
    parser.add_argument("--steps", type=int, default=24, metavar="N", help="completions to try")
    parser.add_argument("--keywords", action="store_true", help="errors by keyword")
    parser.add_argument("--causes", type=int, default=20, metavar="N", help="show so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60, help="the limit for one schema")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    rows = list(read(options.paths))
    if options.rows is not None and options.rows < len(rows):
        rows = random.Random(options.seed).sample(rows, options.rows)
    rows = [{**row, "options": vars(options)} for row in rows]
    tally = Tally()
    results = Limited(try_out, options.seconds, options.jobs).map(rows)
    for number, (row, found) in enumerate(zip(rows, results, strict=True), 1):
        tally.add(row, found)
        if number % 100 == 0:
            print(f"{number} of {len(rows)}", file=sys.stderr)
    print("\n".join(tally.show()))
    if options.keywords:
        print("\n".join(tally.show_keywords()))
    for _, cause in zip(range(options.causes), tally.show_causes(), strict=False):
        print(cause)
    return 1 if any(kind not in ("too slow",) for kind, *_ in tally.causes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
