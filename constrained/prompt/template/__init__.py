"""Chat templates: render a conversation to prompt text, in which data never become special tokens.

Needs `messages` and jinja2. Start with `chat_template`; `special_tokens` cuts markers in data, and
`simplify` helps templates that fail on legal schemas of tools.
"""
