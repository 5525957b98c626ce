"""Alembic's folder: how migrations run (`env`), and the migrations themselves (`versions`)."""
