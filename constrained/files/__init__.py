"""Input files, which are read within limits (`input_files`), and files that only their user can
read (`private_files`). Needs nothing of ours but `grammars`."""
