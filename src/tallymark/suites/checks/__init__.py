"""The checks of a suite, one file each, what they share (`check_definition.py`) and a table."""
