"""A test suite for any parser of tool calls (extra `suite`).

Needs Hypothesis. Start with `run`.
"""

from grammars.suite.parser_output import ParserRefusal, Reading
from grammars.suite.run import CHECKS, Claims, assert_parser, find_failures

__all__ = ["CHECKS", "Claims", "ParserRefusal", "Reading", "assert_parser", "find_failures"]
