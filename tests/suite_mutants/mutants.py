"""The mutants: parsers with one fault each, and a text that shows it.

None of them was written with the checks of the suite in mind: the faults are those that users of
inference servers have reported, and those that are easily made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grammars.schema.lowering.lower import lower
from grammars.turn import Tool
from grammars.wire.format import Format
from grammars.wire.formats import HERMES, MISTRAL, MISTRAL_NEMO, QWEN3_CODER
from tests.suite_mutants import stream_mutants as stream
from tests.suite_mutants import whole_mutants as whole
from tests.suite_mutants.hermes_parsers import HermesStream, HermesText
from tests.suite_mutants.mistral_parsers import MistralStream, NemoText
from tests.suite_mutants.qwen_parser import QwenText
from tests.suite_mutants.readings import Parser, Summary
from tests.templates import hermes_call

FORMATS: dict[type[Parser], Format] = {
    HermesText: HERMES,
    HermesStream: HERMES,
    QwenText: QWEN3_CODER,
    NemoText: MISTRAL_NEMO,
    MistralStream: MISTRAL,
}
"""The correct parsers, and what they read."""

TYPES = {
    "a": {"type": "string"},
    "name": {"type": "string"},
    "n": {"type": "integer"},
    "x": {"type": "number"},
    "b": {"type": "boolean"},
    "u": {"type": ["string", "null"]},
    "l": {"type": "array"},
    "o": {"type": "object"},
}
TOOLS = [
    Tool("f", lower({"type": "object", "properties": TYPES})),
    Tool("a-b.c", lower({"type": "object", "properties": {}})),
]


@dataclass(frozen=True)
class Mutant:
    """A parser with one fault.

    Args:
        make: its class; the parent is a correct parser.
        chunks: an example that shows it: the text of a turn, for a stream cut as the fault needs.
        expected: what the correct parser reads.
        wrong: what this one reads; the name of an error that it raises.
    """

    make: type[Parser]
    chunks: Sequence[str]
    expected: Summary
    wrong: Summary | str

    @property
    def name(self) -> str:
        """Its name, unique among the mutants."""
        return self.make.__name__

    @property
    def fault(self) -> str:
        """What is wrong, in one sentence."""
        return " ".join((self.make.__doc__ or "").split())

    @property
    def base(self) -> type[Parser]:
        """The correct parser."""
        return next(parent for parent in self.make.__mro__ if parent in FORMATS)

    @property
    def format(self) -> Format:
        """The format that both read."""
        return FORMATS[self.base]

    @property
    def reads_damage(self) -> bool:
        """False if the parser emits arguments as they are written: it cannot take back those of a
        call that turns out to be cut off or damaged."""
        return self.base is not MistralStream


def called(*arguments: str, content: str = "", reasoning: str = "", order: str = "") -> Summary:
    """A turn with a call of `f` for each of the arguments."""
    calls = tuple(("f", written) for written in arguments)
    return Summary(content, reasoning, calls, order)


def call(arguments: str, name: str = "f") -> str:
    """A call in Hermes JSON."""
    return hermes_call(name, arguments)


def qwen_call(key: str, value: str) -> str:
    """A call of `f` with one argument in Qwen3-Coder's XML."""
    parameter = f"<parameter={key}>\n{value}\n</parameter>"
    return f"<tool_call>\n<function=f>\n{parameter}\n</function>\n</tool_call>"


def nemo_calls(*arguments: str) -> str:
    """Calls of `f` as Mistral Nemo writes them."""
    items = [f'{{"name": "f", "arguments": {written}, "id": "abcdefghi"}}' for written in arguments]
    return f"[TOOL_CALLS][{', '.join(items)}]"


N1, N2 = '{"n": 1}', '{"n": 2}'
PING = ("ping", "{}")
MARKED = "[TOOL_CALLS]f[ARGS]"

