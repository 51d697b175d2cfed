"""Files. Start with `input_files`, which are read within limits; `private_files` can be read by
their user only, and `stored` reads what was stored and may be damaged."""
