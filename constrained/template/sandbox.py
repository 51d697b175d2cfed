"""Jinja in a sandbox that counts its work, see `work_limits`.

jinja2's own sandbox protects the machine, but does not limit time and memory. Here, no constants
are computed when a template is compiled (jinja2 folds them, even in branches that never run), and
everything that can repeat or grow is counted when it runs: passes of loops, calls of macros,
operators, filters, methods, and the text that is written.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import wraps
from types import BuiltinMethodType, MethodType
from typing import Any

from jinja2 import meta, nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import TemplateSyntaxError
from jinja2.runtime import Context, Macro, markup_join, str_join
from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter
from jinja2.visitor import NodeTransformer
from markupsafe import EscapeFormatter, Markup

from constrained.template.work_limits import (
    CHARACTERS,
    MAX_SOURCE,
    TemplateLimitError,
    check_integer,
    count_items,
    spend,
    spend_text,
    sum_depths,
    weigh,
)

_NUMBER = re.compile(r"\d+")
_MAX_NUMBER_LENGTH = 8  # digits of a width
# A conversion of printf: the name, the flags, the width and the precision, each a number or a *.
_WIDTHS = r"[-+ #0]*(\d+|\*)?(?:\.(\d+|\*))?"
_CONVERSION = re.compile(rf"%(?:\([^)]*\))?{_WIDTHS}")
_NAMELESS_CONVERSION = re.compile(f"%{_WIDTHS}")
# Methods that take no longer for a long text or list than for a short one.
_BRIEF_METHODS = frozenset({"append", "get", "items", "keys", "pop", "setdefault", "values"})
_BRIEF_FILTERS = frozenset(
    {"attr", "count", "d", "default", "first", "items", "last", "length", "safe"}
)
_BRIEF_TESTS = frozenset(
    {
        "boolean",
        "callable",
        "defined",
        "divisibleby",
        "even",
        "false",
        "filter",
        "float",
        "integer",
        "iterable",
        "mapping",
        "none",
        "number",
        "odd",
        "sameas",
        "sequence",
        "string",
        "test",
        "true",
        "undefined",
    }
)
# Filters that can take quadratic time.
_SLOW_FILTERS = frozenset({"pprint", "striptags", "urlize", "wordwrap", "xmlattr"})
_MAX_SLOW_FILTER_INPUT = 20_000  # characters
# Methods and filters of texts that compare each character with each one of another text, at worst.
_COMPARING = frozenset(
    {"lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip", "trim"}
)
_SPLITS = frozenset({"split", "rsplit", "splitlines", "title", "wordcount", "from_json", "list"})
# Functions of values other than text whose integer arguments are widths or counts.
_WIDENING = frozenset({"batch", "center", "indent", "slice", "to_bytes", "truncate"})
_ENCODINGS = frozenset(
    {"utf-8", "utf8", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso8859-1"}
)
_ENCODING_ERRORS = frozenset({"strict", "ignore", "replace"})
_MAX_CODE_BYTES = 4  # of a character
CALL, MACRO = 10, 30  # steps of each call, besides those of its work
_MAX_INDENT = 100  # characters


def _count_step(node: nodes.Node) -> nodes.Expr:
    """Makes an expression that counts a step, and is true. jinja2 forbids custom nodes, but writes
    the name of this one into the code unchanged."""
    return nodes.EnvironmentAttribute("spend()", lineno=node.lineno)


def _step_statement(node: nodes.Node) -> nodes.Stmt:
    return nodes.ExprStmt(_count_step(node), lineno=node.lineno)


class _CountSteps(NodeTransformer):
    """Adds a step to everything that can repeat: the bodies of loops and macros, and the conditions
    of loops, which also see items that the body does not."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _step_statement(node))
        if node.test is not None:
            node.test = nodes.And(_count_step(node), node.test, lineno=node.lineno)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _step_statement(node))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        node.body.insert(0, _step_statement(node))
        return node


