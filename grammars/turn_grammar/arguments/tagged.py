"""Arguments between tags: each between its own, strings as raw text, other values as JSON."""

import re
from contextlib import suppress
from itertools import product

from grammars.errors import RenderError
from grammars.schema.json_values import Json
from grammars.schema.nodes import Constant, Schema, flatten
from grammars.schema.numbers import are_equal
from grammars.spelling.buffer import CutError, Steps
from grammars.spelling.coerce import Raw, TypedText, coerce_members
from grammars.spelling.styles import sort_keys
from grammars.spelling.types import name_types
from grammars.spelling.value_reader import FaultError, ValueReader
from grammars.turn_grammar.arguments.kind import (
    ArgumentRules,
    ArgumentsKind,
    CallParts,
    CallSource,
    CallsSpec,
    CallToWrite,
)
from grammars.turn_grammar.arguments.stream import RawArguments
from grammars.turn_grammar.arguments.tagged_rules import (
    KnownValues,
    TaggedRules,
    excludes_containers,
    is_key,
    is_wrappable,
    is_writable,
    spell_words,
)
from grammars.wire.format import Format, first_visible, has_tag
from grammars.wire.nodes import JsonStyle, TaggedArguments

_BETWEEN_TAGS = re.compile(r"(?<=>)\s*(?=<)")


class TaggedKind(ArgumentsKind):
    def __init__(self, hole: TaggedArguments, format: Format):
        super().__init__(format)
        self._tags = hole

    @property
    def style(self) -> JsonStyle:
        return self._tags.style

    def make_rules(self, spec: CallsSpec) -> ArgumentRules:
        known: KnownValues = {}
        return lambda schema: TaggedRules(self._tags, spec.values, schema, known).arguments()

    @property
    def beginnings(self) -> tuple[str, ...]:
        return self._tags.open, self._tags.end, self._tags.without_arguments

    @property
    def closers(self) -> tuple[str, ...]:
        return self._tags.close, self._tags.end

    def read(self, source: CallSource, parts: CallParts) -> Steps[None]:
        yield from _TaggedReader(self._tags, source).read(parts)

    def write(self, call: CallToWrite) -> str:
        tags = self._tags
        raws = {key: _write_raw(value, tags) for key, value in call.arguments.items()}
        if not raws and tags.empty is not None:
            return tags.empty
        read = call.arguments
        if call.schema is not None:
            read = coerce_members(raws, call.schema, tags.style)[0]
        text = ""
        for key in sort_keys(call.arguments, tags):
            value, raw = call.arguments[key], raws[key]
            _refuse(call, key, raw=raw, read=read[key], tags=tags)
            text += tags.open + key + tags.after_key
            if tags.kinds:
                text += tags.find_kind(name_types(value)) + tags.after_kind
            if isinstance(raw, TypedText):
                assert tags.wrapper is not None
                raw = tags.wrapper.opener + raw.raw + tags.wrapper.closer
            text += raw + tags.of(key).close
        return text + tags.end


# The writer.


def _write_raw(value: Json, tags: TaggedArguments) -> Raw:
    """Returns the raw text of a value as the reader gets it: wrapped text is marked as a string."""
    if isinstance(value, str) and tags.wrapper is not None and tags.wrapper.wraps(value):
        return TypedText(value, is_text=True, style=tags.style)
    return spell_words(value, tags)[0]


def _refuse(call: CallToWrite, key: str, *, raw: Raw, read: Json, tags: TaggedArguments) -> None:
    """Refuses an argument whose raw text would not be read back as its value, but as `read`."""
    value, schema, where = call.arguments[key], call.schema, call.at(key)
    own = tags.of(key)
    declared = schema.objects if schema else []
    is_declared = any(p.key == key for node in declared for p in node.properties)
    if schema is not None and tags.close_key is not None and not is_declared:
        message = f"the key {key!r} is not declared, so its closing tag is not known"
        raise RenderError(message, where=where)
    if not is_key(key, own):
        raise RenderError(f"the key {key!r} cannot be written between tags", where=where)
    is_wrapped = isinstance(raw, TypedText)
    if not (is_wrappable(raw.raw, own) if is_wrapped else is_writable(raw, own)):
        raise RenderError("the value contains its own closing tag", where=where)
    if not are_equal(read, value):
        raise RenderError(f"{value!r} would be read back as {read!r}", where=where)
    if schema is None or is_wrapped or not isinstance(value, str):
        return
    if not _is_distinguishable(value, key, schema, tags):
        raise RenderError(
            "where objects or lists are allowed too, text cannot begin like one", where=where
        )


def _is_distinguishable(text: str, key: str, schema: Schema, tags: TaggedArguments) -> bool:
    """Returns whether the text of an argument cannot be the beginning of an object or a list."""
    if tags.kinds or not text.startswith(("{", "[")):
        return True
    for node in schema.objects:
        argument = node.find(key)
        if argument is None:
            continue
        branches = list(flatten(argument.node, schema.definitions))
        listed = any(isinstance(b, Constant) and text in b.values for b in branches)
        if listed or not excludes_containers(branches):
            return True
    return not schema.objects


