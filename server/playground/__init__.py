"""The playground: one page with a chat and a workbench, which loads nothing from elsewhere.

Needs `turns`, `http`. Start with `routes`, which also puts the page together from its files.
"""
