"""How uvicorn serves for us: it names nothing, logs no address, and does not wait for ever."""

from typing import Any

import uvicorn


def quiet_config(app: Any, *, last_requests_s: int) -> uvicorn.Config:
    """The configuration of a server of ours, whatever app it serves.

    Args:
        app: an ASGI application.
        last_requests_s: how long requests under way may take once the server is to end.
    """
    return uvicorn.Config(
        app,
        access_log=False,  # addresses hold names of sessions, and once the token
        log_config=None,
        date_header=False,
        server_header=False,
        proxy_headers=False,
        http="h11",
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=last_requests_s,
    )
