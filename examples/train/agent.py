"""An agent of two turns on the real SDK of OpenAI. It knows nothing of a recorder, and asks for no ids."""

from __future__ import annotations

import sys

from openai import OpenAI


def main(question: str) -> None:
    """Ask, and ask again."""
    client = OpenAI()
    messages = [{"role": "system", "content": "w1"}, {"role": "user", "content": question}]
    for more in ("w2 w3", "w4"):
        stream = client.chat.completions.create(model="tiny", messages=messages, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        messages += [{"role": "assistant", "content": text.strip()}, {"role": "user", "content": more}]


if __name__ == "__main__":
    main(*sys.argv[1:])
