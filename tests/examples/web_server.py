"""Serves the `app` of a program of docs/web.md, and prints the port: `python -m tests.examples.web_server MODULE`.

It adds the address /plain, whose handler asks through the same clients and records nothing.
"""

from __future__ import annotations

import socket
import sys
from importlib import import_module
from typing import Any


def add_plain_to_asgi(app: Any, ask_async: Any) -> Any:
    """Return an ASGI app that answers /plain itself."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/plain":
            await app(scope, receive, send)
            return
        answer = await ask_async(scope["query_string"].decode().partition("=")[2])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer.encode()})

    return serve


def main(program: str) -> None:
    """Serve until the process is ended."""
    names = vars(import_module(program))
    app = names["app"]
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    if type(app).__name__ == "Flask":
        from flask import request
        from werkzeug.serving import make_server

        app.add_url_rule("/plain", view_func=lambda: names["ask"](request.args["question"]))
        print(port, flush=True)
        make_server("127.0.0.1", port, app, threaded=True, fd=listener.fileno()).serve_forever()
    else:
        import uvicorn

        config = uvicorn.Config(add_plain_to_asgi(app, names["ask_async"]), log_level="warning", lifespan="off")
        print(port, flush=True)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