class _CountingCodeGenerator(CodeGenerator):
    """Compiles templates to Python that counts."""

    def visit_Concat(self, node: nodes.Concat, frame: Any) -> None:
        self.write("environment.join_texts(context, (")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_Compare(self, node: nodes.Compare, frame: Any) -> None:
        self.write("(")
        self._visit_weighed(node.expr, frame)
        for operand in node.ops:
            self.visit(operand, frame)
        self.write(")")

    def visit_Operand(self, node: nodes.Operand, frame: Any) -> None:
        self.write(f" {_OPERATORS[node.op]} ")
        self._visit_weighed(node.expr, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Any) -> None:
        self.write("{")
        for pair in node.items:
            self._visit_weighed(pair.key, frame)
            self.write(": ")
            self.visit(pair.value, frame)
            self.write(", ")
        self.write("}")

    def visit_Getitem(self, node: nodes.Getitem, frame: Any) -> None:
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.weigh_cut(")
        self.visit(node.node, frame)
        self.write(")[")
        self.visit(node.arg, frame)
        self.write("]")

    def _visit_weighed(self, node: nodes.Expr, frame: Any) -> None:
        if isinstance(node, nodes.Const) and not isinstance(node.value, int):
            self.visit(node, frame)
            return
        self.write("environment.weigh(")
        self.visit(node, frame)
        self.write(")")

    def _output_child_to_const(self, node: nodes.Expr, frame: Any, finalize: Any) -> str:
        # Filters and comparisons are never constants here: they would be computed at compile time.
        if not isinstance(node, (nodes.TemplateData, nodes.Const)):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)


_OPERATORS = {
    "eq": "==",
    "ne": "!=",
    "gt": ">",
    "gteq": ">=",
    "lt": "<",
    "lteq": "<=",
    "in": "in",
    "notin": "not in",
}


class _VariableFinder(_CountingCodeGenerator, meta.TrackingCodeGenerator):
    """Finds the variables that a template reads; jinja2's own class would fold constants."""

    def __init__(self, environment: Any):
        super().__init__(environment)
        self.optimizer = None


def find_variables(tree: nodes.Template) -> frozenset[str]:
    """Returns the names of the variables that a template reads."""
    finder = _VariableFinder(tree.environment)
    finder.visit(tree)
    return frozenset(finder.undeclared_identifiers)


