"""Several engines with one address: which replica answers a request, and what if one dies.

The front does everything except decoding: it renders, compiles, parses and checks. A replica has an
engine, and decodes turns. Needs `turns` and `models`. Start with `prefix_router`.
"""
