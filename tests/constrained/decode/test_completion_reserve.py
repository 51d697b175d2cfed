"""An ending is looked for only where the tokens might run out."""

from typing import Any

import pytest

from constrained.decode.completion_reserve import MAX_UNREAD
from constrained.engine.protocol import Sampling
from grammars.turn_grammar.ir.completion import Completer
from tests.scripted_model import scripted

GREEDY = Sampling(temperature=0)
OPTIONS: dict[str, Any] = {
    "tool_choice": "required",
    "sampling": GREEDY,
    "max_repetition": None,  # a loop would be ended before its tokens run out
}
KINDS = [f"kind {number}" for number in range(200)]
TOOL: dict[str, Any] = {
    "name": "pick",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "kind": {"enum": KINDS}},
        "required": ["text", "kind"],
    },
}
CALL = '<tool_call>\n{"name": "pick", "arguments": {"text": "%s", "kind": "kind 7"}}\n</tool_call>'


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts for which an ending was looked for."""
    texts: list[str] = []
    complete = Completer.complete

    def note(self: Completer, text: str, *limits: Any) -> Any:
        texts.append(text)
        return complete(self, text, *limits)

    monkeypatch.setattr(Completer, "complete", note)
    return texts


def test_with_plenty_of_tokens_one_is_seldom_looked_for(looks: list[str]) -> None:
    model = scripted(CALL % ("x" * 500))
    looks.clear()  # those that its format was inferred with
    reply = model.call("Go.", [TOOL], max_tokens=5_000, **OPTIONS)
    assert reply.calls[0].arguments == {"text": "x" * 500, "kind": "kind 7"}
    assert len(looks) == 1 + reply.usage.completion_tokens // MAX_UNREAD == 2


@pytest.mark.parametrize("max_tokens", [200, 500, 999, 1_500])
def test_a_turn_whose_tokens_run_out_is_still_a_call(max_tokens: int) -> None:
    model = scripted(CALL % ("x" * 5_000))
    reply = model.call("Go.", [TOOL], max_tokens=max_tokens, **OPTIONS)
    assert reply.calls[0].arguments["kind"] in KINDS
    assert max_tokens - 10 < reply.usage.completion_tokens <= max_tokens


def test_a_search_is_needed_only_where_the_known_ending_does_not_fit(looks: list[str]) -> None:
    model = scripted(CALL % ("x" * 5_000))
    looks.clear()
    reply = model.call("Go.", [TOOL], max_tokens=200, **OPTIONS)
    assert reply.calls[0].arguments["kind"] in KINDS
    # As the call begins, where the tokens run out, and at the token before.
    assert len(looks) < 10
