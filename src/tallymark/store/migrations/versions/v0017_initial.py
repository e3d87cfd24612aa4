"""The tables of 0.1.0. Nothing is run for them: `schema.make_tables` makes a new database."""

revision = "0017"
down_revision = None
