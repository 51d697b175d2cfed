"""A test suite for parsers of tool calls, also for those of others (extra `suite`).

Needs Hypothesis. Start with `run`.
"""

from grammars.suite.run import Claims, Reading, assert_parser, find_failures

__all__ = ["Claims", "Reading", "assert_parser", "find_failures"]
