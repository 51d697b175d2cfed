"""The grammar of a turn in the languages of other engines.

`emitter` is what others use: `emit(grammar, language)`. `expansion` turns rules with parameters,
terminals and counts into an ordinary context-free grammar (`context_free`), with `regular` for
what terminals match; `gbnf` and `structural_tag` write that down. Needs `ir` and `regex`. Start
with `emitter`, then `context_free`.
"""
