"""A server of the Model Context Protocol over stdio that answers as the name of the called tool says.

It needs the standard library alone, and starts quickly. A protocol version other than those of the client's is not
offered: the server repeats the one that it was asked for.
"""

import json
import os
import sys

LARGE = 5_000_000


def tell(message: object) -> None:
    """Write one line: a message, or a str as it is."""
    line = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def text(said: str, **members: object) -> object:
    """Return the result of a tool that is one text."""
    return {"content": [{"type": "text", "text": said}], **members}


def add(identity: object, arguments: dict) -> list[object]:
    """Add two numbers."""
    total = arguments["a"] + arguments["b"]
    return [{"id": identity, "result": text(str(total), structuredContent={"total": total}, isError=False)}]


def slow(identity: object, meta: dict) -> list[object]:
    """Tell of the progress twice."""
    token = meta.get("progressToken")
    steps = [{"progressToken": token, "progress": done, "total": 2} for done in (1, 2)]
    told = [{"method": "notifications/progress", "params": params} for params in steps]
    return [*told, {"id": identity, "result": text("done")}]


def answers(identity: object, name: str, arguments: dict, meta: dict) -> list[object]:
    """Return the messages that answer the call of a tool. A str is a line that is no message."""
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    made = {
        "add": lambda: add(identity, arguments),
        "slow": lambda: slow(identity, meta),
        "refuse": lambda: [{"id": identity, "error": {"code": -32602, "message": "unknown tool"}}],
        "doubled": lambda: [{"id": identity, "result": text(said)} for said in ("first", "second")],
        "unknown": lambda: [{"id": 987654, "result": text("to nobody")}, {"id": identity, "result": text("to you")}],
        "noise": lambda: ["this line is no message", {"id": identity, "result": text("after noise")}],
        "fail": lambda: [{"id": identity, "result": text("no such file", isError=True)}],
        "large": lambda: [{"id": identity, "result": text("x" * arguments.get("size", LARGE))}],
        "image": lambda: [{"id": identity, "result": {"content": [{"type": "text", "text": "a picture"}, image]}}],
        "secret": lambda: [{"id": identity, "result": text("the key is " + os.environ.get("SERVER_KEY", ""))}],
        "die": lambda: os._exit(3),
        "never": list,
        "ask": lambda: [{"id": f"ask {identity}", "method": "sampling/createMessage", "params": asked(identity)}],
    }
    return made[name]()


def asked(identity: object) -> object:
    """Return the parameters of a request that asks the client to call a model."""
    content = {"type": "text", "text": f"What is 1 + {identity}?"}
    return {"messages": [{"role": "user", "content": content}], "maxTokens": 100}


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        message = json.loads(line)
        identity, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            information = {"name": "misbehaving", "version": "1.2"}
            version = params["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": information}
            tell({"id": identity, "result": result})
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("add", "fail", "slow")]
            tell({"id": identity, "result": {"tools": tools}})
        elif method == "tools/call":
            arguments, meta = params.get("arguments") or {}, params.get("_meta") or {}
            for answer in answers(identity, params["name"], arguments, meta):
                tell(answer)
        elif method is None and str(identity).startswith("ask "):
            said = message["result"]["content"]["text"]
            tell({"id": int(identity.removeprefix("ask ")), "result": text(f"the model says: {said}")})
        elif identity is not None and method is not None:
            tell({"id": identity, "error": {"code": -32601, "message": "no such method"}})


if __name__ == "__main__":
    main()
