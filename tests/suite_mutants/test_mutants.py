"""Each mutant differs from its parser on its example, as the table says; on plain text, it does
not."""

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.suite_mutants.mutants import FORMATS, MUTANTS, TOOLS, Mutant
from tests.suite_mutants.readings import Parser, Summary, summarize


def read(make: type[Parser], chunks: Sequence[str]) -> Summary | str:
    """What a parser reads, or the name of the error that it raises."""
    try:
        return summarize(make, TOOLS, chunks)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_shows_its_fault(mutant: Mutant):
    assert read(mutant.base, mutant.chunks) == mutant.expected
    assert read(mutant.make, mutant.chunks) == mutant.wrong
    assert mutant.wrong != mutant.expected


def test_each_mutant_has_one_row_and_a_fault_of_its_own():
    names = Counter(mutant.name for mutant in MUTANTS)
    assert set(names.values()) == {1}
    assert len({mutant.fault for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.fault != " ".join(str(mutant.base.__doc__).split()) for mutant in MUTANTS)
    assert {mutant.base for mutant in MUTANTS} == set(FORMATS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_reads_plain_text(mutant: Mutant):
    assert read(mutant.make, ["Hi", " there"]) == read(mutant.base, ["Hi", " there"])
