"""What ends text that repeats itself: `values` of calls and answers, after which the turn goes on;
`content`, which ends the turn. `loops` finds the repetition.

Start with `values`.
"""
