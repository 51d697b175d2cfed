"""Chat templates: a conversation becomes prompt text, and its data stay apart from special tokens.

Needs `messages` and jinja2. Start with `chat_template`; `special_tokens` guards the markers, and
`simplify` helps templates that fail on legal schemas of tools.
"""
