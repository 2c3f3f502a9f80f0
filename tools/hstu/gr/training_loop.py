"""Steps, with a line, an evaluation and a checkpoint now and then."""

import math
import time
from dataclasses import dataclass
from typing import Any, Callable

import torch


@dataclass
class Trainee:
    """What is trained, and how it is measured and kept."""

    model: Any
    optimizers: Any
    batches: Any  # endless
    evaluate: Callable[[], tuple[int, dict[str, float]]]
    save: Callable[[str, int], None]  # folder, iterations done
    iterations: int


def print_evaluation(users, metrics, say=print, what="eval"):
    lines = [f"[{what}] [{what} {users} users]:"]
    for name, value in metrics.items():
        lines.append(f"    Metrics.{name}:" + ("NaN" if math.isnan(value) else f"{value:.6f}"))
    say("\n".join(lines))


def autocast(device):
    """Products in bfloat16 on a GPU; a CPU computes in float32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def pick_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(trainee, args, device, say=print):
    """`args`: TrainerArgs. Ends with an evaluation and, if there are checkpoints, with one."""
    trainee.model.train()
    saves = args.ckpt_save_interval > 0
    losses, tokens, started = [], 0, time.monotonic()
    for done, batch in zip(range(1, trainee.iterations + 1), trainee.batches):
        batch = batch.to(device)
        with autocast(device):
            loss = trainee.model.loss(batch)
        trainee.optimizers.step(loss)
        losses.append(loss.detach())
        tokens += int(batch.lengths.sum())
        if done % args.log_interval == 0 or done == trainee.iterations:
            took = (time.monotonic() - started) * 1000
            mean = float(torch.stack(losses).mean())
            say(
                f"[train] [iter {done}, tokens {tokens}, elapsed_time {took:.2f} ms]: "
                f"loss {mean:.6f}"
            )
            losses, tokens, started = [], 0, time.monotonic()
        last = done == trainee.iterations
        if last or (args.eval_interval > 0 and done % args.eval_interval == 0):
            print_evaluation(*trainee.evaluate(), say)
            started = time.monotonic()
        if saves and (last or done % args.ckpt_save_interval == 0):
            folder = f"{args.ckpt_save_dir}/iter{done}"
            trainee.save(folder, done)
            say(f"[checkpoint] {folder}")
            started = time.monotonic()
