"""The first pass of lowering: reads a JSON Schema document as a whole, before its schemas.

Start with `reading.read_document`: it leaves out what nothing refers to (`unused`), repairs
the document (`repairs`, with its draft by `dialects`), resolves `$id` and
`$anchor` (`references`) and validates it. Needs `grammars.schema`.
"""
