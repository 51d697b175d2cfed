# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Speaks the protocol of `constrained suite` for a parser of another project.

    python benchmarks/foreign/adapter.py PROJECT PARSER

It calls what the server of that project calls: for a whole reply, and for each chunk of a stream.
Their packages import PyTorch, CUDA and their engines at the top; where a package has nothing of the
parser in it, an empty one takes its place, so that only the parsers and what they need are loaded.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import distribution
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

TAGS = ("<tool_call>", "</tool_call>", "<think>", "</think>", "<|python_tag|>")
"""Special tokens of the models that write these formats: no chunk ends inside of one."""


USER = {"role": "user", "content": "Hi"}
FIRST = 1000
"""The id of the first character that is no tag."""


class Adapter(Protocol):
    """A parser of another project."""

    @property
    def can(self) -> Sequence[str]:
        """What it says that it can."""
        ...

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        ...

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields the deltas for chunks."""
        ...


def skip(package: str, *names: str) -> None:
    """Puts empty packages in the place of these, whose modules can be imported all the same."""
    for name in names:
        module = ModuleType(name)
        module.__path__ = [str(distribution(package).locate_file(name.replace(".", "/")))]
        sys.modules[name] = module


class Tokenizer:
    """A tokenizer with a token for each tag, and one for each other character."""

    def get_vocab(self) -> dict[str, int]:
        """Returns the ids of the tags."""
        return {tag: i for i, tag in enumerate(TAGS, 1)}

    def encode(self, text: str, **_: Any) -> list[int]:
        """Returns the ids of a text."""
        ids: list[int] = []
        while text:
            tag = next((tag for tag in TAGS if text.startswith(tag)), text[0])
            ids.append(self.get_vocab().get(tag, FIRST + ord(tag[0])))
            text = text[len(tag) :]
        return ids

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        """Returns the text of ids."""
        return "".join(chr(id - FIRST) if id >= FIRST else TAGS[id - 1] for id in ids)


def move_cuts(chunks: list[str]) -> list[str]:
    """Returns the chunks as whole tokens: none is empty, and none ends inside of a tag."""
    text = "".join(chunks)
    moved: list[str] = []
    start = end = 0
    for chunk in chunks:
        end += len(chunk)
        cut = max(start, end)
        for tag in TAGS:
            found = text.rfind(tag, 0, cut + len(tag) - 1)
            if 0 <= found < cut < found + len(tag):
                cut = found + len(tag)
        if cut > start:
            moved.append(text[start:cut])
        start = cut
    return moved


class Vllm:
    """vLLM: `DelegatingParser`, as its chat completions use it."""

    can = ("stream", "content", "types")

    def __init__(self, name: str):
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.parser.parser_manager import ParserManager

        self._request = ChatCompletionRequest
        self._parser: Any = ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True)

    def _make(self, tools: list[Any]) -> tuple[Any, Any]:
        request = self._request(messages=[USER], model="m", tools=tools, tool_choice="auto")
        return self._parser(Tokenizer(), request.tools), request

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        parser, request = self._make(tools)
        ids = Tokenizer().encode(text)
        _, content, calls = parser.parse(
            text, request, enable_auto_tools=True, model_output_token_ids=ids
        )
        return answer(content, [(call.name, call.arguments) for call in calls or ()])

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields the deltas for chunks."""
        parser, request = self._make(tools)
        for i, chunk in enumerate(chunks, 1):
            finished = i == len(chunks)
            ids = Tokenizer().encode(chunk)
            delta = parser.parse_delta(chunk, ids, request, prompt_token_ids=[], finished=finished)
            if delta is not None:
                yield openai_delta(delta)


