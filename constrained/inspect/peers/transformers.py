# pyright: reportMissingImports=false
"""The parsers of Transformers, as `transformers serve` uses them for models that bring no template
of their own."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from constrained.inspect.peers.inert import supply_inert
from grammars.suite.answers import write_answer

_HEAVY = ("fastapi", "rich", "starlette", "torch", "typer", "uvicorn")


class TransformersParser:
    """A `ResponseParser` of a type of model."""

    def __init__(self, name: str):
        supply_inert(_HEAVY)
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