MUTANTS = (
    # Where a call ends
    Mutant(
        make=whole.TagEndsCall,
        chunks=[call('{"a": "</tool_call>"}')],
        expected=called('{"a": "</tool_call>"}'),
        wrong=Summary(call('{"a": "</tool_call>"}')),
    ),
    Mutant(
        make=whole.FirstBraceEndsArguments,
        chunks=[call('{"o": {"k": 1}, "n": 2}')],
        expected=called('{"o": {"k": 1}, "n": 2}'),
        wrong=Summary(call('{"o": {"k": 1}, "n": 2}')),
    ),
    Mutant(
        make=whole.FirstBracketEndsList,
        chunks=[nemo_calls('{"l": [1, 2]}')],
        expected=called('{"l": [1, 2]}'),
        wrong=Summary(nemo_calls('{"l": [1, 2]}')),
    ),
    Mutant(
        make=whole.TagEndsValue,
        chunks=[qwen_call("a", "x</parameter>y")],
        expected=called('{"a": "x</parameter>y"}'),
        wrong=Summary(qwen_call("a", "x</parameter>y")),
    ),
    Mutant(
        make=whole.EndsAtEndMarker,
        chunks=[call('{"a": "<|im_end|>"}')],
        expected=called('{"a": "<|im_end|>"}'),
        wrong=Summary(call('{"a": "<|im_end|>"}').partition("<|im_end|>")[0]),
    ),
    Mutant(
        make=stream.CountsBracesInStrings,
        chunks=[MARKED + '{"a": "}", "n": 1}'],
        expected=called('{"a": "}", "n": 1}', order="call"),
        wrong=called('{"a": "}', content='", "n": 1}', order="call content"),
    ),
    # Which calls there are
    Mutant(
        make=whole.DropsEqualCalls,
        chunks=[call(N1), "\n", call(N1)],
        expected=called(N1, N1),
        wrong=called(N1),
    ),
    Mutant(
        make=whole.ReadsOnlyFirstCall,
        chunks=[nemo_calls(N1, N2)],
        expected=called(N1, N2),
        wrong=called(N1),
    ),
    Mutant(
        make=whole.DropsCallsWithoutArguments,
        chunks=[call("{}")],
        expected=called("{}"),
        wrong=called(),
    ),
    Mutant(
        make=whole.DropsCallBeforeText,
        chunks=[call(N1), "\nBye"],
        expected=called(N1, content="\nBye"),
        wrong=Summary(call(N1) + "\nBye"),
    ),
    Mutant(
        make=whole.DropsUnknownTools,
        chunks=[call("{}", name="ping")],
        expected=Summary(calls=(PING,)),
        wrong=Summary(),
    ),
    Mutant(
        make=whole.CallsInThoughts,
        chunks=[f"<think>\nOr {call(N1)}?\n</think>\n\nHi"],
        expected=Summary("Hi", f"Or {call(N1)}?"),
        wrong=called(N1, content="Hi", reasoning="Or ?"),
    ),
    Mutant(
        make=whole.CompletesCutCalls,
        chunks=['<tool_call>\n{"name": "f", "arguments": {"a": "x'],
        expected=Summary('<tool_call>\n{"name": "f", "arguments": {"a": "x'),
        wrong=called('{"a": "x"}'),
    ),
    Mutant(
        make=whole.NormalizesNames,
        chunks=[call("{}", name="a-b.c")],
        expected=Summary(calls=(("a-b.c", "{}"),)),
        wrong=Summary(calls=(("a_b_c", "{}"),)),
    ),
    Mutant(
        make=whole.TakesNameOfArguments,
        chunks=[call('{"name": "x"}')],
        expected=called('{"name": "x"}'),
        wrong=Summary(calls=(("x", '{"name": "x"}'),)),
    ),
    Mutant(
        make=whole.CrashesOnBrokenCalls,
        chunks=["<tool_call>\noops\n</tool_call>"],
        expected=Summary("<tool_call>\noops\n</tool_call>"),
        wrong="JSONDecodeError",
    ),
    # Values
    Mutant(
        make=whole.KeepsEscapedNewlines,
        chunks=[call(r'{"a": "x\ny"}')],
        expected=called(r'{"a": "x\ny"}'),
        wrong=called(r'{"a": "x\\ny"}'),
    ),
    Mutant(
        make=whole.UnescapesTwice,
        chunks=[call(r'{"a": "C:\\new"}')],
        expected=called(r'{"a": "C:\\new"}'),
        wrong=called(r'{"a": "C:\new"}'),
    ),
    Mutant(
        make=whole.KeepsUnicodeEscapes,
        chunks=[call(r'{"a": "\u00e9"}')],
        expected=called('{"a": "é"}'),
        wrong=called(r'{"a": "\\u00e9"}'),
    ),
    Mutant(
        make=whole.EncodesArgumentsTwice,
        chunks=[call(N1)],
        expected=called(N1),
        wrong=called(r'"{\"n\": 1}"'),
    ),
    Mutant(
        make=whole.ReadsTextAsNumbers,
        chunks=[call('{"a": "007"}')],
        expected=called('{"a": "007"}'),
        wrong=called('{"a": 7}'),
    ),
    Mutant(
        make=whole.GuessesTypes,
        chunks=[qwen_call("a", "1e5")],
        expected=called('{"a": "1e5"}'),
        wrong=called('{"a": 100000.0}'),
    ),
    Mutant(
        make=whole.LeavesNumbersText,
        chunks=[qwen_call("n", "5")],
        expected=called('{"n": 5}'),
        wrong=called('{"n": "5"}'),
    ),
    Mutant(
        make=whole.RoundsBigIntegers,
        chunks=[call('{"n": 9007199254740993}')],
        expected=called('{"n": 9007199254740993}'),
        wrong=called('{"n": 9007199254740992}'),
    ),
    Mutant(
        make=whole.DropsNulls,
        chunks=[call('{"u": null}')],
        expected=called('{"u": null}'),
        wrong=called("{}"),
    ),
    Mutant(
        make=whole.ReadsEmptyTextAsNull,
        chunks=[call('{"a": ""}')],
        expected=called('{"a": ""}'),
        wrong=called('{"a": null}'),
    ),
    Mutant(
        make=whole.ReadsFalseAsTrue,
        chunks=[qwen_call("b", "False")],
        expected=called('{"b": false}'),
        wrong=called('{"b": true}'),
    ),
    Mutant(
        make=whole.ReadsOnlyJsonWords,
        chunks=[qwen_call("b", "True")],
        expected=called('{"b": true}'),
        wrong=called('{"b": "True"}'),
    ),
    Mutant(
        make=whole.WritesNestedValuesAsText,
        chunks=[call('{"o": {"k": 1}}')],
        expected=called('{"o": {"k": 1}}'),
        wrong=called(r'{"o": "{\"k\": 1}"}'),
    ),
    Mutant(
        make=whole.StripsValues,
        chunks=[qwen_call("a", "    return 1\n")],
        expected=called(r'{"a": "    return 1\n"}'),
        wrong=called('{"a": "return 1"}'),
    ),
    Mutant(
        make=whole.UnescapesHtml,
        chunks=[qwen_call("a", "&lt;")],
        expected=called('{"a": "&lt;"}'),
        wrong=called('{"a": "<"}'),
    ),
    Mutant(
        make=whole.SplitsAtLineSeparators,
        chunks=[call('{"a": "x\u2028y"}')],
        expected=called('{"a": "x\u2028y"}'),
        wrong=called('{"a": "xy"}'),
    ),
    Mutant(
        make=whole.ReplacesSingleQuotes,
        chunks=[nemo_calls('{"a": "it\'s"}')],
        expected=called('{"a": "it\'s"}'),
        wrong=Summary(nemo_calls('{"a": "it\'s"}')),
    ),
    # Content and reasoning
    Mutant(
        make=whole.LosesTextAfterCall,
        chunks=[call(N1), "\nBye"],
        expected=called(N1, content="\nBye"),
        wrong=called(N1),
    ),
    Mutant(
        make=whole.LosesTextBetweenCalls,
        chunks=[call(N1), "\nAnd\n", call(N2)],
        expected=called(N1, N2, content="\nAnd"),
        wrong=called(N1, N2),
    ),
    Mutant(
        make=whole.LosesLeadingLineBreak,
        chunks=["\nHi"],
        expected=Summary("\nHi"),
        wrong=Summary("Hi"),
    ),
    Mutant(
        make=whole.StripsThoughts,
        chunks=["<think>\n  Hm \n</think>\n\nHi"],
        expected=Summary("Hi", "  Hm "),
        wrong=Summary("Hi", "Hm"),
    ),
    Mutant(
        make=whole.ThinksWithoutOpener,
        chunks=[call('{"a": "x</think>y"}')],
        expected=called('{"a": "x</think>y"}'),
        wrong=Summary(
            reasoning='<tool_call>\n{"name": "f", "arguments": {"a": "x',
            content='y"}}\n</tool_call>',
        ),
    ),
    # Streams
    Mutant(
        make=stream.LeaksCutOpener,
        chunks=["Hi <tool", call(N1).removeprefix("<tool")],
        expected=called(N1, content="Hi ", order="content call"),
        wrong=Summary("Hi " + call(N1), order="content"),
    ),
    Mutant(
        make=stream.LosesEnd,
        chunks=["x <"],
        expected=Summary("x <", order="content"),
        wrong=Summary("x ", order="content"),
    ),
    Mutant(
        make=stream.LosesTextAfterBoundary,
        chunks=[call(N1) + "\n" + call(N2)],
        expected=called(N1, N2, order="call"),
        wrong=called(N1, order="call"),
    ),
    Mutant(
        make=stream.LosesThoughtBeforeEnd,
        chunks=["<think>\nI", " see.\n</think>\n\nHi"],
        expected=Summary("Hi", "I see.", order="reasoning content"),
        wrong=Summary("Hi", "I", order="reasoning content"),
    ),
    Mutant(
        make=stream.NumbersCallsByTool,
        chunks=[call(N1) + "\n" + call(N2)],
        expected=called(N1, N2, order="call"),
        wrong=Summary(calls=(("ff", N1 + N2),), order="call"),
    ),
    Mutant(
        make=stream.RestartsIndex,
        chunks=[call(N1) + "\nAnd\n" + call(N2)],
        expected=called(N1, N2, content="\nAnd", order="call content call"),
        wrong=Summary("\nAnd", calls=(("ff", N1 + N2),), order="call content call"),
    ),
    Mutant(
        make=stream.AppendsToFirstCall,
        chunks=[call(N1) + "\n" + call(N2)],
        expected=called(N1, N2, order="call"),
        wrong=called(N1 + N2, "", order="call"),
    ),
    Mutant(
        make=stream.RepeatsArguments,
        chunks=[call(N1)],
        expected=called(N1, order="call"),
        wrong=called(N1 + N1, order="call"),
    ),
    Mutant(
        make=stream.RepeatsEarlierPieces,
        chunks=[MARKED + '{"n":', " 1}"],
        expected=called(N1, order="call"),
        wrong=called('{"n":{"n": 1}', order="call"),
    ),
    Mutant(
        make=stream.OmitsEmptyArguments,
        chunks=[call("{}")],
        expected=called("{}", order="call"),
        wrong=called("", order="call"),
    ),
    Mutant(
        make=stream.EmitsCallsFirst,
        chunks=["Hi\n" + call(N1)],
        expected=called(N1, content="Hi", order="content call"),
        wrong=called(N1, content="Hi", order="call content"),
    ),
    Mutant(
        make=stream.SplitsCharacters,
        chunks=["日本語"],
        expected=Summary("日本語", order="content"),
        wrong=Summary("日本\ufffd\ufffd", order="content"),
    ),
    Mutant(
        make=stream.EndsAtEmptyChunk,
        chunks=["<tool", "", call(N1).removeprefix("<tool")],
        expected=called(N1, order="call"),
        wrong=Summary(call(N1), order="content"),
    ),
    Mutant(
        make=stream.LosesLastBrace,
        chunks=[MARKED + '{"n": 1', "}"],
        expected=called(N1, order="call"),
        wrong=called('{"n": 1', order="call"),
    ),
    Mutant(
        make=stream.TakesMarkerAsArguments,
        chunks=["[TOOL_CALLS]f", "[ARGS]", N1],
        expected=called(N1, order="call"),
        wrong=called("[ARGS]", content=N1, order="call content"),
    ),
    Mutant(
        make=stream.ForgetsEscapeAtCut,
        chunks=[MARKED + '{"a": "\\', '"}"}'],
        expected=called('{"a": "\\"}"}', order="call"),
        wrong=called('{"a": "\\"}', content='"}', order="call content"),
    ),
)
