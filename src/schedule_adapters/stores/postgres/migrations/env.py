"""How Alembic runs the migrations: on the connection and schema that `migrating` hands over."""

from alembic import context
from sqlalchemy import Connection, text

from schedule_adapters.stores.postgres.schema import VERSION_TABLE


def run() -> None:
    """Run what is asked for, alone: others that want the same wait, and find it done."""
    connection: Connection = context.config.attributes["connection"]
    schema: str = context.config.attributes["schema"]
    connection.execute(text("set local statement_timeout = 0"))  # it may have much to do
    key = {"key": f"session-schedule migration of {schema}"}
    connection.execute(text("select pg_advisory_xact_lock(hashtextextended(:key, 0))"), key)
    name = connection.dialect.identifier_preparer.quote(schema)
    there = text("select to_regnamespace(:name) is not null")
    if not connection.execute(there, {"name": name}).scalar_one():
        connection.execute(text(f"create schema {name}"))
    connection.execute(text(f"set local search_path to {name}"))
    context.configure(
        connection=connection, version_table=VERSION_TABLE, version_table_schema=schema
    )
    context.run_migrations()


run()
