"""Checks JSON Schemas without a model: what the mask enforces of each, and which instances it
accepts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from typing import Any, TypeAlias

from constrained.errors import GrammarError, RequestError
from constrained.inspect.replay.replay_context import byte_tokenizer, commit_accepted
from constrained.mask.matcher import Matcher
from constrained.prompt.tools.reports import STATES, explain_refusal, show_report
from grammars.errors import Error, SchemaError
from grammars.schema.json_values import Json
from grammars.schema.lowering.lower import lower
from grammars.schema.nodes import Schema, escape
from grammars.schema.numbers import normalise_numbers
from grammars.schema.subschemas import is_list, is_object
from grammars.turn_grammar.ir.grammar import GrammarBuilder
from grammars.turn_grammar.values import Values

_HINT = "Write it as a JSON Schema of draft 2020-12; `pointer` says where it is not valid"
Spell: TypeAlias = Callable[[Json], str]
"""Writes a string, a number, a boolean or null as JSON."""


def spell_plain(value: Json) -> str:
    """Writes a value like `json.dumps` with `ensure_ascii=False`."""
    return dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Place:
    """The place where a mask refuses a text."""

    pointer: str  # the JSON pointer of the value, or of the member whose key it is
    offset: int  # the number of accepted bytes
    found: str  # a few characters of the refused text; "" at the end of the text
    expected: str  # the allowed characters, as ranges


class InstanceTrial:
    """A compiled schema to try instances on; `error` is the last failure of its matcher.

    Raises:
        GrammarError: llguidance refuses its grammar.
        SchemaError: it cannot be written as a grammar.
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self.error: str | None = None
        self._vocabulary, self._tokenizer = byte_tokenizer(())
        builder = GrammarBuilder()
        start = Values(builder).value(schema.node, schema.definitions)
        self._grammar = builder.build(start).lark
        self._matcher = self._compile()

    def find_refusal(self, instance: Json, spell: Spell = spell_plain) -> Place | None:
        """Finds the place where the mask refuses an instance; None: it accepts the whole instance.

        Args:
            instance: keys are written in its order, numbers as the schema means them (2 where 2.0
                stands for an integer).
            spell: writes strings and numbers.
        """
        meant = normalise_numbers(instance, self.schema)
        pieces = list(_write_pieces(meant, "", spell))
        try:
            tokens = self._vocabulary.encode("".join(text for text, _ in pieces))
        except UnicodeEncodeError:
            return Place("", 0, "", "no lone surrogate, which no model can write")
        failure = ""
        for _ in range(2):  # forks share their states: those before may have used them up
            try:
                return self._locate(tokens, pieces)
            except GrammarError as e:
                failure = str(e)
                self._matcher = self._compile()
        self.error = failure
        return Place("", 0, "", f"nothing, because the matcher failed: {failure}")

    def _compile(self) -> Matcher:
        return Matcher.compile(self._tokenizer, self._grammar)

    def _locate(self, tokens: list[int], pieces: list[tuple[str, str]]) -> Place | None:
        matcher = self._matcher.fork()
        taken, is_complete = commit_accepted(matcher, tokens)
        if is_complete:
            return None
        text = "".join(text for text, _ in pieces).encode()
        return Place(
            pointer=_find_pointer(pieces, taken),
            offset=taken,
            found=text[taken : taken + 12].decode(errors="replace"),
            # In this vocabulary, each token is one byte.
            expected=_describe_bytes([byte for byte, ok in enumerate(matcher.mask()[:256]) if ok]),
        )


def _write_pieces(value: Json, pointer: str, spell: Spell) -> Iterator[tuple[str, str]]:
    """Yields the JSON text of a value in pieces, each with the JSON pointer that it belongs to: a
    key to its member, brackets and commas to the list or object."""
    if is_object(value):
        yield "{", pointer
        for index, (key, member) in enumerate(value.items()):
            if index:
                yield ", ", pointer
            inside = f"{pointer}/{escape(key)}"
            yield f"{spell(key)}: ", inside
            yield from _write_pieces(member, inside, spell)
        yield "}", pointer
    elif is_list(value):
        yield "[", pointer
        for index, item in enumerate(value):
            if index:
                yield ", ", pointer
            yield from _write_pieces(item, f"{pointer}/{index}", spell)
        yield "]", pointer
    else:
        yield spell(value), pointer


