"""Push parser: text -> events. The events do not depend on how the text is cut into chunks."""

from grammars.parse.parser import Parser, collect, parse

__all__ = ["Parser", "collect", "parse"]
