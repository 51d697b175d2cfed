"""The trace of a finished turn, as a value, as JSON and as an element of a notebook."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from constrained.compile.compiled_turn import CompiledTurn
from constrained.decode.request import Generation
from constrained.decode.token_trace import TracedToken, find_live
from constrained.trace.page import write_page
from constrained.trace.places import TokenPlace, find_places
from grammars.schema.nodes import Json
from grammars.turn import CallOpened, JsonAnswer

VERSION = 1
PROMPT_SHOWN = 2_000  # characters of the end of the prompt
DIGITS = 6  # of a probability


@dataclass(frozen=True, repr=False)
class TurnTrace:
    """What decided about each token of a turn.

    Args:
        tokens: in the order in which they were written, those that were discarded included.
        places: of each of them in the turn; None for one that is no part of it.
        prompt: the end of the prompt.
        format: the name of the wire format.
        start: where the prompt left the turn: "plain", "open" or "closed".
        tools: those that were offered: name, description, JSON Schema of the arguments.
        calls: the name of the tool of each call.
        answer: the JSON Schema of the answer, if one was asked for.
        vocabulary: how many tokens there are.
        finish: why the turn ended.
    """

    tokens: tuple[TracedToken, ...]
    places: tuple[TokenPlace | None, ...]
    prompt: str
    format: str
    start: str
    tools: tuple[Json, ...]
    calls: tuple[str, ...]
    answer: Json
    vocabulary: int
    finish: str

    def __repr__(self) -> str:
        wanted = sum(token.wanted is not None for token in self.tokens)
        return f"<TurnTrace: {len(self.tokens)} tokens, {wanted} where the model wanted another>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the page, in a frame of its own."""
        page = escape(write_page([self.to_json()]), quote=True)
        style = "width: 100%; height: 32rem; border: 0"
        return f'<iframe title="Trace" style="{style}" srcdoc="{page}"></iframe>'

    def to_json(self) -> dict[str, Json]:
        """The trace as JSON: a line of a file of traces."""
        tokens: list[Json] = []
        for token, place in zip(self.tokens, self.places, strict=True):
            tokens.append(_write_token(token, place))
        return {
            "version": VERSION,
            "format": self.format,
            "start_state": self.start,
            "finish_reason": self.finish,
            "vocabulary": self.vocabulary,
            "prompt": self.prompt,
            "tools": list(self.tools),
            "calls": list(self.calls),
            "answer": self.answer,
            "tokens": tokens,
        }

    def save(self, path: str | Path) -> None:
        """Appends the trace to a file of JSON Lines, for `constrained trace`."""
        line = json.dumps(self.to_json(), ensure_ascii=False)
        with Path(path).open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(line + "\n")

    def save_page(self, path: str | Path) -> None:
        """Writes the trace as one HTML page, which loads nothing from elsewhere."""
        Path(path).write_text(write_page([self.to_json()]), encoding="utf-8")


def make_trace(generation: Generation, turn: CompiledTurn) -> TurnTrace:
    """The trace of a generation whose tokens were traced."""
    parser = turn.parser()
    if turn.prefix.text:
        parser.feed(turn.prefix.text)
    texts = [token.text for token in find_live(generation.trace)]
    is_json = isinstance(turn.policy.answer, JsonAnswer)
    found = find_places(parser, texts, is_json=is_json)
    places: list[TokenPlace | None] = []
    for token in generation.trace:
        is_part = not token.is_discarded and not token.is_end
        places.append(next(found) if is_part else None)
    answer: Json = None
    if isinstance(turn.policy.answer, JsonAnswer):
        answer = turn.policy.answer.schema.source
    return TurnTrace(
        tokens=generation.trace,
        places=tuple(places),
        prompt=turn.prompt.text[-PROMPT_SHOWN:],
        format=turn.format.name,
        start=turn.state.start.value,
        tools=_describe_tools(turn),
        calls=tuple(e.name for e in generation.events if isinstance(e, CallOpened)),
        answer=answer,
        vocabulary=len(turn.vocabulary.tokens),
        finish=generation.finish.value,
    )


def _describe_tools(turn: CompiledTurn) -> tuple[Json, ...]:
    described: list[Json] = []
    for tool in turn.tools:
        described.append(
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.schema.source,
            }
        )
    return tuple(described)


def _write_token(token: TracedToken, place: TokenPlace | None) -> dict[str, Json]:
    """A token as JSON; what is not known, or is as it nearly always is, is left out."""
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


def _write_text(data: bytes) -> dict[str, Json]:
    """The text of a token; its bytes, too, where they are no whole characters."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"text": data.decode("utf-8", "replace"), "bytes": list(data)}
