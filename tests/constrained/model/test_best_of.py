"""Best of n: the likeliest call is found where the likeliest token leads away from it."""

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from constrained.agent.run import run
from constrained.engine.protocol import Sampling
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.errors import RequestError
from constrained.model.model import Model
from constrained.template.chat_template import ChatTemplate
from grammars.turn import CallOpened
from tests.scripted_model import BYTES
from tests.templates import HERMES

GREEDY = Sampling(temperature=0)
START = b"<|im_start|>assistant\n"
OPENED = '<tool_call>\n{"name": "'


def tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "parameters": schema}


def knowing(weights: Mapping[str, Mapping[str, float]], sequences: int = 4) -> Model:
    """A model that calls a tool, and draws characters as likely as given after these ends of the
    turn; elsewhere it closes what is open."""

    def logits(sequence: int, tokens: Any) -> np.ndarray:
        text = BYTES.text(tokens)
        turn = text[text.rindex(START) + len(START) :]
        if len(turn) < len(OPENED):
            return scripted_logits(BYTES, OPENED, len(tokens) - len(turn))(sequence, tokens)
        row = np.zeros(len(BYTES.tokens), np.float32)
        for end, likely in weights.items():
            if turn.endswith(end.encode()):
                for character, weight in likely.items():
                    row[BYTES.encode(character)[0]] = 30 + math.log(weight)
                return row
        row[BYTES.end[0]] = 20
        row[BYTES.encode("}")[0]] = 10
        return row

    engine = ScriptedEngine(BYTES, logits, context_length=20_000, max_sequences=sequences)
    return Model(engine, ChatTemplate(HERMES))


FIRST = {"get_": {"a": 0.5, "b": 0.5}, '"name": "': {"g": 0.6, "f": 0.4}}
"""`get_` is likelier than `find`, which is likelier than either tool that begins with `get_`."""
TOOLS = [tool("get_a"), tool("get_b"), tool("find")]


def names(reply: Any) -> list[str]:
    return [call.name for call in reply.calls]


@pytest.mark.parametrize("sequences", [1, 4])
def test_the_likeliest_name_is_found_behind_a_less_likely_token(sequences: int) -> None:
    model = knowing(FIRST, sequences)
    options: Any = {"sampling": GREEDY, "tool_choice": "required", "parallel": False}
    assert names(model.call("Go.", TOOLS, **options)) == ["get_a"]
    reply = model.call("Go.", TOOLS, best_of=3, **options)
    assert names(reply) == ["find"]
    found = {one.calls[0].name: one.likelihood for one in reply.candidates}
    expected = {"find": 0.4, "get_a": 0.3, "get_b": 0.3}
    assert found == pytest.approx(expected, abs=0.01)
    assert reply.calls[0].confidence is not None
    assert reply.calls[0].confidence.name == pytest.approx(0.4, abs=0.01)
    assert reply.trace is None
    assert reply.usage.discarded_tokens > 0
    assert model.call("Go.", TOOLS, best_of=3, **options) == reply


def test_one_more_is_one_more() -> None:
    options: Any = {"sampling": GREEDY, "tool_choice": "required", "parallel": False}
    for count in (1, 2, 3, 4):
        reply = knowing(FIRST).call("Go.", TOOLS, best_of=count, **options)
        assert len(reply.candidates) == (0 if count == 1 else min(count, 3))


def test_listed_values_part_and_free_ones_do_not() -> None:
    paint = tool("paint", size={"enum": ["big", "small"]}, text={"type": "string"})
    likely = {
        '"size": "': {"b": 0.6, "s": 0.4},
        '"text": "': {"x": 0.5, "y": 0.5},
        '"text": "x': {'"': 1},
        '"text": "y': {'"': 1},
    }
    reply = knowing(likely).call(
        "Go.",
        [paint],
        best_of=8,
        sampling=GREEDY,
        tool_choice="required",
        parallel=False,
        key_order="schema",
        trace=True,
    )
    values = [one.calls[0].arguments for one in reply.candidates]
    assert values == [{"size": "big", "text": "x"}, {"size": "small", "text": "x"}]
    assert reply.trace is not None


def test_a_branch_that_does_not_fit_is_no_candidate() -> None:
    never = {"type": "string", "maxLength": 2, "pattern": "^(?=a)(?=b)"}  # is checked; nothing fits
    tools = [tool("get_a"), tool("get_b"), tool("find", text=never)]
    options: Any = {"sampling": GREEDY, "tool_choice": "required", "parallel": False}
    reply = knowing(FIRST).call("Go.", tools, best_of=3, **options)
    assert names(reply) == ["get_a"]
    assert [one.calls[0].name for one in reply.candidates] == ["get_a", "get_b"]


def test_a_branch_whose_tokens_run_out_is_the_last_choice() -> None:
    tools = [tool("get_a"), tool("get_b"), tool("find", text={"type": "string", "minLength": 90})]
    options: Any = {"sampling": GREEDY, "tool_choice": "required", "parallel": False}
    for most in range(75, 95):  # bytes; with each of these, another place is the last one
        reply = knowing(FIRST).call("Go.", tools, best_of=3, max_tokens=most, **options)
        assert names(reply) == ["get_a"]


def test_an_answer_has_no_branches() -> None:
    model = knowing({})
    reply = model.call("Go.", [tool("find")], best_of=4, sampling=GREEDY, tool_choice="none")
    assert len(reply.candidates) == 1


def test_in_a_run_and_for_asyncio() -> None:
    def find() -> str:
        return "found"

    def get_a() -> str:
        return "a"

    def get_b() -> str:
        return "b"

    functions = [get_a, get_b, find]
    options: Any = {"sampling": GREEDY, "tool_choice": "required", "parallel": False, "best_of": 3}
    ran = run(knowing(FIRST), "Go.", functions, max_steps=1, **options)
    assert ran.calls[0].result == "found"
    reply = asyncio.run(knowing(FIRST).acall("Go.", functions, **options))
    assert names(reply) == ["find"]


def test_a_stream_has_the_events_of_the_turn_that_is_chosen_and_no_others() -> None:
    options: Any = {"sampling": GREEDY, "tool_choice": "required", "parallel": False, "best_of": 3}
    stream = knowing(FIRST).stream("Go.", TOOLS, **options)
    opened = [event.name for event in stream if isinstance(event, CallOpened)]
    assert opened == names(stream.result) == ["find"]


def test_what_cannot_be() -> None:
    model = knowing(FIRST)
    for count in (0, 17, True, "4"):
        with pytest.raises(RequestError) as error:
            model.call("Go.", TOOLS, best_of=count)  # pyright: ignore[reportArgumentType]
        assert error.value.where == "/best_of"
    with pytest.raises(RequestError, match="logprobs are those of one turn"):
        model.call("Go.", TOOLS, best_of=2, logprobs=0)
