# pyright: reportMissingImports=false
"""The parsers of other projects, each as its own server calls it. Needs only their Python files and
the light packages that these import: no PyTorch and no engine."""

import json
import sys
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from constrained.inspect.peers.stand_ins import (
    THINKING,
    HarmonyTokenizer,
    OpenPrompt,
    StubTokenizer,
    find_open_prompt,
    find_special,
    replace_by_inert,
    skip_inits,
    supply_inert,
)
from grammars.suite.answers import write_answer, write_deltas

_VLLM_HEAVY = (
    "aiohttp anthropic av blake3 cbor2 cloudpickle compressed_tensors cv2 diskcache einops "
    "flashinfer gguf ijson librosa mcp numba outlines_core PIL prometheus_client psutil pybase64 "
    "ray sentencepiece setproctitle soundfile starlette tiktoken tilelang torch triton uvicorn "
    "watchfiles xgrammar xxhash zmq"
).split()
"""Packages that its modules import, and its parsers do not use."""
_VLLM_ENGINE = (
    "vllm.compilation vllm.config vllm.distributed vllm.engine vllm.inputs vllm.lora "
    "vllm.model_executor vllm.multimodal vllm.outputs vllm.platforms vllm.transformers_utils "
    "vllm.utils.torch_utils vllm.v1"
).split()
_HARMONY = "openai"
"""The parser of gpt-oss."""
_USER = {"role": "user", "content": "Hi"}
_TRIES = 8


class VllmParser:
    """A parser of tool calls, one of reasoning, or both, as the server composes them; its name is
    that of the first; then, after a plus, that of reasoning."""

    def __init__(self, name: str):
        if "vllm" not in sys.modules:
            skip_inits("vllm")
            supply_inert(_VLLM_HEAVY)
            replace_by_inert(_VLLM_ENGINE)
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.parser.parser_manager import ParserManager

        tools, _, reasoning = name.partition("+")
        self._request: Any = ChatCompletionRequest
        self._parser: Any = ParserManager.get_parser(
            tool_parser_name=tools or None,
            reasoning_parser_name=reasoning or None,
            enable_auto_tools=bool(tools),
            is_harmony=tools == _HARMONY,
        )
        self._reasons = bool(reasoning)
        self._tokenizer = HarmonyTokenizer if tools == _HARMONY else StubTokenizer
        self._vocabulary = self._tokenizer([])
        self._prompt = OpenPrompt()

    def greet(self, markers: Sequence[str]) -> Sequence[str]:
        """Returns its abilities; `markers` become special tokens, and what the parser needs."""
        self._vocabulary = self._tokenizer(find_special(markers))
        for _ in range(_TRIES):
            try:
                self._make([])
                break
            except Exception:  # it looks for a token of its own models
                known = [*self._vocabulary.tokens, *self._vocabulary.missing]
                self._vocabulary = self._tokenizer([*dict.fromkeys(known)])
        self._make([])
        if not self._reasons:
            return ("stream", "content", "types")
        self._prompt = self._find_prompt(markers)
        return ("stream", "content", "reasoning", "types")

    def _find_prompt(self, markers: Sequence[str]) -> OpenPrompt:
        reader = self._make([])[0]._reasoning_parser
        opener, closer = reader.reasoning_start_str, reader.reasoning_end_str
        if not opener or not closer:  # an older form of these parsers
            opener = getattr(reader, "start_token", None)
            closer = getattr(reader, "end_token", None)
        if not opener or not closer:
            return OpenPrompt()

        def read(text: str) -> str | None:
            parser, request = self._make([])
            return parser.parse(text, request)[0]

        return find_open_prompt(read, opener, closer, markers=markers)

    def _make(self, tools: list[Any]) -> tuple[Any, Any]:
        request = self._request(
            messages=[_USER], model="m", tools=tools or None, tool_choice="auto" if tools else None
        )
        settings = {"chat_template_kwargs": THINKING} if self._reasons else {}
        return self._parser(self._vocabulary, request.tools, **settings), request

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        parser, request = self._make(tools)
        written = self._prompt.begin(text)
        if hasattr(parser, "set_prompt_token_ids"):
            parser.set_prompt_token_ids(self._vocabulary.encode(self._prompt.opener))
        ids = [*self._vocabulary.encode(written), *self._vocabulary.end]
        reasoning, content, calls = parser.parse(
            written, request, enable_auto_tools=True, model_output_token_ids=ids
        )
        return write_answer({"reasoning": reasoning, "content": content, "calls": calls})

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        parser, request = self._make(tools)
        moved = self._vocabulary.move_cuts(self._prompt.fit(chunks))
        prompt = self._vocabulary.encode(self._prompt.opener)
        deltas = [(chunk, self._vocabulary.encode(chunk)) for chunk in moved]
        # The token that ends the turn comes last, without text.
        for chunk, ids in (*deltas, ("", self._vocabulary.end)):
            delta = parser.parse_delta(
                chunk, ids, request, prompt_token_ids=prompt, finished=not chunk
            )
            yield from write_deltas(delta)


