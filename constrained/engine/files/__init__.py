"""Input files, which are read within limits (`input_files`), files that only their user can read
(`private_files`), and what was stored and may be damaged (`stored`). Needs nothing of ours but
`grammars` and the errors."""
