"""Backups: a whole database in one file, for either kind of database."""
