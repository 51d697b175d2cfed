"""All messages of a conversation are in the prompt, in their order."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.inspect.replay.replay_context import read_context
from constrained.model.compile.compiler import Compiler
from constrained.model_files.embedded import PATH
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.job import Job
from constrained.prompt.template.arrival import note_forms, write_canaries
from constrained.prompt.template.arrival_probes import (
    TOOLS,
    Fate,
    answer,
    call,
    judge,
    probe_arrivals,
    say,
)
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.conversation_forms import (
    SYSTEM_OPENER,
    ConversationForm,
    list_forms,
    write,
)
from tests.real_templates import read_template, real_templates
from tests.templates import HERMES

VOCABULARY = read_context({"model": str(PATH)}).vocabulary
INVENTED = sorted(Path("tests/data/invented").glob("*.jinja"))[::6]
HEAD, LATE = say("system", "ALPHA"), say("system", "GOLF")
USER, REPLY, AGAIN = say("user", "BRAVO"), say("assistant", "CHARLIE"), say("user", "HOTEL")
CALL, RESULT = call("DELTA"), answer("ECHO", "DELTA")


def find_faults(template: ChatTemplate) -> list[str]:
    arrivals = probe_arrivals(select_format(template).template)
    return [arrival.kind for arrival in arrivals if arrival.fate is not Fate.IN_ORDER]


@pytest.mark.parametrize("name", real_templates())
def test_all_arrive_with_real_templates(name: str) -> None:
    assert find_faults(real_templates()[name]) == []


@pytest.mark.parametrize("path", INVENTED, ids=[path.stem for path in INVENTED])
def test_all_arrive_with_invented_ones(path: Path) -> None:
    assert find_faults(ChatTemplate(path.read_text(encoding="utf-8"))) == []


RULES = {
    "only the first system message": "{% if m.role != 'system' or loop.first %}",
    "no late system message": "{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('it must be first') }}{% else %}",
    "no system message": "{% if m.role == 'system' %}{{ raise_exception('no') }}{% else %}",
    "nothing of a system message": "{% if m.role != 'system' %}",
    "one call in a message": "{% if m.tool_calls and m.tool_calls|length > 1 %}"
    "{{ raise_exception('one call') }}{% else %}",
    "a question first": "{% if (messages|selectattr('role', 'equalto', 'user')|list)|length == 0 "
    "%}{{ raise_exception('no question') }}{% else %}",
    "turns that alternate": "{% if not loop.first and m.role in ['user', 'assistant'] and "
    "loop.previtem.role == m.role %}{{ raise_exception('alternate') }}{% else %}",
    "results with a name": "{% if m.role == 'tool' and not m.name %}"
    "{{ raise_exception('name') }}{% else %}",
    "no content beside calls": "{% if m.content and m.tool_calls %}<|{{ m.role }}|>"
    "{% for t in m.tool_calls %}{{ t.function|tojson }}{% endfor %}<|end|>{% else %}",
}


def make_template(*rules: str) -> ChatTemplate:
    """Returns a template that keeps these rules."""
    source = "".join(RULES[rule] for rule in rules)
    return ChatTemplate(
        f"{{% for m in messages %}}{source}<|{{{{ m.role }}}}|>{{{{ m.content or '' }}}}"
        "{% for t in m.tool_calls or [] %}{{ t.function|tojson }}{% endfor %}<|end|>"
        f"{'{% endif %}' * len(rules)}{{% endfor %}}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    ).with_forms()


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_a_form(rule: str) -> None:
    template = make_template(rule)
    fates = {arrival.kind: arrival.fate for arrival in probe_arrivals(template)}
    assert {kind for kind, fate in fates.items() if fate is not Fate.IN_ORDER} == set()


def test_a_late_system_message_keeps_what_stands_before_it() -> None:
    template = make_template("no late system message")
    before = template.render([HEAD, USER, REPLY], add_generation_prompt=False)
    prompt = template.render([HEAD, USER, REPLY, LATE, AGAIN])
    assert prompt.startswith(before)
    assert f"<|user|>{SYSTEM_OPENER}Some GOLF here\n</system><|end|><|user|>Some HOTEL" in prompt


def test_a_system_message_is_not_joined_with_what_a_client_wrote() -> None:
    template = make_template("no late system message", "turns that alternate")
    prompt = template.render([HEAD, USER, REPLY, LATE, AGAIN])
    assert f"<|user|>{SYSTEM_OPENER}Some GOLF here\n</system><|end|>" in prompt
    assert "<|user|>Some HOTEL here<|end|>" in prompt


def test_what_a_template_writes_stays_as_it_is() -> None:
    template = make_template()
    for messages in ([HEAD, LATE, USER], [USER, AGAIN], [REPLY], [USER, CALL, RESULT, LATE]):
        with note_forms() as forms:
            assert template.render(messages) == template.without_forms().render(messages)
        assert not forms


def test_the_header_that_gemma_4_forgets_is_written() -> None:
    source = read_template("google-gemma-4-31B-it")
    beside = call("DELTA", content="Some INDIA here")
    turn = Compiler(VOCABULARY, ChatTemplate(source)).compile(Job([USER, beside, RESULT], TOOLS))
    prompt = turn.prompt.text
    last = prompt.rindex("<turn|>")
    assert "<|turn>model\n" in prompt[last:]  # the turn of the call is open, or a new one


OLD_HEADER = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt and messages[-1].role != 'tool' %}<|assistant|>{% endif %}"
)


def test_a_header_is_added_where_the_turn_has_ended() -> None:
    template = ChatTemplate(OLD_HEADER)
    messages = [USER, say("tool", "ECHO")]
    assert template.render(messages).endswith("ECHO here<|end|>")
    assert template.with_forms().render(messages).endswith("ECHO here<|end|><|assistant|>")
    closed = template.with_forms().render(messages, add_generation_prompt=False)
    assert closed.endswith("ECHO here<|end|>")


MESSAGES = st.lists(
    st.one_of(
        st.builds(say, st.sampled_from(["system", "user", "assistant"]), st.just("x")),
        st.just({"role": "assistant", "content": ""}),
        st.builds(
            lambda n, text: call(*"ab"[:n], content=text),
            st.integers(1, 2),
            st.sampled_from([None, "y"]),
        ),
        st.builds(answer, st.just("z"), st.sampled_from("abc")),
    ),
    min_size=1,
    max_size=7,
)


@given(MESSAGES)
def test_forms_lose_nothing_and_keep_the_order(messages: list[Any]) -> None:
    canaries = write_canaries(messages)
    for forms, written in list_forms(canaries.messages):
        assert written == write(canaries.messages, forms)
        text = json.dumps(written)
        assert not canaries.find_lost(text)
        assert all(text.count(word) == 1 for word in canaries.words)
        if ConversationForm.SINGLE_CALLS not in forms:
            assert canaries.are_in_order(text, ())
        calls = Counter(len(message.get("tool_calls") or ()) for message in written)
        if ConversationForm.SINGLE_CALLS in forms:
            assert not calls[2]


def test_the_documents_name_each_form() -> None:
    text = Path("docs/formats.md").read_text(encoding="utf-8")
    assert [form.name for form in ConversationForm if f"`{form.name.lower()}`" not in text] == []


def test_the_default_template_has_a_second_system_message() -> None:
    prompt = Compiler(VOCABULARY, ChatTemplate(HERMES)).compile(Job([HEAD, LATE, USER])).prompt
    assert judge([HEAD, LATE, USER], prompt.text)[0] is Fate.IN_ORDER


def test_what_no_form_carries_is_refused_with_its_place() -> None:
    source = "{% for m in messages if m.role == 'user' %}<|user|>{{ m.content }}<|end|>{% endfor %}"
    compiler = Compiler(VOCABULARY, ChatTemplate(source))
    with pytest.raises(Exception, match="leaves out this message of the role 'assistant'") as info:
        compiler.compile(Job([USER, REPLY, AGAIN]))
    assert getattr(info.value, "where", "") == "/messages/1/content"
