"""The shortest legal completion of a turn."""
