"""Whether prompts begin with what is cached, and which clause is to blame where they do not."""

from dataclasses import replace

from constrained.inspect.doctor.checks.cache import Case, check_cache, list_cases
from constrained.inspect.doctor.conversations import SHAPES
from constrained.inspect.doctor.stability import Contract, Walker
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.verdicts import Level, Verdict
from constrained.inspect.template_trace.clauses import Cause
from tests.real_templates import read_template
from tests.unstable_templates import (
    DATE_TAG,
    DATED,
    HARMFUL,
    HARMLESS,
    KEPT,
    LAST_QUERY,
    LAST_TAG,
    QUERY_TAG,
    STRIPPED,
    STRIPPING_TAG,
    SWITCHED,
)

PLAIN, TOOLS, LOOP, KEEPS, DROPS = (shape.name for shape in SHAPES)


def make_subject(source: str) -> Subject:
    return Subject("test", source, bos_text="<s>", eos_text="</s>")


def find_cases(source: str) -> dict[str, Case]:
    """The cases by the name of the shape, with thinking as it is by default."""
    cases = list_cases(make_subject(source))
    return {case.walk.shape.name: case for case in cases if not case.mode}


def find_verdicts(source: str) -> list[Verdict]:
    return list(check_cache(make_subject(source)))


def blame(case: Case, contract: Contract) -> tuple[str, Cause]:
    """The tag and the cause of a break."""
    found = case.walk.find(contract)
    assert found is not None
    assert found.clause is not None
    return found.clause.tag, found.clause.cause


def test_a_template_that_rewrites_nothing_is_stable_in_all_shapes():
    verdicts = find_verdicts(KEPT.replace("message.reasoning_content", "none"))
    assert [verdict.facts["shape"] for verdict in verdicts] == [shape.name for shape in SHAPES]
    assert {verdict.level for verdict in verdicts} == {Level.OK}
    assert all(verdict.facts["stable"] for verdict in verdicts)


def test_reasoning_that_is_kept_is_stable_where_it_is_sent_back():
    cases = find_cases(KEPT)
    assert {name for name, case in cases.items() if case.is_harmless} == {PLAIN, TOOLS, LOOP, KEEPS}
    dropped = cases[DROPS].walk.find(Contract.TURN)
    assert dropped is not None
    assert dropped.drops_reasoning
    assert dropped.lost > 10


def test_the_place_of_the_last_question_is_named():
    case = find_cases(LAST_QUERY)[KEEPS]
    assert blame(case, Contract.PROMPT) == (QUERY_TAG, Cause.LAST_QUERY)
    found = case.walk.find(Contract.PROMPT)
    assert found is not None
    assert found.turn == 2
    assert "<think>" in found.earlier
    assert "<think>" not in found.later.partition("assistant")[2][:10]
    assert case.kept < 1
    assert case.keeps_by_recall


def test_reasoning_that_is_stripped_from_the_content_is_named():
    cases = find_cases(STRIPPED)
    found = cases[KEEPS].walk.find(Contract.PROMPT) or cases[KEEPS].walk.find(Contract.TURN)
    assert found is not None
    walker = Walker(make_subject(STRIPPED).selected)
    clause = walker.find_stripping({})
    assert clause is not None
    assert (clause.tag, clause.cause) == (STRIPPING_TAG, Cause.REASONING)


def test_no_clause_strips_where_the_content_is_written_as_it_is():
    assert Walker(make_subject(KEPT).selected).find_stripping({}) is None


def test_dates_are_named():
    verdict = find_verdicts(DATED)[-1]
    assert verdict.level is Level.NOTE
    assert verdict.facts["unit"] == "day"
    assert verdict.facts["offset"] == len("Today is 0")
    assert verdict.facts["clause"]["tag"] == DATE_TAG
    assert verdict.facts["clause"]["cause"] == "DATE"


def test_the_time_of_day_is_worse_than_a_date():
    verdict = find_verdicts(DATED.replace("%Y", "%Y %H:%M"))[-1]
    assert (verdict.level, verdict.facts["unit"]) == (Level.WARNING, "minute")


def test_a_template_without_dates_has_no_verdict_on_them():
    assert all("unit" not in verdict.facts for verdict in find_verdicts(KEPT))


def test_asking_for_the_last_message_is_harmless_where_nothing_depends_on_it():
    harmless, plain = find_cases(HARMLESS), find_cases(KEPT)
    assert [case.is_harmless for case in harmless.values()] == [
        case.is_harmless for case in plain.values()
    ]


def test_asking_for_the_last_message_is_named_where_the_prompt_depends_on_it():
    for case in find_cases(HARMFUL).values():
        assert blame(case, Contract.PROMPT) == (LAST_TAG, Cause.FOLLOWING)
        assert blame(case, Contract.HISTORY) == (LAST_TAG, Cause.FOLLOWING)


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
        assert case.walk.find(Contract.PROMPT) is not None
        assert case.kept == 1


def test_shapes_that_the_template_refuses_say_why():
    source = KEPT.replace(
        "message.role in ('user', 'tool')",
        "message.role == 'tool' %}{{ raise_exception('no results') }}{%- elif true",
    )
    verdicts = {verdict.facts["shape"]: verdict for verdict in find_verdicts(source)}
    assert "no results" in verdicts[LOOP].text
    assert verdicts[PLAIN].level is Level.OK


def test_qwen3_is_not_stable_and_the_clause_is_named():
    source = read_template("Qwen-Qwen3-0.6B")
    cases = find_cases(source)
    assert [name for name, case in cases.items() if case.is_harmless] == [PLAIN, TOOLS, LOOP]
    tag, cause = blame(cases[KEEPS], Contract.PROMPT)
    assert tag == "{%- if loop.index0 > ns.last_query_index %}"
    assert cause is Cause.LAST_QUERY


def test_thinking_off_is_walked_where_it_changes_the_prompts():
    source = read_template("Qwen-Qwen3-0.6B")
    cases = list(list_cases(make_subject(source)))
    off = [case for case in cases if case.mode == "off"]
    assert {case.walk.shape.name for case in off} >= {PLAIN, TOOLS, LOOP}
    for case in off:
        found = case.walk.find(Contract.PROMPT)
        assert found is not None
        assert found.clause is not None
        assert found.clause.cause is Cause.PROMPT
        assert case.kept == 1  # the tokens of the turn are taken over


def test_qwen3_coder_is_stable_as_the_real_template_is_written():
    source = read_template("Qwen3-Coder")
    assert all(verdict.facts["stable"] for verdict in find_verdicts(source))


def test_tokens_are_counted_by_the_vocabulary_where_there_is_one():
    subject = make_subject(LAST_QUERY)
    shape = SHAPES[3]
    rough = Walker(subject.selected).walk(shape, {}).find(Contract.PROMPT)
    assert rough is not None

    class Counted:
        def encode_special(self, text: str, *, inside: bool = False) -> list[int]:
            return list(text.encode())

    exact = Walker(subject.selected, Counted()).walk(shape, {}).find(Contract.PROMPT)
    assert exact is not None
    assert exact.lost > 3 * rough.lost
    assert replace(exact, lost=rough.lost) == rough
