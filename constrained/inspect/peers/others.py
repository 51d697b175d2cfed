# pyright: reportMissingImports=false
"""The parsers of LMDeploy, vllm-mlx, Xinference and Qwen-Agent, as their servers call them."""

from collections.abc import Iterator, Sequence
from typing import Any

from constrained.inspect.peers.inert import skip_inits
from constrained.inspect.peers.vocabulary import StubTokenizer, find_special
from grammars.suite.answers import write_answer, write_deltas

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
