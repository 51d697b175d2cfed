"""The suite tells each mutant by exactly one finding, with the severity and the checks of the table
`checks.json`; it finds nothing in the correct parsers.

The table was written from the sentence that describes each fault, and from what the page on testing
parsers says of checks and severities: `checks` must show the fault. A check of damaged texts or of
cuts may show it, too; a check of whole texts that is not in the table may not.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from grammars.suite.checks import CHECKS, SuiteCheck
from grammars.suite.draws import Draws
from grammars.suite.reading import CheckedParser, Claims
from grammars.suite.run import WHOLE_CHECKS, Failure, find_failures
from grammars.suite.strategies import Example
from tests.suite_mutants.mistral_parsers import MistralStream
from tests.suite_mutants.mutants import FORMATS, MUTANTS, Mutant
from tests.suite_mutants.readings import Parser

EXPECTED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("checks.json").read_text("utf-8")
)
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
            kept.append(_keep(check, list(check.examples(draws))))
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
def test_each_mutant_is_one_finding_as_the_table_says(mutant: Mutant) -> None:
    found = search(mutant.make, mutant.base)
    assert len(found) == 1, [failure.report for failure in found]
    wanted, shown = set(EXPECTED[mutant.name]["checks"]), set(found[0].checks)
    assert found[0].changes[0].severity.name.lower() == EXPECTED[mutant.name]["severity"]
    assert wanted <= shown
    assert (shown - wanted).isdisjoint(WHOLE_CHECKS)
    assert len(found[0].text) < 170


def test_the_table_has_all_mutants_and_all_checks_but_two() -> None:
    assert EXPECTED.keys() == {mutant.name for mutant in MUTANTS}
    shown = {name for row in EXPECTED.values() for name in row["checks"]}
    # None of the parsers reads whole texts in another way than pieces.
    assert {check.name for check in CHECKS} - shown == {"streams_the_same", "invents_nothing"}
