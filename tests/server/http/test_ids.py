"""Ids of calls, outside and inside; dates of conversations."""

import re
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from server.http.ids import CallIds, make_id
from server.turns.stable_prompts import ConversationDates

NINE = st.text("abcXYZ019", min_size=9, max_size=9)


@given(NINE)
def test_an_id_of_ours_comes_back_as_it_was(id: str) -> None:
    ids = CallIds()
    for prefix in ("call_", "toolu_", "fc_"):
        assert ids.read(prefix + id) == id
    assert ids.read(f"mcp_{id}") == id


@given(st.text(min_size=1))
def test_ids_of_other_servers_become_nine_letters(rest: str) -> None:
    ids = CallIds()
    inside = ids.read(f"call_{rest}")
    assert len(inside) == 9
    assert inside.isalnum()
    assert ids.read(f"call_{rest}") == inside


def test_what_has_no_prefix_stays() -> None:
    assert CallIds().read("functions.get_weather:0") == "functions.get_weather:0"


def test_what_the_model_wrote_comes_back() -> None:
    ids = CallIds(max_ids=2)
    ids.note("abcdefghi", "functions.a:0")
    assert ids.read("call_abcdefghi") == "functions.a:0"
    call = {"id": "call_abcdefghi", "type": "function", "function": {"name": "a"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_abcdefghi", "content": "x"},
    ]
    restored = ids.restore(messages)
    assert restored[0]["tool_calls"][0]["id"] == restored[1]["tool_call_id"] == "functions.a:0"
    assert call["id"] == "call_abcdefghi"  # what the client gave is not changed
    ids.note("bbbbbbbbb", "b")
    ids.note("ccccccccc", "c")
    assert ids.read("call_abcdefghi") == "abcdefghi"  # the oldest is forgotten


def test_made_ids_differ() -> None:
    made = {make_id("chatcmpl-") for _ in range(100)}
    assert len(made) == 100
    assert all(id.startswith("chatcmpl-") and len(id) <= 40 for id in made)
    assert all(re.fullmatch(r"chatcmpl-[0-9a-f]{24}", id) for id in made)


def test_a_conversation_keeps_the_date_of_its_first_request() -> None:
    dates = ConversationDates(max_dates=2)
    system = {"role": "system", "content": "Be brief."}
    first = [system, {"role": "user", "content": "Hi"}]
    begun = dates.find(first)
    later = [*first, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "?"}]
    assert dates.find(later) == begun
    assert dates.find([system, {"role": "user", "content": "Bye"}]) > begun
    dates.find([{"role": "user", "content": "third"}])
    assert dates.find(first) > begun  # forgotten: there is room for two


def test_a_fixed_date() -> None:
    day = datetime(2026, 1, 31)
    assert ConversationDates(day).find([{"role": "user", "content": "Hi"}]) == day
