"""The suite tells each mutant by exactly one finding, and the checks that show it are those of the
table `checks.json`; it finds nothing in the correct parsers."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from grammars.suite.checks import CHECKS, SuiteCheck
from grammars.suite.draws import Draws
from grammars.suite.reading import CheckedParser, Claims
from grammars.suite.run import Failure, find_failures
from grammars.suite.strategies import Example
from tests.suite_mutants.mistral_parsers import MistralStream
from tests.suite_mutants.mutants import FORMATS, MUTANTS, Mutant
from tests.suite_mutants.readings import Parser

EXPECTED: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("checks.json").read_text("utf-8")
)
"""The checks that show each mutant. Those without one differ from their parser only in white space
around content or reasoning, which parsers leave out in different ways."""
FEW = 300
"""With more examples than this, a check reads only a part of them here."""
CHOSEN = settings(max_examples=50, database=None)


def claim(base: type[Parser]) -> Claims:
    return Claims(damage=base is not MistralStream)


@cache
def draw(base: type[Parser]) -> list[SuiteCheck]:
    """The checks with examples that all mutants of a parser share, since drawing takes longer.

    Hypothesis also draws the constants of the modules that are loaded: without them, examples do
    not depend on which tests ran before."""
    draws = Draws(CheckedParser(base, FORMATS[base], claim(base)), CHOSEN, seed=0)
    kept: list[SuiteCheck] = []
    values = type(providers.CONSTANTS_CACHE)(1024)
    with (
        patch.object(providers, "_get_local_constants", Constants),
        patch.object(providers, "CONSTANTS_CACHE", values),
    ):
        for check in CHECKS:
            examples = list(check.examples(draws))
            kept.append(_keep(check, examples[:: 1 + len(examples) // FEW]))
    return kept


def _keep(check: SuiteCheck, examples: list[Example]) -> SuiteCheck:
    def list_them(draws: Draws) -> Iterator[Example]:
        return iter(examples)

    return replace(check, examples=list_them)


def search(make: type[Parser], base: type[Parser]) -> list[Failure]:
    return find_failures(make, FORMATS[base], claims=claim(base), checks=draw(base))


@pytest.mark.parametrize("base", FORMATS, ids=lambda base: base.__name__)
def test_nothing_is_found_in_a_correct_parser(base: type[Parser]) -> None:
    assert search(base, base) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_mutant_is_one_finding_of_the_checks_in_the_table(mutant: Mutant) -> None:
    found = search(mutant.make, mutant.base)
    wanted = EXPECTED[mutant.name]
    assert len(found) == bool(wanted), [failure.report for failure in found]
    for failure in found:
        assert sorted(failure.checks) == sorted(wanted)
        assert len(failure.text) < 170


def test_the_table_has_all_mutants_and_all_checks_but_one() -> None:
    assert EXPECTED.keys() == {mutant.name for mutant in MUTANTS}
    shown = {name for names in EXPECTED.values() for name in names}
    # None of the parsers reads whole texts in another way than pieces.
    assert {check.name for check in CHECKS} - shown <= {"streams_the_same", "invents_nothing"}
