"""Rewrites a client's Lark grammar as one regular expression, if its language is regular: the text
of a custom tool is inside a JSON string, which can have patterns, but no rules.

Rules are expanded at each reference, so recursive rules are refused. What lark's lexer would decide
(longest terminal, priorities) stays open: any reading of the text counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lark import Token
from lark.exceptions import LarkError
from lark.grammar import NonTerminal, Terminal

# lark does not annotate this function.
from lark.load_grammar import (
    eval_escaping,  # pyright: ignore[reportUnknownVariableType]
    load_grammar,  # pyright: ignore[reportUnknownVariableType]
)

from grammars.errors import SchemaError
from grammars.limits.steps import spend
from grammars.regex.writing import escape_regex

MAX_DEFINITION = 50_000  # characters; lark reads some 100,000 a second
MAX_TEXT = 200_000
"""The maximum number of characters of the expression: rules are expanded at each reference."""
_RULE_TREE = 2  # its index in (name, template parameters, tree, options)


def express_lark(definition: str) -> str:
    """Returns the regular expression of a grammar, in the dialect of JSON Schema's `pattern`. Its
    first rule is `start`; it may import from lark's own files.

    Raises:
        SchemaError: the grammar is invalid or too large, or its language is not regular.
    """
    if len(definition) > MAX_DEFINITION:
        message = f"the grammar has {len(definition):,} characters, the limit is {MAX_DEFINITION:,}"
        raise SchemaError(message, where="", hint="Simplify it")
    try:
        loaded: tuple[Any, Any] = load_grammar(definition, "<grammar>", [_refuse_files], False)
    except (LarkError, OSError, AssertionError, RecursionError, ValueError) as error:
        first = (str(error).strip() or "it cannot be read").splitlines()[0]
        raise SchemaError(f"the grammar is not valid: {first}", where="") from error
    grammar, _ = loaded
    terminals: dict[str, Any] = {str(name): tree for name, (tree, _) in grammar.term_defs}
    rules: dict[str, Any] = {}
    for rule in grammar.rule_defs:
        if rule[1]:
            raise SchemaError("rule templates are not supported", where="")
        rules[str(rule[0])] = rule[_RULE_TREE]
    writer = _Writer(terminals, rules, [str(name) for name in grammar.ignore])
    try:
        return writer.write_start()
    except RecursionError as error:
        raise SchemaError("the grammar nests too deeply", where="") from error


def _refuse_files(base_path: str | None, path: str) -> tuple[str, str]:
    """Returns the first import source that lark asks. It refuses files of this machine, since
    clients must not read them; lark then asks its own library."""
    if base_path is not None:
        raise LarkError(f"{path!r} cannot be imported: only files of lark's library can")
    raise FileNotFoundError(path)


class _Writer:
    """Writes the trees of lark's grammar reader, by the names of terminals and rules, as an
    expression. Terminals that are `ignored` are allowed between others."""

    def __init__(
        self, terminals: Mapping[str, Any], rules: Mapping[str, Any], ignored: Sequence[str]
    ):
        self._terminals = terminals
        self._trees = {**terminals, **rules}
        self._ignored = ignored
        self._texts: dict[str, str] = {}
        self._under_way: list[str] = []
        self._gap = ""  # what may follow a terminal
        self._is_inside_terminal = False

    def write_start(self) -> str:
        if "start" not in self._trees:
            raise SchemaError("the grammar has no rule start", where="")
        names = [self._write_name(name) for name in self._ignored]
        if names:
            self._gap = f"(?:{'|'.join(names)})*"
            self._texts.clear()
        return f"^{self._gap}{self._write_name('start')}$"

    def _write_name(self, name: str) -> str:
        if name in self._texts:
            return self._texts[name]
        if name in self._under_way:
            raise SchemaError(
                f"the rule {name!r} refers to itself",
                where="",
                hint="Write repetitions with * and +: the text stands in a JSON string, which "
                "holds regular languages",
            )
        tree = self._trees.get(name)
        if tree is None:
            raise SchemaError(f"{name!r} is declared, but not defined", where="")
        was_inside = self._is_inside_terminal
        is_terminal = name in self._terminals
        self._under_way.append(name)
        self._is_inside_terminal = was_inside or is_terminal
        text = f"(?:{self._write(tree)})"
        self._is_inside_terminal = was_inside
        self._under_way.pop()
        if is_terminal and not was_inside:
            text += self._gap
        if not was_inside:
            self._texts[name] = text
        return text

    def _write(self, node: Any) -> str:
        spend()
        text = self._write_node(node)
        if len(text) > MAX_TEXT:
            message = f"the grammar is too large: it comes to more than {MAX_TEXT:,} characters"
            raise SchemaError(message, where="", hint="Simplify it")
        return text

    def _write_node(self, node: Any) -> str:
        if isinstance(node, Terminal | NonTerminal):
            return self._write_name(node.name)
        kind: str = getattr(node, "data", type(node).__name__)
        parts: list[Any] = getattr(node, "children", [])
        match kind, parts:
            case "expansions", options:
                return f"(?:{'|'.join([self._write(option) for option in options])})"
            case "expansion", _:
                return "".join([self._write(part) for part in parts])
            case "value", [inner]:
                return self._write(inner)
            case "alias", [inner, *_]:  # names a tree
                return self._write(inner)
            case "maybe", [inner]:
                return f"(?:{self._write(inner)})?"
            case "expr", [inner, *operator]:
                return f"(?:{self._write(inner)}){_write_operator(operator)}"
            case "literal", [token]:
                return self._close(_write_literal(token))
            case "range", [first, last]:
                low, high = _read_string(first), _read_string(last)
                if len(low) != 1 or len(high) != 1:
                    message = f"the range {first}..{last} must go from one character to another"
                    raise SchemaError(message, where="")
                return self._close(f"[{_escape_in_set(low)}-{_escape_in_set(high)}]")
            case _:
                raise SchemaError(f"the grammar has a part that is not supported: {kind}", where="")

    def _close(self, text: str) -> str:
        """Ends a literal of a rule, which is a terminal, too."""
        return text if self._is_inside_terminal else f"(?:{text}){self._gap}"


def _write_operator(operator: Sequence[Token]) -> str:
    """Writes `?`, `*`, `+`, `~ 2` or `~ 2..3`."""
    match [str(part) for part in operator]:
        case ["~", count]:
            return f"{{{count}}}"
        case ["~", fewest, most]:
            return f"{{{fewest},{most}}}"
        case [sign]:
            return sign
        case parts:
            raise SchemaError(f"the operator {' '.join(parts)!r} is not known", where="")


def _write_literal(token: Token) -> str:
    if token.type == "REGEXP":
        return _write_regex(str(token))
    if not token.endswith("i"):
        return escape_regex(_read_string(token))
    parts: list[str] = []
    for character in _read_string(token):
        cases = sorted({character.lower(), character.upper(), character})
        if len(cases) > 1 and all(len(case) == 1 for case in cases):
            parts.append(f"[{''.join(cases)}]")
        else:
            parts.append(escape_regex(character))
    return "".join(parts)


def _read_string(token: Token) -> str:
    """Returns the text of a string literal of the grammar."""
    body = token.removesuffix("i")[1:-1]
    try:
        text = str(eval_escaping(body)).replace("\\\\", "\\")  # as lark reads it
        text.encode()
    except (LarkError, ValueError) as error:  # invalid escapes, NUL; surrogates
        message = f"the string {token[:100]} of the grammar cannot be read"
        hint = "Write the characters themselves"
        raise SchemaError(message, where="", hint=hint) from error
    return text


def _write_regex(text: str) -> str:
    """Writes an expression between slashes, with optional flags after them."""
    body, _, flags = text[1:].rpartition("/")
    if flags:
        message = f"the expression {text!r} has flags, which are not supported"
        raise SchemaError(message, where="", hint="Write both cases, or [\\s\\S]")
    return f"(?:{body.replace(chr(92) + '/', '/')})"


def _escape_in_set(character: str) -> str:
    return "\\" + character if character in "\\]^-" else character
