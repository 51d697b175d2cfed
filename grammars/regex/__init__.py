"""Regular expressions: what a terminal of the grammar matches, and what completes it.

`expressions` (the algebra: derivatives over `characters`) and `automaton` are the core; `reader`
reads the syntax. `ecma`, `string_formats` and `ranges` write regexes for JSON Schema's `pattern`,
`format` and bounds of numbers; `spelled` rewrites one over characters as one over the escapes of a
string literal. `texts` is what others use: a set of texts as regexes.

Start with `texts`, then `expressions` and `automaton`.
"""
