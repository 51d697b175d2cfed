"""The kinds of arguments, one a file: how a call has them, in its grammar, its reader and its
writer, which therefore agree.

Start with `kind`, the interface that builder, parser and renderer of a turn walk; `kinds` is the
table. A new kind needs a hole in `grammars.wire.nodes`, a file here, and a row of that table.

Needs `ir`, `values`, `spelling`, `wire`, `schema`.
"""