# The reader.


class _TaggedReader:
    """Reads the arguments of a call."""

    def __init__(self, tags: TaggedArguments, source: CallSource):
        self._tags = tags
        self._buffer = source.buffer
        self._source = source
        self._recover = source.recover

    def read(self, parts: CallParts) -> Steps[None]:
        """Reads all arguments; of a repeated one, the first that is not empty."""
        tags, buffer = self._tags, self._buffer
        arguments = RawArguments(
            self._source.find_schema(parts.name), self._source.sink, tags.style
        )
        opener = tags.open.strip()
        pad = tags.open[len(tags.open.rstrip()) :]
        yield from buffer.space()
        stray = tags.close.strip()
        if self._recover and has_tag(stray) and (yield from buffer.begins(stray)):
            buffer.take(len(stray))
            yield from buffer.space()
        # The longest first: the end may begin like an argument.
        options = [opener, tags.end.strip(), tags.without_arguments.strip()]
        options.sort(key=len, reverse=True)
        has_more = (yield from buffer.literal(*options)) == opener
        yield from buffer.skip(pad)
        while has_more:
            found = yield from self._read_argument(arguments)
            has_more = found.rstrip().endswith(opener)
            if not opener:  # a key begins a line
                has_more = not found.rstrip().endswith(tags.end.strip())
            rest = tags.rest_of_end
            if has_more and rest and (yield from buffer.begins(rest)):
                buffer.take(len(rest))
                has_more = False
            if not found.endswith(pad):  # in recovery
                yield from buffer.skip(pad)
        parts.arguments, parts.errors = arguments.finish()

    def _read_argument(self, arguments: RawArguments) -> Steps[str]:
        """Reads an argument from its key on; returns the text that ended it."""
        tags = self._tags
        key = yield from self._buffer.name(first_visible(tags.after_key))
        is_text = yield from self._take_kind()
        is_wrapped = yield from self._take_wrapper()
        arguments.open(key, is_text=True if is_wrapped else is_text)
        if not is_wrapped:
            yield from self._read_container(arguments)
        terminators = self._list_terminators(tags.of(key), is_wrapped=is_wrapped)
        found = yield from self._buffer.until(terminators, arguments.feed)
        if found is None:
            raise CutError
        arguments.close_raw()
        return found

    def _take_kind(self) -> Steps[bool | None]:
        """Takes the text between key and value; returns whether it marks text, None: it has no
        type."""
        tags = self._tags
        if not tags.kinds:
            yield from self._take_text(tags.after_key)
            return None
        text_kind = tags.find_kind(("string",))
        kinds = {tags.after_key + kind + tags.after_kind: kind for _, kind in tags.kinds}
        found = yield from self._buffer.literal(*kinds)
        return kinds[found] == text_kind

    def _take_text(self, text: str) -> Steps[None]:
        """Takes this text; newlines at its end may be missing. In recovery, any white space may
        stand between two tags in it."""
        visible = text.rstrip("\n")
        tags = _BETWEEN_TAGS.split(visible) if self._recover else [visible]
        yield from self._buffer.literal(tags[0])
        for tag in tags[1:]:
            yield from self._buffer.space()
            yield from self._buffer.literal(tag)
        yield from self._buffer.skip(text[len(visible) :])

    def _take_wrapper(self) -> Steps[bool]:
        """Takes the opener of the wrapper of a string; returns whether there was one."""
        if self._tags.wrapper is None:
            return False
        opener = self._tags.wrapper.opener
        find = self._buffer.sees if self._recover else self._buffer.begins
        found = yield from find(opener)
        if found:
            yield from self._buffer.space()
            self._buffer.take(len(opener))
        return found

    def _read_container(self, arguments: RawArguments) -> Steps[None]:
        """Reads a list or object, if the value cannot be text: its strings may contain what ends a
        raw value. Without a mask, it may have no end."""
        if self._recover or arguments.may_be_text:
            return
        yield from self._buffer.need()
        if self._buffer.rest[0] in "[{":
            with suppress(FaultError):
                reader = ValueReader(self._tags.style, keeps=True)
                yield from self._buffer.value(reader, arguments.feed)

    def _list_terminators(self, tags: TaggedArguments, *, is_wrapped: bool) -> tuple[str, ...]:
        """Returns the texts that end a raw value: its closing tag together with the next tag, after
        the closer of its wrapper, if it has one."""
        following = (tags.open, tags.end)
        end = tags.wrapper.closer if tags.wrapper and is_wrapped else ""
        terminators = [end + tags.close + tag for tag in following]
        if self._recover:
            lines = ("\n", "") if tags.close.startswith("\n") or is_wrapped else ("",)
            for before, after in product(lines, ("\n", "", "\n\n")):
                closer = end + before + tags.close.strip() + after
                terminators += [closer + tag.strip() for tag in following]
        return tuple(dict.fromkeys(terminators))
