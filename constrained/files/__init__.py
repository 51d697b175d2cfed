"""Files that somebody names, to be read within bounds (`input_files`), and those that are their
user's alone (`private_files`). Needs nothing of ours but `grammars`."""
