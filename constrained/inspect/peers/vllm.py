# pyright: reportMissingImports=false
"""The parsers of vLLM, of tool calls and of reasoning, as its chat completions use them. Needs only
the Python files of vLLM and the light packages that they import: no PyTorch and no engine."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from constrained.inspect.peers.inert import replace_by_inert, skip_inits, supply_inert
from constrained.inspect.peers.open_prompt import THINKING, OpenPrompt, find_open_prompt
from constrained.inspect.peers.vocabulary import HarmonyTokenizer, StubTokenizer, find_special
from grammars.suite.answers import write_answer, write_deltas

_HEAVY = (
    "aiohttp anthropic av blake3 cbor2 cloudpickle compressed_tensors cv2 diskcache einops "
    "flashinfer gguf ijson librosa mcp numba outlines_core PIL prometheus_client psutil pybase64 "
    "ray sentencepiece setproctitle soundfile starlette tiktoken tilelang torch triton uvicorn "
    "watchfiles xgrammar xxhash zmq"
).split()
"""Packages that its modules import, and its parsers do not use."""
_ENGINE = (
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
            supply_inert(_HEAVY)
            replace_by_inert(_ENGINE)
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
