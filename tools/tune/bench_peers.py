#!/usr/bin/env python3
"""Measure training by Terrace and by PyTorch with PEFT side by side, on this machine's CPU.

    tools/tune/bench_peers.py                      five rounds of 2,048 tokens
    tools/tune/bench_peers.py --rounds 1 --steps 1
    tools/tune/bench_peers.py --json compared.json

Both train branches of rank 8 beside queries and values (LoRA) of the same GGUF file, whose weights
PyTorch widens, with AdamW on the same random tokens. In each round every program runs once, in f32
and in bf16, one after the other, and the next round begins with the next one: what the machine does
meanwhile meets all of them. A run makes one step that is not counted, then --steps; the medians of
all counted steps are compared. The losses of the first steps are printed too: they must agree.
Needs `torch`, `transformers`, `peft` and `gguf` 0.19.0.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from bench import machine
from bench.say import Failed, last_lines, say

PRECISIONS = ("bf16", "f32")


class Terrace:
    def __init__(self, options, precision, more=()):
        self.name = " ".join(["Terrace", precision, *more])
        self.command = [options.terrace, "bench", "tune", "--json", "--precision", precision]
        self.command += ["--model", options.model, "--tokens", str(options.tokens)]
        self.command += ["--steps", str(options.steps), "--threads", str(options.threads), *more]

    def steps(self):
        """Seconds of each step, and its loss."""
        steps = json.loads(output(self.command))["steps"]
        return [(step["step_s"], step["loss"]) for step in steps]


class Peft:
    def __init__(self, options, precision):
        self.name = f"PyTorch {precision}"
        self.command = [sys.executable, __file__, "--worker", precision, "--model", options.model]
        self.command += ["--tokens", str(options.tokens), "--steps", str(options.steps)]
        self.command += ["--threads", str(options.threads)]

    def steps(self):
        return json.loads(output(self.command).splitlines()[-1])


def output(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(last_lines(done.stderr))
    return done.stdout


def main():
    options = parse_options()
    if options.worker:
        return print(json.dumps(trained_steps(options)))
    if not options.terrace.exists():
        sys.exit(f"{options.terrace} is missing: cargo build --release -p terrace")
    machine.warn_if_busy()
    programs = [Terrace(options, precision) for precision in PRECISIONS]
    whole = ("--layers-per-cell", "1000")
    programs += [Terrace(options, precision, whole) for precision in PRECISIONS]
    programs += [Peft(options, precision) for precision in PRECISIONS]
    found = {program.name: [] for program in programs}
    for number in range(options.rounds):
        first = number % len(programs)
        for program in programs[first:] + programs[:first]:
            say(f"round {number + 1} of {options.rounds}: {program.name}")
            try:
                found[program.name].append(program.steps())
            except Failed as failure:
                say(f"{program.name} failed: {failure}")
    print_table(found, options)
    if options.json:
        described = {"machine": machine.describe(), "tokens": options.tokens, "steps": found}
        options.json.write_text(json.dumps(described, indent=2) + "\n")
        say(f"all steps are in {options.json}")


def print_table(found, options):
    about = machine.describe()
    print(f"{about['cpu']}, {about['cores']} cores, {about['system']}")
    print(f"{options.model.name}, {options.tokens} tokens, {options.threads} threads\n")
    print(f"{'':<36} {'median tok/s':>12} {'least to most':>18} {'median step':>12} {'loss':>9}")
    for name, runs in found.items():
        seconds = [seconds for run in runs for seconds, _ in run]
        if not seconds:
            print(f"{name:<36} {'-':>12}")
            continue
        rates = [options.tokens / step for step in seconds]
        spread = f"{min(rates):.0f} to {max(rates):.0f}"
        median, loss = statistics.median(seconds), runs[0][0][1]
        rate = options.tokens / median
        print(f"{name:<36} {rate:>12.0f} {spread:>18} {median:>10.2f} s {loss:>9.4f}")


def trained_steps(options):
    """Seconds and loss of each counted step in PyTorch."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[options.worker]
    folder, file = str(options.model.parent), options.model.name
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=dtype)
    model.config.use_cache = False
    targets = ["q_proj", "v_proj"]
    lora = LoraConfig(r=8, lora_alpha=16, target_modules=targets, task_type="CAUSAL_LM")
    model = get_peft_model(model, lora)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(trained)
    ids = torch.tensor([random_tokens(options.tokens + 1, model.config.vocab_size)])
    inputs, labels = ids[:, :-1], ids[:, 1:].contiguous()
    steps = []
    for _ in range(options.steps + 1):
        start = time.perf_counter()
        optimiser.zero_grad()
        loss = model(input_ids=inputs, labels=labels, shift_labels=labels).loss
        loss.backward()
        optimiser.step()
        steps.append((time.perf_counter() - start, loss.item()))
    return steps[1:]


def random_tokens(count, vocab):
    """Those of `terrace bench tune`."""
    state, tokens = 1, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        tokens.append((state >> 33) % vocab)
    return tokens


def parse_options():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    model = Path.home() / ".cache/terrace/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="times that each program runs")
    add("--steps", type=int, default=2, help="counted steps of a run")
    add("--tokens", type=int, default=2048, help="of the sequence")
    add("--threads", type=int, default=machine.cores(), help="of each program (default: %(default)s)")
    add("--model", type=Path, metavar="GGUF", default=model, help="default: that of `terrace pull`")
    add("--terrace", type=Path, default=target / "release/terrace", help="the program to measure")
    add("--json", type=Path, metavar="FILE", help="write every step's numbers there")
    add("--worker", choices=PRECISIONS, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