def _find_pointer(pieces: list[tuple[str, str]], offset: int) -> str:
    """Returns the pointer of the piece with the byte at that offset; at the end, of the last
    one."""
    end = 0
    for text, pointer in pieces:
        end += len(text.encode())
        if offset < end:
            return pointer
    return pieces[-1][1]


def _describe_bytes(allowed: list[int]) -> str:
    """Describes bytes: ASCII characters, neighbours as a range, all other bytes as one."""
    ranges: list[list[int]] = []
    for byte in allowed:
        if byte >= 0x80:
            continue
        if ranges and byte == ranges[-1][1] + 1:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    words: list[str] = []
    for first, last in ranges:
        words.append(ascii(chr(first)) if first == last else f"{chr(first)!a} to {chr(last)!a}")
    if any(byte >= 0x80 for byte in allowed):
        words.append("characters beyond ASCII")
    return ", ".join(words) or "the end"


def check_schemas(
    rows: Iterable[Mapping[str, Any] | Error], *, close: bool = False
) -> Iterator[dict[str, Any]]:
    """Checks schemas with the vocabulary of bytes.

    Args:
        rows: `{id, schema, tests: [{data, valid?}]}`; the schema may be true or false. An error
            takes the place of a row that could not be read.
        close: objects with declared properties and without `additionalProperties` allow no others.

    Yields:
        one answer for each row, in order: `{id, compiles, enforced, checked, repaired, narrowed,
            ignored, refused, results, error}`. The lists hold `{pointer, keyword, reason}`: what
            the mask enforces, what is checked after generation, what is read in another meaning,
            what the mask allows only in part, unknown keywords, and why there is no mask (with a
            `hint`). `results` has `{accepted, delivered}` for each test: `accepted`: the mask
            accepts the instance in the spelling of `json.dumps(data, ensure_ascii=False)`;
            `delivered`: it is also valid (formats asserted; the draft of `$schema`, else 2020-12).
            If the mask refuses it, `refused_at` is the place: `{pointer, offset, found, expected}`
            (JSON pointer, offset in bytes). A row that cannot be checked has the reason in `error`.
    """
    for row in rows:
        try:
            answer = _check(row, close)
        except Error as e:
            answer = {"error": str(e)}
        id = row.get("id") if isinstance(row, Mapping) else None
        yield {"id": id, **_EMPTY, **answer}


_EMPTY: Mapping[str, Any] = {
    "compiles": False,
    **{state: [] for state in STATES},
    "refused": [],
    "results": [],
    "error": None,
}


def _check(row: Mapping[str, Any] | Error, close: bool) -> dict[str, Any]:
    if isinstance(row, Error):
        raise row
    if "schema" not in row:
        raise RequestError("the row has no schema", where="/schema")
    instances = _read_instances(row)
    try:
        schema = lower(row["schema"], close=close, only_object=False)
        trial = InstanceTrial(schema)
    except (SchemaError, GrammarError) as e:
        nothing = [{"accepted": False, "delivered": False} for _ in instances]
        return {"refused": [explain_refusal(e, _HINT)], "results": nothing, "error": str(e)}
    results: list[dict[str, Any]] = []
    for instance in instances:
        if (place := trial.find_refusal(instance)) is not None:
            results.append({"accepted": False, "delivered": False, "refused_at": vars(place)})
        else:
            results.append({"accepted": True, "delivered": schema.admits(instance)})
    return {
        "compiles": True,
        **show_report(schema.report),
        "results": results,
        "error": trial.error,
    }


def _read_instances(row: Mapping[str, Any]) -> list[Any]:
    tests = row.get("tests")
    if tests is None:
        return []
    if not isinstance(tests, list):
        raise RequestError("tests must be a list", where="/tests")
    for i, test in enumerate(tests):
        if not isinstance(test, Mapping) or "data" not in test:
            raise RequestError("the test has no data", where=f"/tests/{i}/data")
    return [test["data"] for test in tests]
