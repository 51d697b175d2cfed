"""What was found out of a template is known of every other one of the same text."""

import pytest

from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import TemplateError
from constrained.model.compile.compiler import Compiler
from constrained.prompt.format_selection import template_facts
from constrained.prompt.format_selection.generic import CHATML, GenericTemplate
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.format_selection.template_facts import find_facts
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.infer.detection import Detection, NoFormat, Origin
from grammars.wire.formats import GENERIC, QWEN3_CODER
from tests.real_templates import real_templates
from tests.templates import HERMES, PING

SOURCE = "{# seen by this test alone #}" + HERMES
CHAT = "{# seen by this test alone #}" + CHATML


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of the templates that were rendered, in order."""
    rendered: list[str] = []
    render = ChatTemplate.render

    def spy(self: ChatTemplate, *args: object, **kwargs: object) -> str:
        rendered.append(self.source)
        return render(self, *args, **kwargs)

    monkeypatch.setattr(ChatTemplate, "render", spy)
    template_facts._FACTS.clear()
    return rendered


def test_the_same_text_is_probed_once(probed: list[str]) -> None:
    first = find_facts(ChatTemplate(SOURCE)).detection
    assert isinstance(first, Detection)
    select_format(ChatTemplate(SOURCE))
    assert probed
    probed.clear()
    assert find_facts(ChatTemplate(SOURCE, name="another")).detection is first
    Compiler(byte_vocabulary(), ChatTemplate(SOURCE))
    assert select_format(ChatTemplate(SOURCE)).format is first.format
    assert not probed
    select_format(ChatTemplate(SOURCE), QWEN3_CODER)
    probed.clear()
    select_format(ChatTemplate(SOURCE), QWEN3_CODER)
    assert 0 < len(probed) < 5  # the prompt that it writes is looked at each time


def test_other_tokens_or_texts_are_probed(probed: list[str]) -> None:
    for given in ({}, {"bos_token": "<s>"}, {"eos_token": "<s>"}, {"bos_token": "<s"}):
        probed.clear()
        assert find_facts(ChatTemplate(SOURCE, **given)).detection
        assert probed, given
    probed.clear()
    assert find_facts(ChatTemplate(SOURCE + " ")).detection
    assert probed


def test_a_template_that_teaches_nothing_is_probed_once_under_each_name(
    probed: list[str],
) -> None:
    known = select_format(ChatTemplate(CHAT, name="one"))
    assert known.notice.startswith("one: ")
    probed.clear()
    again = select_format(ChatTemplate(CHAT, name="two"))
    assert again.notice == known.notice.replace("one", "two", 1)
    assert len(probed) == 1  # the plain message, which tells templates that always fail


def test_a_broken_template_names_itself() -> None:
    source = "{{ raise_exception('no') }}"
    for name in ("one", "two"):
        with pytest.raises(TemplateError, match=f"{name}, line 1: no"):
            select_format(ChatTemplate(source, name=name))


def test_a_subclass_is_not_mistaken_for_its_source(probed: list[str]) -> None:
    template = ChatTemplate(CHAT)
    assert isinstance(find_facts(template).detection, NoFormat)
    facts = find_facts(GenericTemplate(template, GENERIC))
    assert isinstance(facts.detection, Detection)
    assert facts.chat.reasoning is None


def test_calls_that_a_template_writes_in_part_are_written_here() -> None:
    """This one drops calls beside content, and what closes a single call."""
    source = real_templates()["deepseek-ai-DeepSeek-R1-Distill-Llama-8B"].source
    selected = select_format(ChatTemplate(source))
    assert (selected.format.name, selected.origin) == ("deepseek_r1", Origin.REGISTERED)
    function = {"name": "ping", "arguments": {}}
    call = {"id": "a", "type": "function", "function": function}
    text = selected.template.render(
        [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "Well.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "pong"},
        ],
        [PING],
    )
    assert "Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n" in text
    assert text.rpartition("ping")[2].count("<｜tool▁calls▁end｜>") == 1
    assert "pong" in text
