"""Is the mask of a JSON Schema exact? Valid values that it refuses, in any spelling and any tokens;
refused bytes that could be completed; invalid values that it accepts.

    python -m benchmarks.exact [PATH ...] [--rows N] [--causes N]

PATHs are as for `benchmarks.schemas`. For each schema there are the values of its row, those that
llguidance's own grammar of it writes, and changed ones; `benchmarks.inputs.judges` says which are
valid.

- **refused**: each valid value, as Python writes it and with random white space, escapes, numbers
  and order of keys, cut at random into tokens of a model's vocabulary.
- **completed**: bytes that the mask refuses in these texts: first those that llguidance's own
  grammar of the schema allows, then others at random. A completion is looked for with that grammar,
  with that of any JSON, and with what follows in the text. Where one is valid, the mask refuses its
  value, or only this spelling of it. Bytes are enough: at the same places the mask of the model's
  tokens is compared with that of bytes.
- **accepted**: valid values with one change that makes them invalid.
- **written**: random walks through the mask.

An error is silent if the report says nothing of it: `narrowed` for the first two, `checked` for the
others. Causes are shown as the smallest schema and value that fail so.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import isinf
from typing import Any

import numpy as np

from benchmarks.inputs.changed_instances import change_instances
from benchmarks.inputs.judges import Judges
from benchmarks.inputs.masks import BYTES, Walk, compile_llguidance, compile_ours, load_tokens
from benchmarks.inputs.smaller_cases import make_smaller
from benchmarks.inputs.spelled_instances import WAYS, write_instance
from benchmarks.processes.limits import Limited
from benchmarks.schemas import read
from constrained.errors import GrammarError
from constrained.mask.matcher import Matcher
from grammars.errors import SchemaError
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Schema
from grammars.schema.numbers import normalise_numbers
from grammars.schema.subschemas import is_list, is_object, map_parts

_CHANGES, _PLACES = 4, 5  # of each value; places in its text
_FORCED = "tokens that cut forced text otherwise"
_COMPLETED = ("bytes tried", "completed", "completed, told", "another spelling")
_COMPLETED += ("none found", "bytes undecided")
_WRITTEN = (
    "walks",
    "unfinished",
    "undecided",
    "no JSON",
    "invalid written",
    "invalid written, told",
)
_TOKENS = 20  # of each sort that are compared there
_MOST_VALUES, _GENERATED, _NEIGHBOURS = 12, 16, 8  # of each schema
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


def list_constants(schema: Json) -> list[Json]:
    """Returns the numbers and texts that the keywords of a schema name: bounds, choices, defaults
    and more. Right and wrong values are near them."""
    named: dict[str, Json] = {}
    for part in list_subschemas(schema):
        for value in part.values():
            for constant in value if is_list(value) else [value]:
                if isinstance(constant, str | int | float):
                    named[repr(constant)] = constant
    return [*named.values()]


def choose_document(source: Json, schema: Schema | None) -> Json:
    """Returns the document by which values are judged: as it is repaired, where it is."""
    if schema is None or not schema.report.repaired:
        return source
    return schema.source


def tells(schema: Schema, kind: str) -> bool:
    """Returns whether the report of a schema may speak of an error of this kind."""
    return bool(schema.report.checked if "invalid" in kind else schema.report.narrowed)


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
        self.counts = Counter[str](schemas=1)
        self.failures: list[tuple[str, Json, Json]] = []
        names = list_names(self._source)
        self._walk = Walk(self._tokens, names, least=self._rng.randint(3, 30))
        self._byte_walk = Walk(load_tokens(BYTES), names, least=0)
        self._long_walk = Walk(load_tokens(BYTES), names, least=60)
        self._generators = self._compile_generators()
        self._texts: list[bytes] = []  # as the generator of the schema writes valid values
        self._values = self._choose_values([test["data"] for test in row.get("tests", [])])

    def _compile_generators(self) -> list[Matcher]:
        """Returns grammars of llguidance: of the schema, if it can be, and of any JSON."""
        generators: list[Matcher] = []
        with suppress(GrammarError):
            generators.append(compile_llguidance(self._document))
        return [*generators, compile_llguidance(True)]

    @staticmethod
    def _lower(source: Json) -> Schema | None:
        try:
            return lower(source, close=False, only_object=False)
        except SchemaError:
            return None

    def _choose_values(self, given: Sequence[Json]) -> list[Json]:
        """Returns valid values, with numbers as the schema means them."""
        values = [value for value in given if self._judges.admits(value)]
        self._rng.shuffle(values)
        values = [*values[:_MOST_VALUES], *self._generate()]
        near = [value for value in self._change_all(values) if self._judges.admits(value)]
        values += self._rng.sample(near, min(_NEIGHBOURS, len(near)))
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

    def _change_all(self, values: Sequence[Json]) -> Iterator[Json]:
        """Yields values with one change each."""
        constants = list_constants(self._document)
        for value in values:
            yield from change_instances(value, _CHANGES, self._rng, constants)

    def run(self) -> None:
        """Tries the mask of the schema, if it has one."""
        if self._schema is None:
            return
        try:
            ours = compile_ours(self._schema, self._tokens)
        except (GrammarError, SchemaError):
            return
        self.counts["compiling"] += 1
        self._try_valid(ours)
        self._try_changed(ours)
        self._try_walks(ours)
        self._try_refused_bytes(ours)

    def _accepts(self, mask: Matcher, text: str) -> bool:
        """Returns whether a mask over the model's tokens accepts a whole text, cut at random."""
        tokens = self._tokens.cut(text.encode(), self._rng)
        fork = mask.fork()
        return fork.try_commit(tokens) and fork.is_complete

    def _note(self, kind: str, value: Json) -> None:
        """Counts an error, and keeps the first of its kind."""
        assert self._schema is not None
        name = f"{kind}, told" if tells(self._schema, kind) else kind
        self.counts[name] += 1
        if self.counts[name] == 1:
            self.failures.append((kind, self._source, value))

    def _try_valid(self, ours: Matcher) -> None:
        for value in self._values:
            for way in WAYS:
                try:
                    text = write_instance(value, way, self._rng)
                    accepted = self._accepts(ours, text)
                except UnicodeEncodeError:  # a lone surrogate, which no model can write
                    continue
                self.counts[f"written {way}"] += 1
                if not accepted:
                    self._note(f"refused {way}", value)

    def _try_changed(self, ours: Matcher) -> None:
        assert self._schema is not None
        for changed in self._change_all(self._values):
            changed = normalise_numbers(changed, self._schema)
            if self._judges.admits(changed) is False:
                self.counts["changed"] += 1
                if self._accepts(ours, json.dumps(changed, ensure_ascii=False)):
                    self._note("invalid accepted", changed)

    def _try_walks(self, ours: Matcher) -> None:
        rng = np.random.default_rng(self._rng.randrange(2**32))
        for _ in range(self._options["walks"]):
            self.counts["walks"] += 1
            text = self._walk.write(ours.fork(), rng)
            if text is None:
                self.counts["unfinished"] += 1
                continue
            try:
                value = json.loads(text)
            except ValueError:
                self.counts["no JSON"] += 1
                continue
            admitted = self._judges.admits(value)
            self.counts["undecided"] += admitted is None
            if admitted is False:
                self._note("invalid written", value)

    def _try_refused_bytes(self, ours: Matcher) -> None:
        """Looks for completions of what our mask refuses."""
        assert self._schema is not None
        exact = compile_ours(self._schema, load_tokens(BYTES))
        texts = [json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in self._values]
        with suppress(UnicodeEncodeError):
            self._texts += [text.encode() for text in texts]
        raws = [raw for raw in self._texts if len(raw) < _LONGEST]
        suspects: list[tuple[bytes, int, int]] = []
        others: list[tuple[bytes, int, int]] = []
        for raw in self._rng.sample(raws, min(_TEXTS, len(raws))):
            places = self._rng.sample(range(len(raw)), min(_PLACES, len(raw)))
            states = [exact.fork(), *(generator.fork() for generator in self._generators)]
            for place, byte in enumerate(raw):
                allowed, *by_others = (state.mask()[:256] for state in states)
                here = [*map(int, np.flatnonzero(by_others[0] & ~allowed))]
                suspects += [(raw, place, other) for other in here]
                if place in places:
                    self._compare_tokens(ours.fork(), states[0], raw[:place])
                    here = [*map(int, np.flatnonzero(by_others[-1] & ~allowed))]
                    others += [(raw, place, other) for other in here]
                    self.counts["refused bytes"] += len(here)
                states = [state for state in states if state.try_commit([byte])]
                if len(states) < 2 or not allowed[byte]:
                    break
        for tries in (suspects, others):
            for raw, place, byte in self._rng.sample(tries, min(_TRIES, len(tries))):
                self._complete(ours, raw, place, byte)

    def _compare_tokens(self, fork: Matcher, exact: Matcher, prefix: bytes) -> None:
        """Counts tokens that the mask of the model takes and that of bytes does not, or else. Of a
        text that is forced, llguidance's mask shows only the tokenizer's cut."""
        fork.try_commit(self._tokens.cut(prefix, self._rng))
        allowed = fork.mask()
        allowed[list(self._tokens.special)] = False
        few = np.flatnonzero(allowed).tolist()
        ordinary = self._tokens.ordinary
        chosen = self._rng.sample(few, min(_TOKENS, len(few)))
        for token in chosen + self._rng.sample(ordinary, _TOKENS):
            text = self._tokens.vocabulary.tokens[token]
            self.counts["tokens"] += 1
            is_exact = exact.count_accepted(list(text)) == len(text)
            is_taken = bool(allowed[token]) or fork.fork().try_commit([token])
            self.counts["tokens that differ"] += is_taken != is_exact
            self.counts[_FORCED] += is_taken > allowed[token]

    def _complete(self, ours: Matcher, raw: bytes, place: int, byte: int) -> None:
        """Looks for a valid completion of a text in which a byte was refused."""
        self.counts["bytes tried"] += 1
        prefix = raw[:place] + bytes([byte])
        is_decided = False
        for text in self._list_completions(prefix, raw[place:]):
            parsed = parse(text)
            if parsed is None:
                continue
            admitted = self._judges.admits(parsed[0])
            is_decided = is_decided or admitted is not None
            if admitted:
                self._note_completed(ours, parsed[0])
                return
        self.counts["none found" if is_decided else "bytes undecided"] += 1

    def _note_completed(self, ours: Matcher, value: Json) -> None:
        assert self._schema is not None
        meant = normalise_numbers(value, self._schema)
        if self._accepts(ours, json.dumps(meant, ensure_ascii=False)):
            self.counts["another spelling"] += 1
        else:
            self._note("completed", meant)

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
        """Yields the kinds of our errors, each with a small schema and value. An error is told if
        the report of the small schema tells it."""
        for kind, source, value in self.failures:
            small = make_smaller(source, value, partial(self._fails, kind))
            told = tells(lower(small[0], close=False, only_object=False), kind)
            yield f"{kind}, told" if told else kind, *small

    def _fails(self, kind: str, source: Json, value: Json) -> bool:
        schema = lower(source, close=False, only_object=False)
        if self._schema and schema.report.repaired and not self._schema.report.repaired:
            return False
        way = kind.removeprefix("refused ") if kind.startswith("refused") else "plain"
        is_invalid = "invalid" in kind
        meant = normalise_numbers(value, schema)
        if Judges(choose_document(source, schema)).admits(meant) != (not is_invalid):
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
    return number + 0.0  # a zero without its sign


