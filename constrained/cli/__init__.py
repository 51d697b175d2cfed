"""The command line. `parser` finds the command, `commands` has one module for each, and `terminal`
reads and writes. Start with `commands.call`."""
