"""Alembic environment: runs migrations in the given connection and transaction."""

from alembic import context

from tallymark.store.dialects import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=context.config.attributes["version_table"],
    render_as_batch=True,
)
context.run_migrations()