def try_out(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the counts of a row, and the causes of its errors."""
    bench = Bench(row)
    bench.run()
    return {"counts": bench.counts, "causes": list(bench.make_smaller())}


class Tally:
    """What has come out so far."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.causes: dict[tuple[str, ...], list[str]] = {}

    def add(self, row: Mapping[str, Any], found: dict[str, Any] | Exception | None) -> None:
        """Counts a row."""
        if not isinstance(found, dict):
            state = "too slow" if found is None else "DEFECT"
            self.counts[state] += 1
            self.causes.setdefault((state,), []).append(f"{row['id']} {found!r}")
            return
        self.counts.update(found["counts"])
        for kind, schema, value in found["causes"]:
            case = f"{json.dumps(schema)} {json.dumps(value)} ({row['id']})"
            self.causes.setdefault((kind, *sorted(list_keywords(schema))), []).append(case)

    def show(self) -> Iterator[str]:
        """Yields the figures, line by line."""
        lines = ["schemas", "compiling", "too slow", "DEFECT"]
        for way in WAYS:
            lines += [f"written {way}", f"refused {way}", f"refused {way}, told"]
        lines += ["tokens", "tokens that differ", _FORCED, "refused bytes", *_COMPLETED]
        lines += ["changed", "invalid accepted", "invalid accepted, told", *_WRITTEN]
        for line in lines:
            yield f"{line:<40}{self.counts[line]:>9}"

    def show_causes(self) -> Iterator[str]:
        """Yields the causes, silent ones and the commonest first, each with its shortest case."""
        causes = sorted(self.causes.items(), key=lambda cause: -len(cause[1]))
        for key, cases in sorted(causes, key=lambda cause: cause[0][0].endswith("told")):
            yield f"{len(cases)} {key[0]} {' '.join(key[1:])}: {min(cases, key=len)}"


def main() -> int:
    """Prints the figures; 1 if one of our errors is silent."""
    parser = argparse.ArgumentParser(description="Measures how exact the masks of schemas are.")
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--rows", type=int, metavar="N", help="so many of the rows, at random")
    parser.add_argument("--model", default="demo", help="whose vocabulary is used")
    parser.add_argument("--walks", type=int, default=4, metavar="N", help="for each schema")
    parser.add_argument("--steps", type=int, default=24, metavar="N", help="completions to try")
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
    for _, cause in zip(range(options.causes), tally.show_causes(), strict=False):
        print(cause)
    silent = [kind for kind, *_ in tally.causes if not kind.endswith(("told", "too slow"))]
    return 1 if silent else 0


if __name__ == "__main__":
    raise SystemExit(main())