class Sglang:
    """SGLang: `FunctionCallParser`, as its chat completions use it."""

    can = ("stream", "content", "types")

    def __init__(self, name: str):
        skip("sglang", "sglang", "sglang.srt", "sglang.srt.entrypoints")
        skip("sglang", "sglang.srt.entrypoints.openai")
        from sglang.srt.entrypoints.openai.protocol import Tool
        from sglang.srt.function_call.function_call_parser import FunctionCallParser

        self._tool, self._parser, self._name = Tool, FunctionCallParser, name

    def _make(self, tools: list[Any]) -> Any:
        return self._parser([self._tool(**tool) for tool in tools], self._name)

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        parser = self._make(tools)
        # Its server asks this first.
        if not tools or not parser.has_tool_call(text):
            return answer(text, [])
        content, calls = parser.parse_non_stream(text)
        return answer(content, [(call.name, call.parameters) for call in calls])

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields the deltas for chunks."""
        if not tools:
            yield {"content": "".join(chunks)}
            return
        parser = self._make(tools)
        for chunk in chunks:
            yield self._delta(*parser.parse_stream_chunk(chunk))
        yield self._delta(*parser.parse_stream_end())
        rest = self._find_unstreamed(parser.detector)
        if rest:
            index = len(parser.detector.prev_tool_call_arr) - 1
            yield {"calls": [{"index": index, "arguments": rest}]}

    def _find_unstreamed(self, detector: Any) -> str:
        """Returns the arguments of the last call that its server sends when the generation has
        ended."""
        calls = getattr(detector, "prev_tool_call_arr", None) or []
        streamed = getattr(detector, "streamed_args_for_tool", None) or []
        if not 0 < len(calls) <= len(streamed):
            return ""
        whole = calls[-1].get("arguments", {})
        if not isinstance(whole, str):
            whole = json.dumps(whole, ensure_ascii=False)
        sent = streamed[len(calls) - 1]
        return whole[len(sent) :] if whole.startswith(sent) else ""

    def _delta(self, content: str, calls: list[Any]) -> dict[str, Any]:
        shown: list[dict[str, Any]] = []
        for call in calls:
            delta = {"index": call.tool_index, "name": call.name, "arguments": call.parameters}
            shown.append(delta)
        return {"content": content, "calls": shown}


class Lmdeploy:
    """LMDeploy: `ResponseParser`, as its chat completions use it."""

    can = ("stream", "content", "types")

    def __init__(self, name: str):
        skip("lmdeploy", "lmdeploy", "lmdeploy.serve")
        from lmdeploy.serve.openai.protocol import ChatCompletionRequest
        from lmdeploy.serve.parsers import ResponseParserManager

        self._request = ChatCompletionRequest
        self._parser: Any = ResponseParserManager.get("default")
        self._parser.set_parsers(tool_parser_name=name)

    def _make(self, tools: list[Any]) -> Any:
        return self._parser(self._request(model="m", messages=[USER], tools=tools or None))

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        content, calls, _ = self._make(tools).parse_complete(text, Tokenizer().encode(text))
        found = [(call.function.name, call.function.arguments) for call in calls or ()]
        return answer(content, found)

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields the deltas for chunks."""
        parser = self._make(tools)
        for i, chunk in enumerate(chunks, 1):
            is_last = i == len(chunks)
            for delta, _ in parser.stream_chunk(chunk, Tokenizer().encode(chunk), final=is_last):
                yield openai_delta(delta)


class VllmMlx:
    """vllm-mlx: `ToolParser.extract_tool_calls`. Its streams are put together in its server, out of
    reach of an adapter."""

    can = ("content", "types")

    def __init__(self, name: str):
        skip("vllm-mlx", "vllm_mlx")
        from vllm_mlx.tool_parsers import ToolParserManager

        self._parser = ToolParserManager.get_tool_parser(name)

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        found = self._parser(None).extract_tool_calls(text, {"tools": tools})
        calls = [(call["name"], call["arguments"]) for call in found.tool_calls]
        return answer(found.content, calls)

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields None: see above."""
        raise NotImplementedError


class Xinference:
    """Xinference: `ToolParser.extract_tool_calls`. Its streams are put together elsewhere."""

    can = ("content", "types")

    def __init__(self, name: str):
        skip("xinference", "xinference", "xinference.model", "xinference.model.llm")
        from xinference.model.llm.tool_parsers import TOOL_PARSERS
        from xinference.model.llm.tool_parsers.abstract_tool_parser import request_tools_var

        self._parser = TOOL_PARSERS[name]
        self._tools = request_tools_var

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        self._tools.set(tools)
        found = self._parser().extract_tool_calls(text)
        content = "".join(part for part, name, _ in found if name is None and part)
        calls = [(name, arguments) for _, name, arguments in found if name is not None]
        return answer(content, calls)

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields None: see above."""
        raise NotImplementedError