class CountingEnvironment(SandboxedEnvironment):
    """jinja2's sandbox, with all work of its templates counted.

    Any operation may raise TemplateLimitError.
    """

    code_generator_class = _CountingCodeGenerator
    intercepted_binops = frozenset(SandboxedEnvironment.default_binop_table)

    def __init__(self, **options: Any):
        super().__init__(**options, optimized=False, finalize=weigh)
        del self.globals["lipsum"]  # random text of any length, which no prompt needs
        self.spend = spend
        self.weigh = weigh
        self.concat = _join_pieces

    def count_filters(self) -> None:
        """Counts the work of all current filters and tests."""
        for name, function in self.filters.items():
            self.filters[name] = _count_filter(name, function)
        for name, function in self.tests.items():
            if name not in _BRIEF_TESTS:
                self.tests[name] = _count_filter(name, function)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        if len(source) > MAX_SOURCE:
            raise TemplateLimitError(
                f"the template has {len(source):,} characters, the limit is {MAX_SOURCE:,}"
            )
        tree = super()._parse(source, name, filename)
        for folder in tree.find_all((nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
            # No template can be loaded, and its work would not be counted.
            raise TemplateSyntaxError("a template cannot load another one", folder.lineno)
        return tree

    def _generate(self, source: nodes.Template, *args: Any, **options: Any) -> str:
        # Not at parsing: code that reads the tree needs the template as it was written.
        return super()._generate(_CountSteps().visit(source), *args, **options)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _count_operator(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def getitem(self, obj: Any, argument: Any) -> Any:
        _weigh_key(argument)
        return super().getitem(obj, argument)

    def join_texts(self, context: Context, values: tuple[Any, ...]) -> str:
        """Joins values to a text, as the operator `~` does."""
        for value in values:
            weigh(value)
        spend_text(sum(len(value) for value in values if isinstance(value, str)))
        if context.eval_ctx.autoescape:
            return markup_join(values)
        return str_join(values)

    def weigh_cut(self, value: Any) -> Any:
        """Counts the work of a slice; returns the value that is sliced."""
        if isinstance(value, (str, bytes)):
            spend_text(len(value))
        elif isinstance(value, (list, tuple)):
            spend(1 + len(value))
        return value

    # As in jinja2, whose parameter names leave other names to the keyword arguments of templates.
    def call(
        __self,  # noqa: N805
        __context: Context,
        __obj: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if isinstance(__obj, Macro):
            spend(MACRO)  # its body counts its own work
        else:
            args = _list_joined(getattr(__obj, "__name__", ""), args)
            _count_call(__obj, args, kwargs)
        made = super().call(__context, __obj, *args, **kwargs)
        return _count_made(made)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        is_method = isinstance(value, (MethodType, BuiltinMethodType))
        if not is_method or value.__name__ not in ("format", "format_map"):
            return None
        text = value.__self__
        if not isinstance(text, str):
            return None
        formatter: SandboxedFormatter = _CountingFormatter(self)
        if isinstance(text, Markup):
            formatter = _CountingEscapeFormatter(self, escape=text.escape)
        maps = value.__name__ == "format_map"

        def format(*args: Any, **kwargs: Any) -> str:
            fields = kwargs
            if maps:
                (fields,) = args
                args = ()
            spend_text(len(text))
            return type(text)(formatter.vformat(text, args, fields))

        return format


class _CountingFormatter(SandboxedFormatter):
    """Formats like `str.format`, but limits the width."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        weigh(value)
        spend_text(sum_numbers(format_spec))
        return super().format_field(value, format_spec)


class _CountingEscapeFormatter(_CountingFormatter, EscapeFormatter):
    """Formats text that is safe in HTML, with the same limit."""


def sum_numbers(text: str) -> int:
    """Adds up all numbers in a text, as widths that may add up."""
    total = 0
    for number in _NUMBER.finditer(text):
        spend()
        if len(number[0]) > _MAX_NUMBER_LENGTH:
            return 10**_MAX_NUMBER_LENGTH
        total += int(number[0])
    return total


def _join_pieces(pieces: Iterable[str]) -> str:
    """Joins the pieces that a template has written."""
    kept: list[str] = []
    length = 0
    for piece in pieces:
        kept.append(piece)
        length += len(piece)
        spend_text(len(piece))
    spend_text(length)
    return "".join(kept)


def _count_operator(operator: str, left: Any, right: Any) -> None:
    """Counts the work of a binary operator, before it is executed."""
    if isinstance(left, int) and isinstance(right, int):
        spend()
        _check_integers(operator, left, right)
        return
    match operator:
        case "*":
            _count_repetition(left, right)
            _count_repetition(right, left)
        case "%" if isinstance(left, (str, bytes)):
            _count_conversions(str(left), right)
        case _:
            _count_copies(left)
            _count_copies(right)


def _check_integers(operator: str, left: int, right: int) -> None:
    match operator:
        case "**":
            if abs(left) > 1 and right > 0:
                check_integer(left.bit_length() * right)
        case "*":
            check_integer(left.bit_length() + right.bit_length())
        case _:
            check_integer(max(left.bit_length(), right.bit_length()))


def _weigh_key(value: Any) -> None:
    """Counts the work to hash a value: nested tuples are trees, too, and integers, tuples and
    ranges may have the same hash."""
    if isinstance(value, (str, tuple, range, int)):
        weigh(value)


def _count_repetition(value: Any, count: Any) -> None:
    if not isinstance(count, int):
        return
    if isinstance(value, (str, bytes)):
        spend_text(len(value) * max(0, count))
    elif isinstance(value, (list, tuple)):
        spend(1 + len(value) * max(0, count))


def _count_copies(value: Any) -> None:
    """Counts a copy of a text or list, whatever its items are."""
    if isinstance(value, (str, bytes)):
        spend_text(len(value))
    elif isinstance(value, (list, tuple)):
        spend(1 + len(value))
    else:
        weigh(value)


def _count_conversions(form: str, values: Any) -> None:
    """Counts the text that printf makes of a format: `%9s` makes 9 characters of any value."""
    weigh(values)
    spend(form.count("%"))
    width = len(form)
    given = values if isinstance(values, tuple) else (values,)
    starred = sum(abs(value) for value in given if isinstance(value, int))
    for conversion in _list_conversions(form):
        for number in conversion.groups(default=""):
            width += starred if number == "*" else sum_numbers(number)
    spend_text(width)


def _list_conversions(form: str) -> Iterator[re.Match[str]]:
    """Yields the conversions of a format. After the last bracket that closes a name, none is looked
    for: each search would go to the end."""
    named_end = form.rfind(")") + 1
    end = 0
    for conversion in _CONVERSION.finditer(form):
        if conversion.start() >= named_end:
            break
        yield conversion
        end = conversion.end()
    yield from _NAMELESS_CONVERSION.finditer(form, max(end, named_end))


def _count_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a filter or test, so that its work is counted; jinja2 passes some of them the context
    first."""
    passed = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def count(*args: Any, **kwargs: Any) -> Any:
        args = _list_joined(name, args)
        given = args[passed:]
        _count_work(name, given, kwargs, is_brief=name in _BRIEF_FILTERS)
        return _count_made(function(*args, **kwargs))

    return count


def _list_joined(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Converts iterators among the arguments of a joining function to lists, so that they can be
    counted."""
    if name != "join":
        return args
    return tuple(list(item) if isinstance(item, Iterator) else item for item in args)


def _count_call(callee: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Counts the work of a method or a global function."""
    owner = getattr(callee, "__self__", None)
    if owner is None or not isinstance(callee, (BuiltinMethodType, MethodType)):
        _count_work("", args, kwargs, is_brief=False)
        return
    name = callee.__name__
    is_brief = name in _BRIEF_METHODS and isinstance(owner, (list, Mapping))
    if name in ("startswith", "endswith"):  # they only read the compared part
        owner = ""
    _count_work(name, (owner, *args), kwargs, is_brief=is_brief)


def _count_work(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, is_brief: bool
) -> None:
    """Counts the work of a function.

    Args:
        name: of a filter, a test or a method; "": any other function.
        args: its subject comes first.
        kwargs: further arguments.
        is_brief: it takes as long for large values as for small ones.
    """
    spend(CALL)
    if is_brief:
        for argument in args[1:]:
            _weigh_key(argument)
        return
    value = args[0] if args else None
    further = (*args[1:], *kwargs.values())
    weigh(value)
    for argument in further:
        weigh(argument)
    if name in _SLOW_FILTERS:
        _check_length(name, value)
    if name in _SPLITS:
        spend(_count_parts(value, further))
    elif name == "format" and isinstance(value, str):
        _count_conversions(value, args[1:])
    elif name == "tojson":
        _count_indents(value, further)
    elif name == "round":
        check_integer(4 * _find_width(further))  # it computes 10 ** precision
    elif name == "sum" and any(isinstance(argument, (list, tuple)) for argument in further):
        # Lists are added one by one, each addition making a new list.
        for _ in range(len(value) if isinstance(value, Collection) else 0):
            weigh(value)
    elif name in _WIDENING or isinstance(value, (str, bytes)) or name == "join":
        spend_text(_bound_length(name, value, further))
    if name in _COMPARING:
        _count_comparisons(value, further)
    elif name in ("encode", "decode") and isinstance(value, (str, bytes)):
        options = dict(zip(("encoding", "errors"), args[1:], strict=False))
        _check_encoding(name, value, {**options, **kwargs})


def _count_comparisons(value: Any, further: tuple[Any, ...]) -> None:
    """Counts the work to look for a text from the end of another one, or for its characters."""
    if not isinstance(value, (str, bytes)):
        return
    for argument in further:
        if isinstance(argument, (str, bytes)):
            spend(len(value) * len(argument) // CHARACTERS)


def _check_encoding(name: str, value: str | bytes, options: Mapping[str, Any]) -> None:
    """Refuses encodings other than those that templates need. Some take quadratic time, such as
    those of domain names, and Python finds each under many names.

    Args:
        name: `encode` or `decode`.
        value: the text or the bytes.
        options: the arguments by their names.
    """
    allowed = {"encoding": _ENCODINGS, "errors": _ENCODING_ERRORS}
    for option, argument in options.items():
        names = allowed.get(option, ())
        if not isinstance(argument, str) or argument.lower().replace("_", "-") not in names:
            raise TemplateLimitError(
                f"the template calls {name} with {option} {str(argument)[:50]!r}, it may be one of "
                f"{', '.join(sorted(names))}"
            )
    spend_text(_MAX_CODE_BYTES * len(value))


def _check_length(name: str, value: Any) -> None:
    """Refuses input that a slow filter would need long for."""
    size = len(value if isinstance(value, (str, bytes)) else str(value))
    if size > _MAX_SLOW_FILTER_INPUT:
        raise TemplateLimitError(
            f"the template gives {name} a text of {size:,} characters, "
            f"the limit is {_MAX_SLOW_FILTER_INPUT:,}"
        )


def _count_indents(value: Any, further: tuple[Any, ...]) -> None:
    """Counts the white space that `tojson` writes between the items, by their depth."""
    between = _find_width(further) + sum(len(text) for text in _list_texts(further))
    if between > _MAX_INDENT:
        raise TemplateLimitError(
            f"the template indents JSON by {between:,} characters, the limit is {_MAX_INDENT}"
        )
    if between:
        spend_text(between * sum_depths(value))


def _find_width(further: tuple[Any, ...]) -> int:
    """Adds up the integers among arguments: widths, counts or precisions."""
    return sum(abs(argument) for argument in further if isinstance(argument, int))


def _list_texts(further: tuple[Any, ...]) -> Iterator[str]:
    for argument in further:
        if isinstance(argument, str):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _list_texts(tuple(argument))


def _count_parts(value: Any, further: tuple[Any, ...]) -> int:
    """Returns the maximum number of parts into which a text is split; each is a separate text."""
    if not isinstance(value, (str, bytes)):
        return 1
    match value, further:
        case str(), (str(separator), *_) if separator:
            return 1 + value.count(separator)
        case _:
            return 1 + len(value) // 2


def _bound_length(name: str, value: Any, further: tuple[Any, ...]) -> int:
    """Returns the maximum length of the text that a function makes of a text, by its arguments."""
    size = len(value) if isinstance(value, (str, bytes)) else 1
    width = _find_width(further)
    longest = 0
    for argument in further:
        if isinstance(argument, (str, bytes)):
            longest = max(longest, len(argument))
    match name:
        case "replace":
            return size + _count_found(value, further) * longest
        case "indent":
            return size + (1 + _count_lines(value)) * (width + longest)
        case "join":
            return _bound_join(value, further)
        case "expandtabs":
            return size * max(8, width)
        case "translate":
            return size * max([1, *map(_find_longest, further)])
        case _:
            return size + width + longest


def _count_found(value: Any, further: tuple[Any, ...]) -> int:
    match value, further:
        case str(), (str(old), *_):
            return value.count(old)
        case _:
            return len(value) + 1 if isinstance(value, (str, bytes)) else 1


def _count_lines(value: Any) -> int:
    return len(value.splitlines()) if isinstance(value, str) else 1


def _bound_join(value: Any, further: tuple[Any, ...]) -> int:
    """Returns the length of `separator.join(items)` or `items|join(separator)`."""
    items, separator = value, next(iter(further), "")
    if isinstance(value, (str, bytes)) and not isinstance(separator, (str, bytes)):
        items, separator = separator, value
    length = len(items) if isinstance(items, Collection) else 0
    return length * (len(separator) if isinstance(separator, (str, bytes)) else 1)


def _find_longest(table: Any) -> int:
    if not isinstance(table, Mapping):
        return 1
    return max((len(text) for text in table.values() if isinstance(text, str)), default=1)


def _count_made(made: Any) -> Any:
    """Counts the result of a function; the items of an iterator are counted when they are read."""
    if isinstance(made, Iterator):
        return count_items(made)
    if isinstance(made, (str, bytes)):
        spend_text(len(made))
    elif isinstance(made, list):
        spend(1 + len(made))
    return made
