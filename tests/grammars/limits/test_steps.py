"""Steps are counted for the work and for the work around it, and work can be stopped."""

import pytest

from grammars.limits.steps import StepsError, check_wanted, limit_steps, spend, stop_when


def test_without_a_limit_nothing_is_counted() -> None:
    spend(10**12)
    check_wanted()


def test_work_ends_when_its_steps_are_spent() -> None:
    with limit_steps(10) as account:
        spend(9)
        spend()
        assert account.left == 0
        with pytest.raises(StepsError, match="10 steps"):
            spend()
    spend(10**12)


def test_steps_count_for_the_work_around() -> None:
    with limit_steps(10) as outer:
        with limit_steps(100):
            spend(4)
        assert outer.left == 6
        with limit_steps(100), pytest.raises(StepsError, match="10 steps"):
            spend(7)


def test_work_looks_whether_it_is_wanted() -> None:
    looks: list[int] = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise TimeoutError

    with stop_when(check), limit_steps(10**6):
        check_wanted()
        for _ in range(10):
            spend(100)
        assert len(looks) == 2
        with pytest.raises(TimeoutError):
            spend(1_000)
