"""The first pass of lowering: reads a JSON Schema document as a whole, before its schemas.

Start with `reading.read_document`: it repairs the document (`repairs`), resolves `$id` and
`$anchor` (`references`) and validates it. Needs `grammars.schema`.
"""
