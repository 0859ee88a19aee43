"""From runs to a trained step: an agent is recorded through the proxy, and TRL trains on the ids that were sampled.

    pip install 'trace-recorder[openai,proxy]' torch transformers trl datasets
    python -m examples.train.train

The steps are those of SFT, DPO and GRPO. Each step compares the ids that the trainer gets with those that the server
stated, and raises AssertionError if they differ.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from examples.train.tiny_model import Server, model, tokenizer
from trace_recorder import Trajectory, load_all
from trace_recorder.views import Rollout, preference_pairs, to_rollouts, to_trl

ROOT = Path(__file__).parents[2]
ATTEMPTS = 4


def record(directory: Path, server: Server) -> list[Trajectory]:
    """Run the agent several times, each a run of its own, and reward each run."""
    environment = {**os.environ, "OPENAI_API_KEY": "none", "PYTHONPATH": str(ROOT)}
    proxy = [sys.executable, "-m", "trace_recorder", "proxy", "--quiet", "--directory", str(directory)]
    proxy += ["--upstream", f"openai={server.address}/v1", "--tokens", "openai=vllm"]
    for _ in range(ATTEMPTS):
        command = [*proxy, "--", sys.executable, "-m", "examples.train.agent", "w5 w6"]
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
    score = [sys.executable, "-m", "trace_recorder", "score", str(directory)]
    subprocess.run([*score, "--reward", "examples.train.train:chosen"], env=environment, cwd=ROOT, check=True)
    return [*load_all(directory)]


def chosen(trajectory: Trajectory) -> float:
    """Reward a run by the words of its first answer: a number between 0 and 1 that differs from run to run."""
    words = str(trajectory.llm_interactions[0].response.content).split()
    return sum(int(word.removeprefix("w")) for word in words) / (60 * len(words))


def settings(kind: Any, directory: Path, **more: Any) -> Any:
    """Return a trainer's settings for one step on the CPU."""
    return kind(output_dir=str(directory), max_steps=1, use_cpu=True, report_to=[], save_strategy="no", **more)


def sft(runs: list[Trajectory], ids_of_server: set[tuple[int, ...]], directory: Path) -> float:
    """Train a step on the rows of tokens. What is trained are the ids that the server sampled."""
    rows = [row for run in runs for row in to_trl(run, "tokens")]
    columns = [{name: row[name] for name in ("input_ids", "assistant_masks")} for row in rows]
    config = settings(SFTConfig, directory, per_device_train_batch_size=len(rows))
    trainer = SFTTrainer(model(), config, train_dataset=Dataset.from_list(columns), processing_class=tokenizer())
    [batch] = trainer.get_train_dataloader()
    trained = sorted(labels[labels != -100].tolist() for labels in batch["labels"])
    assert trained == sorted([*first, *second] for first, second in answers_of(runs))
    assert {answer for pair in answers_of(runs) for answer in pair} == ids_of_server
    return float(trainer.train().training_loss)


def dpo(runs: list[Trajectory], directory: Path) -> float:
    """Train a step on pairs of runs. TRL tokenises them again, so its ids are compared with the sampled ones."""
    pairs = [*preference_pairs(runs, "chosen")]
    columns = [{name: pair[name] for name in ("prompt", "chosen", "rejected")} for pair in pairs]
    config = settings(DPOConfig, directory, per_device_train_batch_size=len(pairs))
    dataset = Dataset.from_list(columns)
    trainer = DPOTrainer(model(), model(), config, train_dataset=dataset, processing_class=tokenizer())
    sampled = {run.trajectory_id: answers for run, answers in zip(runs, answers_of(runs), strict=True)}
    for pair, row in zip(pairs, trainer.train_dataset, strict=True):
        for side in ("chosen", "rejected"):
            ids = " ".join(map(str, row[f"{side}_ids"]))
            assert all(" ".join(map(str, answer)) in ids for answer in sampled[pair[f"{side}_id"]])
    return float(trainer.train().training_loss)


def grpo(rollouts: list[Rollout], directory: Path) -> float:
    """Train a step on a group of rollouts: the ids and log-probabilities of the server, and the rewards on file."""
    branches = [branch for rollout in rollouts for branch in rollout.branches]
    begins = [branch.mask.index(1) for branch in branches]
    ids = [branch.token_ids for branch in branches]
    samples = {
        "prompt_ids": [one[:begin] for one, begin in zip(ids, begins, strict=True)],
        "completion_ids": [one[begin:] for one, begin in zip(ids, begins, strict=True)],
        "logprobs": [
            [score or 0.0 for score in branch.logprobs[begin:]] for branch, begin in zip(branches, begins, strict=True)
        ],
        "env_mask": [branch.mask[begin:] for branch, begin in zip(branches, begins, strict=True)],
        "reward": [rollout.rewards["chosen"] for rollout in rollouts],
    }
    seen: list[list[int]] = []

    def reward(completion_ids: list[list[int]], reward: list[float], **_: Any) -> list[float]:
        seen.extend(completion_ids)
        return reward

    size = len(branches)
    config = settings(GRPOConfig, directory, per_device_train_batch_size=size, num_generations=size)
    prompts = Dataset.from_list([{"prompt": [{"role": "user", "content": "w5 w6"}]}])
    trainer = GRPOTrainer(
        model(),
        reward,
        config,
        train_dataset=prompts,
        processing_class=tokenizer(),
        rollout_func=lambda _, __: samples,
    )
    loss = float(trainer.train().training_loss)
    assert seen == samples["completion_ids"]
    return loss


def answers_of(runs: list[Trajectory]) -> list[tuple[tuple[int, ...], ...]]:
    """Return the ids of the answers of each run, by its rollout."""
    return [
        tuple((*span.token_ids,) for branch in rollout.branches for span in branch.spans if span.is_sampled)
        for rollout in to_rollouts(runs)
    ]


def main() -> None:
    """Record, and train a step in each way."""
    torch.manual_seed(1)
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        runs = record(Path(place) / "runs", server)
        ids_of_server = {(*answer,) for _, answer in server.stated}
        losses = {
            "SFT": sft(runs, ids_of_server, Path(place)),
            "DPO": dpo(runs, Path(place)),
            "GRPO": grpo([*to_rollouts(runs)], Path(place)),
        }
    server.shutdown()
    for name, loss in losses.items():
        print(f"{name}: trained a step on {len(ids_of_server)} answers as they were sampled, loss {loss:.4f}")


if __name__ == "__main__":
    main()
