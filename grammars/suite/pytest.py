"""The checks of a parser as tests of pytest."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings

from grammars.suite.checks import CHECKS, SuiteCheck
from grammars.suite.own_parser import as_factory
from grammars.suite.run import assert_parser
from grammars.wire.format import Format


def parser_suite(
    parser: Callable[..., Any],
    format: Format,
    *,
    known: Mapping[str, str] | None = None,
    max_examples: int = 100,
    **claims: bool,
) -> Callable[[SuiteCheck], None]:
    """Returns a test of a parser, of which each check is an item: `test_parser =
    parser_suite(parse, HERMES)`.

    Args:
        parser: a function or a class, as `OwnParser` says.
        format: the wire format that it reads.
        known: by the names of checks, why they fail; if one passes, that is a failure, too.
        max_examples: the number of examples of each check.
        claims: fields of `Claims` that are others than its answers show.

    Raises:
        LookupError: `known` names no check.
    """
    factory, shown = as_factory(parser)
    chosen = replace(shown, **claims)
    reasons = dict(known or {})
    items: list[Any] = []
    for check in CHECKS:
        reason = reasons.pop(check.name, None)
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason is not None else []
        items.append(pytest.param(check, id=check.name, marks=marks))
    if reasons:
        raise LookupError(f"unknown checks: {', '.join(reasons)}")

    @pytest.mark.parametrize("check", items)
    def test(check: SuiteCheck) -> None:
        examples = settings(max_examples=max_examples)
        assert_parser(factory, format, claims=chosen, checks=[check], settings=examples)

    return test
