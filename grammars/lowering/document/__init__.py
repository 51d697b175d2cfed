"""The first pass of lowering: a JSON Schema document as a whole, before any schema in it is read.

Start with `reading.read_document`; it repairs (`repairs`), resolves `$id` and `$anchor`
(`references`) and validates. Needs `grammars.schema`.
"""
