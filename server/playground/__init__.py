"""The playground: one page with a chat, which loads nothing from elsewhere.

Needs `turns`, `http`. Start with `routes`, which also puts the page together from its files.
"""
