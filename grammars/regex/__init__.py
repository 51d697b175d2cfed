"""Regular expressions: sets of characters, derivatives, automata, ranges of numbers.

Needs nothing else of this project. Start with `expressions` (the algebra) and `automaton`.
"""
