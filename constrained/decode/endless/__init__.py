"""What ends values of calls and answers that repeat themselves, after which the turn goes on; for
content, see `parts.ends`."""
