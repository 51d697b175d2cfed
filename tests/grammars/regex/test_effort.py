import pytest

from grammars.regex.effort import ExhaustedError, SearchEffort, limit_effort, spend


def test_steps_are_taken_from_the_effort_under_way():
    spend(10**9)  # none is
    effort = SearchEffort(5)
    with limit_effort(effort):
        spend(2)
        spend()
    assert effort.left == 2
    spend(10**9)
    with pytest.raises(ExhaustedError), limit_effort(effort):
        spend(3)
