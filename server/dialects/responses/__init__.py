"""OpenAI's Responses. A conversation is a list of items: `items` reads them and makes chat messages
of them, `store` keeps them for the next request.
"""
