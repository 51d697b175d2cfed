"""Words for the effort of reasoning, in templates that know some of them."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.effort_words import GRADES, EffortWords, read_effort_words


def read(source: str) -> EffortWords:
    template = ChatTemplate(source + "{{ messages[0].content }}")
    return read_effort_words(lambda word: template.try_values({"effort": word}))


@given(st.sets(st.sampled_from(GRADES), min_size=1, max_size=5), st.sampled_from(GRADES))
def test_the_grade_of_all_other_words_is_found(known: set[str], other: str) -> None:
    listed = sorted(known - {other}) or ["low" if other != "low" else "high"]
    told = f"effort if effort in {listed} else '{other}'"
    words = read("Reasoning: {{ (" + told + ")|capitalize }}. ")
    assert words.known == {*listed, other}
    assert words.taken_for_other == {*GRADES} - {*listed, other}


def test_words_that_are_written_as_they_are_have_no_meaning() -> None:
    assert read("Reasoning: {{ effort }}. ") == EffortWords()
    assert read("Hello. ") == EffortWords()


def test_words_that_are_refused_are_not_taken_for_others() -> None:
    source = "{% if effort not in ['low', 'max'] %}{{ raise_exception('no') }}{% endif %}"
    assert read(source) == EffortWords(frozenset(["low", "max"]))


def test_a_branch_without_a_grade_takes_no_word() -> None:
    for left_out, grade in itertools.product(("", "Think. "), ("low", "high")):
        source = f"{{% if effort == '{grade}' %}}Briefly. {{% else %}}{left_out}{{% endif %}}"
        assert read(source) == EffortWords(frozenset([grade]))
