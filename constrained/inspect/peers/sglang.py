# pyright: reportMissingImports=false
"""The parsers of SGLang, of tool calls and of reasoning, as its chat completions use them. Needs
only the Python files of SGLang and the light packages that they import."""

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from constrained.inspect.peers.inert import replace_by_inert, skip_inits, supply_inert
from constrained.inspect.peers.open_prompt import OpenPrompt, find_open_prompt
from constrained.inspect.peers.vocabulary import StubTokenizer, find_special
from grammars.suite.answers import write_answer, write_deltas

_HEAVY = ("IPython interegular orjson psutil pybase64 sgl_kernel torch triton xgrammar zmq").split()
_ENGINE = ("sglang.srt.managers", "sglang.srt.server_args", "sglang.srt.layers")


class SglangParser:
    """A parser of tool calls, one of reasoning, or both, as the server composes them; its name is
    that of the first; then, after a plus, that of reasoning."""

    def __init__(self, name: str):
        if "sglang" not in sys.modules:
            skip_inits("sglang", "sglang.srt", "sglang.srt.entrypoints")
            skip_inits("sglang.srt.entrypoints.openai")
            supply_inert(_HEAVY)
            replace_by_inert(_ENGINE)
        from sglang.srt.entrypoints.openai.protocol import Tool
        from sglang.srt.function_call.function_call_parser import FunctionCallParser
        from sglang.srt.parser.reasoning_parser import ReasoningParser

        self._name, _, self._reasoning = name.partition("+")
        self._tool, self._calls, self._thoughts = Tool, FunctionCallParser, ReasoningParser
        self._vocabulary = StubTokenizer([])
        self._prompt = OpenPrompt()

    def greet(self, markers: Sequence[str]) -> Sequence[str]:
        self._vocabulary = StubTokenizer(find_special(markers))
        if not self._reasoning:
            return ("stream", "content", "types")
        detector = self._make_thoughts(stream=False).detector
        self._prompt = find_open_prompt(
            lambda text: self._make_thoughts(stream=False).parse_non_stream(text)[0],
            detector.think_start_token,
            detector.think_end_token,
            markers=markers,
        )
        return ("stream", "content", "reasoning", "types")

    def _make_thoughts(self, *, stream: bool) -> Any:
        return self._thoughts(
            self._reasoning, stream, tokenizer=self._vocabulary, tool_call_parser_active=True
        )

    def _make_calls(self, tools: list[Any]) -> Any:
        made = [self._tool(**tool) for tool in tools]
        return self._calls(made, self._name, tokenizer=self._vocabulary)

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        reasoning: Any = None
        content: Any = self._prompt.begin(text)
        if self._reasoning:
            thoughts = self._make_thoughts(stream=False)
            reasoning, content = thoughts.parse_non_stream(content)
        parser = self._make_calls(tools)
        calls: list[Any] = []
        # Its server asks this first.
        if tools and content and parser.has_tool_call(content):
            content, calls = parser.parse_non_stream(content)
        return write_answer({"content": content, "reasoning": reasoning, "calls": calls})

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        thoughts = self._make_thoughts(stream=True) if self._reasoning else None
        parser = self._make_calls(tools) if tools else None
        moved = self._vocabulary.move_cuts(self._prompt.fit(chunks))
        for i, chunk in enumerate(moved, 1):
            is_last = i == len(moved)
            content: Any = chunk
            if thoughts is not None:
                reasoning, content = thoughts.parse_stream_chunk(chunk)
                if is_last:
                    last, rest = thoughts.parse_stream_end()
                    reasoning = (reasoning or "") + (last or "")
                    content = (content or "") + (rest or "")
                yield {"reasoning": reasoning}
            if parser is None:
                yield {"content": content}
                continue
            if content:
                yield from _write(*parser.parse_stream_chunk(content))
            if is_last:
                yield from _write(*parser.parse_stream_end())
                yield from _write_unstreamed(parser.detector)


def _write(content: str, calls: list[Any]) -> Iterator[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    for call in calls:
        delta = {"index": call.tool_index, "name": call.name, "arguments": call.parameters}
        shown.append(delta)
    yield from write_deltas({"content": content, "calls": shown})


def _write_unstreamed(detector: Any) -> Iterator[dict[str, Any]]:
    """Yields the arguments of the last call that its server sends when the generation has ended."""
    calls = getattr(detector, "prev_tool_call_arr", None) or []
    streamed = getattr(detector, "streamed_args_for_tool", None) or []
    if not 0 < len(calls) <= len(streamed):
        return
    whole = calls[-1].get("arguments", {})
    if not isinstance(whole, str):
        whole = json.dumps(whole, ensure_ascii=False)
    sent = streamed[len(calls) - 1]
    if whole.startswith(sent) and whole != sent:
        yield {"calls": [{"index": len(calls) - 1, "arguments": whole[len(sent) :]}]}
