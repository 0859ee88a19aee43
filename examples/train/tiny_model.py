"""A random model of a few thousand weights on the CPU, its tokenizer, and a server that speaks vLLM's members.

    python -m examples.train.tiny_model          # prints the server's address

The server streams each token as a chunk. If a request has `return_token_ids`, the first chunk states the ids of the
prompt, and each chunk those of its tokens. With `logprobs`, each token has its log-probability.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

NAME = "tiny"
ROLES = ("<system>", "<user>", "<assistant>")
END = "<end>"
WORDS = [f"w{number}" for number in range(60)]
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
MOST_TOKENS = 8


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each word."""
    words = ["<unknown>", *ROLES, END, *WORDS]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unknown>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unknown>", eos_token=END, pad_token=END, chat_template=TEMPLATE
    )


def model(seed: int = 0) -> GPT2LMHeadModel:
    """Return a model with random weights."""
    torch.manual_seed(seed)
    size = len(tokenizer())
    return GPT2LMHeadModel(GPT2Config(vocab_size=size, n_positions=512, n_embd=32, n_layer=1, n_head=2)).eval()


class Server(ThreadingHTTPServer):
    """The server. `stated` has the ids of the prompt and of the answer of each call, in their order."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.tokenizer = model(), tokenizer()
        self.words = torch.tensor(self.tokenizer.convert_tokens_to_ids(WORDS))
        self.stated: list[tuple[list[int], list[int]]] = []

    @property
    def address(self) -> str:
        """The address for a client of OpenAI."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @torch.no_grad()
    def sample(self, prompt: list[int]) -> list[tuple[int, float]]:
        """Sample an answer of words. Return its ids with their log-probabilities."""
        ids, answer = [*prompt], []
        for _ in range(MOST_TOKENS):
            scores = self.model(torch.tensor([ids])).logits[0, -1, self.words].log_softmax(-1)
            place = int(torch.multinomial(scores.exp(), 1))
            answer.append((int(self.words[place]), float(scores[place])))
            ids.append(answer[-1][0])
        self.stated.append((prompt, [token for token, _ in answer]))
        return answer


class Handler(BaseHTTPRequestHandler):
    """Answers chat completions by a stream of chunks."""

    server: Server

    def do_POST(self) -> None:
        """Answer a request."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = self.server.tokenizer.apply_chat_template(
            request["messages"], add_generation_prompt=True, tokenize=True
        )
        prompt = prompt["input_ids"] if isinstance(prompt, dict) or hasattr(prompt, "input_ids") else prompt
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for number, (token, score) in enumerate(self.server.sample(prompt)):
            text = self.server.tokenizer.decode([token])
            choice: dict[str, Any] = {"index": 0, "delta": {"role": "assistant", "content": text + " "}}
            chunk: dict[str, Any] = {"choices": [choice], "model": NAME}
            if request.get("logprobs"):
                choice["logprobs"] = {"content": [{"token": text, "logprob": score, "bytes": None, "top_logprobs": []}]}
            if request.get("return_token_ids"):
                choice["token_ids"] = [token]
                if number == 0:
                    chunk["prompt_token_ids"] = prompt
            self._send(chunk)
        self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "model": NAME})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, chunk: dict[str, Any]) -> None:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
        self.wfile.write(f"data: {json.dumps(head | chunk)}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""
