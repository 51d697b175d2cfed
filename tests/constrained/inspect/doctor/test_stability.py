"""Whether prompts begin with what is cached, and what differs where they do not."""

from dataclasses import replace

from constrained.inspect.doctor.checks.cache import Case, check_cache, list_cases
from constrained.inspect.doctor.conversations import SHAPES
from constrained.inspect.doctor.stability import Break, Contract, Walk, Walker
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.verdicts import Level, Verdict
from tests.real_templates import read_template
from tests.unstable_templates import DATED, HARMFUL, HARMLESS, KEPT, LAST_QUERY, SWITCHED

PLAIN, TOOLS, LOOP, KEEPS, DROPS = (shape.name for shape in SHAPES)


def make_subject(source: str) -> Subject:
    return Subject("test", source, bos_text="<s>", eos_text="</s>")


def find_cases(source: str) -> dict[str, Case]:
    """The cases by the name of the shape, with thinking as it is by default."""
    cases = list_cases(make_subject(source))
    return {case.walk.shape.name: case for case in cases if not case.mode}


def find_verdicts(source: str) -> list[Verdict]:
    return list(check_cache(make_subject(source)))


def find_break(walk: Walk, contract: Contract) -> Break | None:
    return next((found for found in walk.breaks if found.contract is contract), None)


def list_stable(cases: dict[str, Case]) -> list[str]:
    """The shapes whose prompts all begin with what is cached."""
    return [name for name, case in cases.items() if case.walk.is_stable]


def test_a_template_that_rewrites_nothing_is_stable_in_all_shapes():
    verdicts = find_verdicts(KEPT.replace("message.reasoning_content", "none"))
    assert [verdict.facts["shape"] for verdict in verdicts] == [shape.name for shape in SHAPES]
    assert {verdict.level for verdict in verdicts} == {Level.OK}
    assert all(verdict.facts["stable"] for verdict in verdicts)


def test_reasoning_that_is_kept_is_stable_where_it_is_sent_back():
    cases = find_cases(KEPT)
    assert list_stable(cases) == [PLAIN, TOOLS, LOOP, KEEPS]
    dropped = find_break(cases[DROPS].walk, Contract.TURN)
    assert dropped is not None
    assert dropped.drops_reasoning
    assert dropped.lost > 10
    (verdict,) = (v for v in find_verdicts(KEPT) if v.facts["shape"] == DROPS)
    assert verdict.text.endswith(". The client does not send reasoning back")


def test_reasoning_that_the_template_drops_is_told():
    case = find_cases(LAST_QUERY)[KEEPS]
    found = find_break(case.walk, Contract.PROMPT)
    assert found is not None
    assert found.turn == 2
    assert found.drops_reasoning
    assert "<think>" in found.earlier
    assert "<think>" not in found.later.partition("assistant")[2][:10]
    assert case.kept < 1
    assert case.keeps_by_recall
    (verdict,) = (v for v in find_verdicts(LAST_QUERY) if v.facts["shape"] == KEEPS)
    assert verdict.text.endswith(". The template leaves out reasoning that the client sends back")


def test_dates_are_told():
    verdict = find_verdicts(DATED)[-1]
    assert verdict.level is Level.NOTE
    assert verdict.facts["unit"] == "day"
    assert verdict.facts["offset"] == len("Today is 0")


def test_the_time_of_day_is_worse_than_a_date():
    verdict = find_verdicts(DATED.replace("%Y", "%Y %H:%M"))[-1]
    assert (verdict.level, verdict.facts["unit"]) == (Level.WARNING, "minute")


def test_a_template_without_dates_has_no_verdict_on_them():
    assert all("unit" not in verdict.facts for verdict in find_verdicts(KEPT))


def test_asking_for_the_last_message_is_harmless_where_nothing_depends_on_it():
    assert list_stable(find_cases(HARMLESS)) == list_stable(find_cases(KEPT))


def test_asking_for_the_last_message_is_told_where_the_prompt_depends_on_it():
    for case in find_cases(HARMFUL).values():
        found = find_break(case.walk, Contract.PROMPT)
        assert found is not None
        assert "\nAnswer in English." in found.earlier
        assert not found.drops_reasoning


def test_a_variable_that_keeps_prompts_stable_is_the_remedy():
    assert find_cases(SWITCHED)[KEEPS].cures == {"keep_all": True}
    assert find_cases(LAST_QUERY)[KEEPS].cures is None
    (verdict,) = (v for v in find_verdicts(SWITCHED) if v.facts.get("shape") == KEEPS)
    assert "--chat-template-kwargs '{\"keep_all\": true}'" in verdict.remedy


def test_what_the_history_spells_in_another_way_is_made_up_for():
    # The prompt closes an empty block, which the history does not have.
    source = KEPT.replace(
        "'<|im_start|>assistant\\n' }}{%- endif %}",
        "'<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}{%- endif %}",
    )
    assert source != KEPT
    for case in find_cases(source).values():
        assert find_break(case.walk, Contract.PROMPT) is not None
        assert case.kept == 1


def test_shapes_that_the_template_refuses_say_why():
    source = KEPT.replace(
        "message.role in ('user', 'tool')",
        "message.role == 'tool' %}{{ raise_exception('no results') }}{%- elif true",
    )
    verdicts = {verdict.facts["shape"]: verdict for verdict in find_verdicts(source)}
    assert "no results" in verdicts[LOOP].text
    assert verdicts[PLAIN].level is Level.OK


def test_qwen3_is_not_stable():
    cases = find_cases(read_template("Qwen-Qwen3-0.6B"))
    assert list_stable(cases) == [PLAIN, TOOLS, LOOP]
    found = find_break(cases[KEEPS].walk, Contract.PROMPT)
    assert found is not None
    assert found.drops_reasoning


def test_thinking_off_is_walked_where_it_changes_the_prompts():
    source = read_template("Qwen-Qwen3-0.6B")
    cases = list(list_cases(make_subject(source)))
    off = [case for case in cases if case.mode == "off"]
    assert {case.walk.shape.name for case in off} >= {PLAIN, TOOLS, LOOP}
    for case in off:
        found = find_break(case.walk, Contract.PROMPT)
        assert found is not None
        assert not found.drops_reasoning
        assert case.kept == 1  # the tokens of the turn are taken over


def test_qwen3_coder_is_stable_as_the_real_template_is_written():
    source = read_template("Qwen3-Coder")
    assert all(verdict.facts["stable"] for verdict in find_verdicts(source))


def test_tokens_are_counted_by_the_vocabulary_where_there_is_one():
    subject = make_subject(LAST_QUERY)
    shape = SHAPES[3]
    rough = find_break(Walker(subject.selected).walk(shape, {}), Contract.PROMPT)
    assert rough is not None

    class Counted:
        def encode_special(self, text: str, *, inside: bool = False) -> list[int]:
            return list(text.encode())

    exact = find_break(Walker(subject.selected, Counted()).walk(shape, {}), Contract.PROMPT)
    assert exact is not None
    assert exact.lost > 3 * rough.lost
    assert replace(exact, lost=rough.lost) == rough
