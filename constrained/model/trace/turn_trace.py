"""The trace of a finished turn, as a value, as JSON and as an element of a notebook."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from constrained.decode.request import Generation
from constrained.decode.token_trace import TracedToken, find_live
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.trace.confidence import measure_call_probability, measure_confidence
from constrained.model.trace.places import END, TokenPlace, decode_pieces, find_places
from grammars.schema.json_values import Json
from grammars.turn import CallConfidence, CallOpened, JsonAnswer, Tool

VERSION = 1
PROMPT_SHOWN = 2_000  # characters of the end of the prompt
DIGITS = 6  # digits of a probability
PLACEHOLDER = "/*TRACE*/null"


@dataclass(frozen=True, repr=False)
class TurnTrace:
    """What decided about each token of a turn, including discarded ones."""

    turn: CompiledTurn = field(compare=False)
    finish: str
    tokens: tuple[TracedToken, ...] = ()
    calls: tuple[str, ...] = ()

    # Computed when they are first read, since the decode thread should not wait for them.
    @cached_property
    def places(self) -> tuple[TokenPlace | None, ...]:
        """The place of each token in the turn; None for one that was discarded."""
        parser = self.turn.make_parser()
        if self.turn.prefill.text:
            parser.feed(self.turn.prefill.text)
        pieces = decode_pieces([token.text for token in find_live(self.tokens)])
        is_json = isinstance(self.turn.policy.answer, JsonAnswer)
        found = iter(find_places(parser, pieces, calls=self.calls, is_json=is_json))
        places: list[TokenPlace | None] = []
        for token in self.tokens:
            if token.is_discarded:
                places.append(None)
            else:
                places.append(END if token.is_end else next(found))
        return tuple(places)

    def __repr__(self) -> str:
        wanted = sum(token.wanted is not None for token in self.tokens)
        return f"<TurnTrace: {len(self.tokens)} tokens, {wanted} where the model wanted another>"

    def _repr_html_(self) -> str:
        page = escape(write_page(self.to_json()), quote=True)
        style = "width: 100%; height: 32rem; border: 0"
        return f'<iframe title="Trace" style="{style}" srcdoc="{page}"></iframe>'

    def to_json(self) -> dict[str, Json]:
        """Returns the trace as JSON."""
        turn, answer = self.turn, self.turn.policy.answer
        tokens: list[Json] = []
        for token, place in zip(self.tokens, self.places, strict=True):
            tokens.append(_write_token(token, place))
        return {
            "version": VERSION,
            "format": turn.format.name,
            "start_state": turn.state.start.value,
            "finish_reason": self.finish,
            "vocabulary": len(turn.vocabulary.tokens),
            "prompt": turn.prompt.text[-PROMPT_SHOWN:],
            "tools": [_describe_tool(tool) for tool in turn.tools],
            "calls": list(self.calls),
            "answer": answer.schema.source if isinstance(answer, JsonAnswer) else None,
            "call_probability": _round(measure_call_probability(self.tokens, self.places)),
            "confidence": [
                write_confidence(one) for one in measure_confidence(self.tokens, self.places)
            ],
            "tokens": tokens,
        }

    def save_page(self, path: str | Path) -> None:
        """Writes the trace as one HTML page, which loads nothing from elsewhere."""
        Path(path).write_text(write_page(self.to_json()), encoding="utf-8")


def make_trace(generation: Generation, turn: CompiledTurn) -> TurnTrace:
    """Returns the trace of a turn whose tokens were traced."""
    calls = [event.name for event in generation.events if isinstance(event, CallOpened)]
    return TurnTrace(turn, generation.finish.value, generation.trace, tuple(calls))


def _describe_tool(tool: Tool) -> Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.schema.source,
    }


def write_confidence(confidence: CallConfidence) -> dict[str, Json]:
    arguments: dict[str, Json] = {}
    for name, value in confidence.arguments.items():
        arguments[name] = _round(value)
    lowest, name = _round(confidence.lowest), _round(confidence.name)
    return {"lowest": lowest, "name": name, "arguments": arguments}


def _round(probability: float | None) -> float | None:
    return None if probability is None else round(probability, DIGITS)


def _write_token(token: TracedToken, place: TokenPlace | None) -> dict[str, Json]:
    """Returns a token as JSON, without unknown fields and fields with the usual value."""
    shown: dict[str, Any] = {
        "token": token.token,
        **_write_text(token.text),
        "source": token.source.value,
        "seconds": round(token.seconds, DIGITS),
    }
    for name in ("is_drafted", "is_end", "is_discarded"):
        if getattr(token, name):
            shown[name.removeprefix("is_")] = True
    if token.steered_by:
        shown["steered_by"] = list(token.steered_by)
    if place is not None:
        shown["part"] = place.part.value
        if place.call is not None:
            shown["call"] = place.call
        if place.pointer:
            shown["pointer"] = place.pointer
    if token.probability is not None and token.masked_probability is not None:
        shown["allowed"] = token.allowed
        shown["probability"] = round(token.probability, DIGITS)
        shown["masked_probability"] = round(token.masked_probability, DIGITS)
        alternatives: Sequence[Json] = [
            {
                "token": one.token,
                **_write_text(one.text),
                "probability": round(one.probability, DIGITS),
                "allowed": one.is_allowed,
            }
            for one in token.alternatives
        ]
        shown["alternatives"] = alternatives
    return shown


def write_page(trace: Json) -> str:
    """Returns the page that shows a trace as JSON, and loads nothing from elsewhere."""
    # Inside of a script, only "</script" and "<!--" mean something: no "<" is left.
    data = json.dumps(trace, ensure_ascii=True).replace("<", "\\u003c")
    return read_page().replace(PLACEHOLDER, data)


def read_page() -> str:
    """Returns the page without a trace, which belongs in the place of `PLACEHOLDER`."""
    return files("constrained.model.trace").joinpath("page.html").read_text(encoding="utf-8")


def _write_text(data: bytes) -> dict[str, Json]:
    """Writes the text of a token; also its bytes, if they are not whole characters."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"text": data.decode("utf-8", "replace"), "bytes": list(data)}