_SGLANG_HEAVY = (
    "IPython interegular orjson psutil pybase64 sgl_kernel torch triton xgrammar zmq"
).split()
_SGLANG_ENGINE = ("sglang.srt.managers", "sglang.srt.server_args", "sglang.srt.layers")


class SglangParser:
    """A parser of tool calls, one of reasoning, or both, as the server composes them; its name is
    that of the first; then, after a plus, that of reasoning."""

    def __init__(self, name: str):
        if "sglang" not in sys.modules:
            skip_inits("sglang", "sglang.srt", "sglang.srt.entrypoints")
            skip_inits("sglang.srt.entrypoints.openai")
            supply_inert(_SGLANG_HEAVY)
            replace_by_inert(_SGLANG_ENGINE)
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
                yield from _write_sglang(*parser.parse_stream_chunk(content))
            if is_last:
                yield from _write_sglang(*parser.parse_stream_end())
                yield from _write_unsent(parser.detector)


def _write_sglang(content: str, calls: list[Any]) -> Iterator[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    for call in calls:
        delta = {"index": call.tool_index, "name": call.name, "arguments": call.parameters}
        shown.append(delta)
    yield from write_deltas({"content": content, "calls": shown})


def _write_unsent(detector: Any) -> Iterator[dict[str, Any]]:
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


_TRANSFORMERS_HEAVY = ("fastapi", "rich", "starlette", "torch", "typer", "uvicorn")


class TransformersParser:
    """A `ResponseParser` of a type of model."""

    def __init__(self, name: str):
        supply_inert(_TRANSFORMERS_HEAVY)
        from transformers.cli.serving import utils

        self._utils: Any = utils
        self._model = SimpleNamespace(config=SimpleNamespace(model_type=name))
        template = utils.get_response_template(SimpleNamespace(), self._model)
        if template is None:
            raise LookupError(f"Transformers: no template for the type {name!r}")
        anchor = template["start_anchor"]
        prompt = anchor if isinstance(anchor, str) else anchor[0]
        self._tokenizer = SimpleNamespace(decode=lambda _: prompt)

    def greet(self, _: Sequence[str]) -> Sequence[str]:
        return ("stream", "content", "reasoning", "types")

    def _make(self, tools: list[Any]) -> Any:
        return self._utils.build_response_parser(self._tokenizer, self._model, [], tools=tools)

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        parser = self._make(tools)
        parser.feed(text)
        message, _ = parser.finalize()
        return write_answer(
            {
                "content": message.get("content", ""),
                "reasoning": message.get("reasoning_content"),
                "calls": message.get("tool_calls"),
            }
        )

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        parser = self._make(tools)
        steps = [parser.initial_events, *map(parser.feed, chunks)]
        _, last = parser.finalize()
        count = 0
        for events in (*steps, last):
            for item in self._utils.response_events_to_chunks(events):
                if isinstance(item, self._utils.ToolCall):
                    call = {"index": count, "name": item.name, "arguments": item.arguments}
                    count += 1
                    yield {"calls": [call]}
                elif isinstance(item, self._utils.ReasoningText):
                    yield {"reasoning": str(item)}
                else:
                    yield {"content": item}


_WHOLE = ("content", "types")


class LmdeployParser:
    """LMDeploy: `ResponseParser`."""

    def __init__(self, name: str):
        skip_inits("lmdeploy", "lmdeploy.serve")
        from lmdeploy.serve.openai.protocol import ChatCompletionRequest
        from lmdeploy.serve.parsers import ResponseParserManager

        self._request = ChatCompletionRequest
        self._parser: Any = ResponseParserManager.get("default")
        self._parser.set_parsers(tool_parser_name=name)
        self._vocabulary = StubTokenizer([])

    def greet(self, markers: Sequence[str]) -> Sequence[str]:
        self._vocabulary = StubTokenizer(find_special(markers))
        return ("stream", *_WHOLE)

    def _make(self, tools: list[Any]) -> Any:
        user = {"role": "user", "content": "Hi"}
        return self._parser(self._request(model="m", messages=[user], tools=tools or None))

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        ids = self._vocabulary.encode(text)
        content, calls, _ = self._make(tools).parse_complete(text, ids)
        return write_answer({"content": content, "calls": calls})

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        parser = self._make(tools)
        moved = self._vocabulary.move_cuts(chunks)
        for i, chunk in enumerate(moved, 1):
            ids = self._vocabulary.encode(chunk)
            for delta, _ in parser.stream_chunk(chunk, ids, final=i == len(moved)):
                yield from write_deltas(delta)


class _Whole:
    """A parser whose streams are put together in its server, out of reach, or are no deltas."""

    def greet(self, _: Sequence[str]) -> Sequence[str]:
        return _WHOLE

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Is never called, since it does not claim to stream."""
        raise NotImplementedError


class VllmMlxParser(_Whole):
    """vllm-mlx: `ToolParser.extract_tool_calls`."""

    def __init__(self, name: str):
        skip_inits("vllm_mlx")
        from vllm_mlx.tool_parsers import ToolParserManager

        self._parser = ToolParserManager.get_tool_parser(name)

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        found = self._parser(None).extract_tool_calls(text, {"tools": tools})
        return write_answer({"content": found.content, "calls": found.tool_calls})


class XinferenceParser(_Whole):
    """Xinference: `ToolParser.extract_tool_calls`."""

    def __init__(self, name: str):
        skip_inits("xinference", "xinference.model", "xinference.model.llm")
        from xinference.model.llm.tool_parsers import TOOL_PARSERS
        from xinference.model.llm.tool_parsers.abstract_tool_parser import request_tools_var

        self._parser = TOOL_PARSERS[name]
        self._tools = request_tools_var

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        self._tools.set(tools)
        found = self._parser().extract_tool_calls(text)
        content = "".join(part for part, name, _ in found if name is None and part)
        calls = [(name, arguments) for _, name, arguments in found if name is not None]
        return write_answer({"content": content, "calls": calls})


class QwenAgentParser(_Whole):
    """Qwen-Agent: the messages that its models return."""

    def __init__(self, name: str):
        skip_inits("qwen_agent", "qwen_agent.llm")
        from qwen_agent.llm.fncall_prompts.nous_fncall_prompt import NousFnCallPrompt
        from qwen_agent.llm.schema import ContentItem, Message

        if name != "nous":
            raise LookupError(f"Qwen-Agent: no parser {name!r}; known: nous")
        self._parser: Any = NousFnCallPrompt()
        self._message, self._item = Message, ContentItem

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        message = self._message(role="assistant", content=[self._item(text=text)])
        found = self._parser.postprocess_fncall_messages([message])
        content = ""
        for one in found:
            for item in one.content or ():
                content += item.text or ""
        calls = [one.function_call for one in found if one.function_call]
        return write_answer({"content": content, "calls": calls})
