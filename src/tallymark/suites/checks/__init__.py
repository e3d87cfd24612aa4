"""The checks of a suite, one file each, behind one small protocol (`check.py`) and a table."""
