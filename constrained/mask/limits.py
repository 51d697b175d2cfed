"""The limits that llguidance gets. They limit the time of a mask: 10,000 units of lexer fuel take
about 1 ms, and the time of a row of Earley items grows with the square of their number."""

import llguidance

# A bounded string may need 2 million units once, and an enum of n values has n items in a row.
# Verbose errors would put the grammar and the user's text into logs.
OWN_LIMITS = llguidance.LLParserLimits(
    verbose_errors=False,
    step_lexer_fuel=2_000_000,
    max_items_in_row=20_000,
    step_max_items=500_000,
)
# Users' grammars may be ambiguous, so the number of items may grow with the text. Their regular
# expressions may have many lexer states, of 1 to 2 kB each.
USER_LIMITS = llguidance.LLParserLimits(
    verbose_errors=False,
    step_lexer_fuel=2_000_000,
    max_lexer_states=100_000,
    max_items_in_row=500,
    step_max_items=20_000,
)
# llguidance compiles rules recursively. With a stack of 8 MB, an object of 2,500 properties would
# overflow it and end the process. With this one, 20,000 rules fit.
STACK = 256 * 2**20  # bytes of address space
