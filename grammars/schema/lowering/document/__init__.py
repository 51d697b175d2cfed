"""The first pass of lowering: reads a JSON Schema document as a whole, before its schemas.

Start with `reading.read_document`: it leaves out what nothing refers to (`reached`), repairs
the document (`repairs`), resolves `$id` and `$anchor` (`references`) and validates it.
"""
