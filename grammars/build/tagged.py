"""Tagged arguments in Lark: every argument between tags of its own."""

from collections.abc import Iterator
from dataclasses import replace

from grammars.build.rules import choose, mark
from grammars.build.tagged_values import Definitions, Follow, TaggedValues
from grammars.build.values import Rules, quote
from grammars.errors import SchemaError
from grammars.schema.bits import NEVER, Condition, both, negate
from grammars.schema.members import Unordered, arrange
from grammars.schema.nodes import Extra, Node, Object, Property, Schema, escape
from grammars.spelling.tagged import find_extra_keys, is_key
from grammars.wire.format import TaggedArguments


class TaggedRules:
    """Adds the rules of tagged arguments to `rules`."""

    def __init__(self, tags: TaggedArguments, rules: Rules):
        self.tags = tags
        self.rules = rules
        self.values = TaggedValues(tags, rules)

    def arguments(self, schema: Schema) -> str:
        """An expression for all arguments of a tool, from the first tag to the end tag.

        Raises:
            SchemaError: a key that these tags cannot write.
        """
        options: list[str] = []
        for branch in schema.objects:
            follow = self._follow(branch, schema.definitions)
            if follow.more:
                options.append(f"{self.rules.fixed(self.tags.open)} {follow.more}")
            if follow.end:
                empty = self.tags.end if self.tags.empty is None else self.tags.empty
                options.append(self.rules.fixed(empty))
        return self.rules.define(" | ".join(dict.fromkeys(options)), "arguments")

    def _follow(self, node: Object, definitions: Definitions) -> Follow:
        """What may stand at the start of the arguments."""
        properties = tuple(p for p in node.properties if self._can_write(p, definitions))
        extras = tuple(self._find_extras(node, definitions))
        members = arrange(properties, bool(extras), node.presence, self.rules.order)
        node = replace(node, properties=properties, additional=None, patterned=extras)
        if not isinstance(members, Unordered):
            return self._follow_ordered(node, definitions)
        if not members.may_go_on(members.start):
            return Follow(None, True)
        more = self._follow_unordered(node, members, definitions)
        return Follow(more, members.may_end(members.start))

    def _can_write(self, declared: Property, definitions: Definitions) -> bool:
        """Can the argument be written? One that is required has to be."""
        if self.values.has_value(declared.node, definitions):
            return True
        if declared.required:
            where = f"/properties/{escape(declared.key)}"
            raise SchemaError("none of its values can be written between tags", where=where)
        return False

    def _find_extras(self, node: Object, definitions: Definitions) -> Iterator[Extra]:
        """The undeclared arguments that can be written."""
        declared = [p.key for p in node.properties]
        for extra in node.extras:
            keys = find_extra_keys(self.tags, declared, extra.keys)
            if not keys.is_empty() and self.values.has_value(extra.node, definitions):
                yield replace(extra, keys=keys)

    def _follow_unordered(self, node: Object, members: Unordered, definitions: Definitions) -> str:
        """A rule for another argument, of any that is not there yet."""
        names: dict[str, str] = {}  # of the rules of values, by their bodies

        def name(value: Node) -> str:
            body = self._tell_each(value, members, definitions)
            return mark(names.setdefault(body, f"value{len(names)}"))

        options: list[tuple[str, Condition]] = []
        for i, declared in enumerate(node.properties):
            argument = f"{quote(self._key(declared))} {name(declared.node)}"
            options.append((f"{argument}::{members.behind(i)}", members.can_add[i]))
        for extra in node.extras:
            argument = f"{self._extra_key(extra)} {name(extra.node)}"
            ways = members.ways_to_add_extra
            options += [(f"{argument}::{after}", way) for way, after in ways]
        bodies = {name: body for body, name in names.items()}
        more = self.rules.knot({"more": choose(options), **bodies})["more"]
        return self.rules.enter(f"{more}::0")

    def _tell_each(self, value: Node, members: Unordered, definitions: Definitions) -> str:
        """What follows a key, by what may follow the value."""
        more = f"{mark('more')}::_"
        follows = (
            (Follow(more, True), both([members.can_end, members.can_go_on])),
            (Follow(more, False), negate(members.can_end)),
            (Follow(None, True), negate(members.can_go_on)),
        )
        return choose(
            (f"({self.values.tell(value, definitions, follow)})", way)
            for follow, way in follows
            if way != NEVER
        )

    def _follow_ordered(self, node: Object, definitions: Definitions) -> Follow:
        """The arguments in schema order."""
        after = self._extra(node, definitions) if node.extras else Follow(None, True)
        for declared in reversed(node.properties):
            value = self.values.tell(declared.node, definitions, after)
            key = quote(self._key(declared))
            argument = self.rules.define(f"{key} ({value})", "argument")
            skipped = [after.more] if after.more and not declared.required else []
            more = self.rules.define(" | ".join([argument, *skipped]), "more")
            after = Follow(more, after.end and not declared.required)
        return after

    def _extra(self, node: Object, definitions: Definitions) -> Follow:
        """Undeclared arguments, any number of them, behind the declared ones."""
        name = self.rules.reserve("extra")
        follow = Follow(name, True)
        options: list[str] = []
        for extra in node.extras:
            value = self.values.tell(extra.node, definitions, follow)
            options.append(f"{self._extra_key(extra)} ({value})")
        self.rules.fill(name, " | ".join(options))
        return follow

    def _extra_key(self, extra: Extra) -> str:
        """A terminal for an undeclared key."""
        return self.rules.terminal(extra.keys.lark, "EXTRA")

    def _key(self, declared: Property) -> str:
        if not is_key(declared.key, self.tags):
            raise SchemaError(
                f"the key {declared.key!r} cannot be written between tags",
                where=f"/properties/{escape(declared.key)}",
                hint="Rename it, or use a model with a JSON format",
            )
        return declared.key