class Transformers:
    """Transformers: `ResponseParser`, as `transformers serve` uses it for models that bring no
    template of their own. The name is a type of model."""

    can = ("stream", "content", "reasoning", "types")

    def __init__(self, name: str):
        from transformers.cli.serving import utils

        self._utils: Any = utils
        self._model = SimpleNamespace(config=SimpleNamespace(model_type=name))
        anchor = utils.get_response_template(SimpleNamespace(), self._model)["start_anchor"]
        prompt = anchor if isinstance(anchor, str) else anchor[0]
        self._tokenizer = SimpleNamespace(decode=lambda _: prompt)

    def _make(self, tools: list[Any]) -> Any:
        return self._utils.build_response_parser(self._tokenizer, self._model, [], tools=tools)

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        parser = self._make(tools)
        parser.feed(text)
        message, _ = parser.finalize()
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        found = [(call["name"], call["arguments"]) for call in calls]
        shown = answer(message.get("content", ""), found)
        return shown | {"reasoning": message.get("reasoning_content")}

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields the deltas for chunks."""
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


class QwenAgent:
    """Qwen-Agent: the messages that its models return. Its streams are growing messages, and no
    deltas."""

    can = ("content", "types")

    def __init__(self, name: str):
        skip("qwen-agent", "qwen_agent", "qwen_agent.llm")
        from qwen_agent.llm.fncall_prompts.nous_fncall_prompt import NousFnCallPrompt
        from qwen_agent.llm.schema import ContentItem, Message

        if name != "nous":
            raise ValueError(f"Qwen-Agent: {name}")
        self._parser: Any = NousFnCallPrompt()
        self._message, self._item = Message, ContentItem

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        message = self._message(role="assistant", content=[self._item(text=text)])
        found = self._parser.postprocess_fncall_messages([message])
        content = "".join(item.text or "" for one in found for item in one.content or ())
        calls = [one.function_call for one in found if one.function_call]
        return answer(content, [(call.name, call.arguments) for call in calls])

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields None: see above."""
        raise NotImplementedError


ADAPTERS: dict[str, Callable[[str], Adapter]] = {
    "vllm": Vllm,
    "sglang": Sglang,
    "lmdeploy": Lmdeploy,
    "vllm-mlx": VllmMlx,
    "xinference": Xinference,
    "transformers": Transformers,
    "qwen-agent": QwenAgent,
}


def answer(content: str | None, calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns what was read, as the protocol has it."""
    shown = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"content": content, "calls": shown}


def openai_delta(delta: Any) -> dict[str, Any]:
    """Returns a delta in the form of OpenAI, as the protocol has it."""
    calls: list[dict[str, Any]] = []
    for call in delta.tool_calls or ():
        function = call.function or SimpleNamespace(name=None, arguments=None)
        if isinstance(function, dict):
            function = SimpleNamespace(**{"name": None, "arguments": None, **function})
        shown = {"index": call.index, "name": function.name, "arguments": function.arguments}
        calls.append(shown)
    return {"content": delta.content, "calls": calls}


def respond(adapter: Adapter, request: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to a request."""
    if "hello" in request:
        return {"can": adapter.can}
    try:
        if "text" in request:
            return adapter.read(request["tools"], request["text"])
        chunks = move_cuts(request["chunks"])
        return {"deltas": list(adapter.stream(request["tools"], chunks))}
    except Exception as e:  # what the server of that project would answer by an error
        return {"error": f"{type(e).__name__}: {e}"}


def main(project: str, parser: str) -> None:
    """Answers each line of stdin."""
    # What their packages print belongs on stderr: stdout is for answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    adapter = ADAPTERS[project](parser)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"id": request["id"], **respond(adapter, request)}), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
