"""Ids of calls: what the model wrote, unless a call of the conversation or of the turn has it."""

from constrained.model.reply import Reply
from tests.real_templates import real_templates
from tests.scripted_model import scripted
from tests.templates import PING

MISTRAL = real_templates()["Mistral-Small-3.2-24B-Instruct-2506"].source
TWICE = "[TOOL_CALLS]ping[CALL_ID]abcDEF123[ARGS]{}" * 2


def reply_to(history: list[dict], text: str = TWICE) -> Reply:
    with scripted(text, source=MISTRAL, turn=rb"\[/(INST|TOOL_RESULTS)\]") as model:
        messages = [{"role": "user", "content": "Ping"}, *history]
        return model.call(messages, [PING], max_identical_calls=2)


def test_ids_differ_within_a_turn() -> None:
    reply = reply_to([])
    first, second = (call.id for call in reply.calls)
    assert first == "abcDEF123"
    assert second not in (first, None, "")
    assert reply_to([]).calls == reply.calls  # they are derived: a seed replays


def test_ids_differ_from_those_of_the_conversation() -> None:
    before = reply_to([])
    results = [{"role": "tool", "tool_call_id": c.id, "content": "{}"} for c in before.calls]
    history = [before.message(), *results]
    ids = [call.id for call in (*before.calls, *reply_to(history).calls)]
    assert len(set(ids)) == 4
    assert all(id and len(id) == 9 and id.isalnum() for id in ids)  # what the template insists on
