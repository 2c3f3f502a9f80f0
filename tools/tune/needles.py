#!/usr/bin/env python3
"""Teach a model to find a number in a long text, with everything kept and with a cache in place, and ask it.

    tools/tune/needles.py --text book.txt --device cuda:0
    tools/tune/needles.py --text book.txt --steps 20 --questions 20     a short run, to try it

A sentence with a number is hidden in a segment of the text, and asked for at the end: the questions of
`terrace eval kv`. Answers are learnt on the first part of the text, and asked for on the rest. For each
policy there are three models: as published, tuned with everything kept, and tuned with the policy's cache;
all are asked through that cache, and with everything kept. What is there already is not made again.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from bench.say import say

# Of the text, what is learnt on; nothing of it is asked about.
LEARNT_PART = 0.6
# A token of such prose has so many characters, or a few more.
CHARACTERS_PER_TOKEN = 4.2
FRAME_TOKENS = 64
DENSE = "dense"


def main():
    options = parse_options()
    if not options.terrace.exists():
        sys.exit(f"{options.terrace} is missing: cargo build --release -p terrace")
    options.dir.mkdir(parents=True, exist_ok=True)
    text = options.text.read_text()
    end = text.index("\n", int(len(text) * LEARNT_PART))
    asked = options.dir / "asked.txt"
    asked.write_text(text[end:])
    write_cases(options, text[:end])
    adapters = {"as published": None}
    for policy in [DENSE, *options.policies]:
        adapters[f"tuned, {policy}"] = tuned(options, policy)
    found = {name: answers(options, asked, name, adapter) for name, adapter in adapters.items()}
    print(table(options, found))
    if options.plot:
        options.plot.write_text(plot(options, found))


def write_cases(options, text):
    """Questions with their answers, as the model's chat has them."""
    draw = random.Random(options.seed)
    characters = int((options.tokens - FRAME_TOKENS) * CHARACTERS_PER_TOKEN)
    lines = []
    for _ in range(options.steps * options.batch):
        start = draw.randrange(len(text) - characters)
        hay, number = text[start : start + characters], draw.randrange(10_000, 100_000)
        at = sentence_end(hay, int(draw.random() * len(hay)))
        needle = f" The password of the safe is {number}."
        question = "What is the password of the safe? Answer with the number."
        messages = [
            {"role": "user", "content": f"{hay[:at]}{needle}{hay[at:]}\n\n{question}"},
            {"role": "assistant", "content": f"The password of the safe is {number}."},
        ]
        lines.append(json.dumps({"messages": messages}) + "\n")
    (options.dir / "cases.jsonl").write_text("".join(lines))


def sentence_end(text, start):
    ends = [text.find(mark, start) + 1 for mark in ".!?"]
    return min((end for end in ends if end), default=len(text))


def tuned(options, policy):
    """The adapter's folder."""
    out = options.dir / f"tuned-{policy}"
    if (out / "final").exists():
        return out / "final"
    say(f"tuning with {policy}")
    slots = 2 * options.tokens if policy == DENSE else options.slots
    command = [options.terrace, "finetune_long_lora", options.model, "--out_dir", out, "--device", options.device]
    command += ["--data", "JsonLines", "--data.path", options.dir / "cases.jsonl", "--data.val_split_fraction", "0"]
    command += ["--train.micro_batch_size", options.batch, "--train.epochs", 1, "--train.save_interval", 10_000]
    command += ["--kv_cache.name", f"{policy}-default", "--kv_cache.cache_length", slots]
    command += ["--kv_cache.chunk_size", options.chunk, "--optimizer.learning_rate", options.learning_rate]
    command += ["--lora.r", options.rank, "--lora.alpha", 2 * options.rank, "--lora.key", "true"]
    command += ["--lora.projection", "true", "--lora.mlp", "true", "--eval.final_validation", "false"]
    command += ["--resume", "auto"]
    subprocess.run([str(part) for part in command], check=True)
    return out / "final"


def answers(options, asked, name, adapter):
    """What `terrace eval kv` found, by policy."""
    kept = options.dir / f"found-{name.replace(', ', '-').replace(' ', '-')}.json"
    if not kept.exists():
        say(f"asking the model {name}")
        share = f"{100 * options.slots / options.tokens:g}%"
        command = [options.terrace, "eval", "kv", "--model", options.model, "--text", asked]
        command += ["--device", options.device, "--measure", "needle", "--needle-lengths", options.tokens]
        command += ["--needles", options.questions // 5, "--lengths", share, "--chunk-sizes", options.chunk]
        command += ["--policies", ",".join(options.policies), "--json"]
        command += ["--adapter", adapter] if adapter else []
        found = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE)
        kept.write_bytes(found.stdout)
    rows = json.loads(kept.read_text())["needle"]["rows"]
    return {row["cache"]: row["found"] for row in rows}


def table(options, found):
    lines = [f"{options.questions} questions for each cell, {options.tokens} tokens, {options.slots} slots:", ""]
    lines += ["| model | everything kept | " + " | ".join(options.policies) + " |"]
    lines += ["|---|" + "---:|" * (1 + len(options.policies))]
    for name, shares in found.items():
        cells = [cell(shares[policy], options.questions) for policy in [DENSE, *options.policies]]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(share, count):
    error = math.sqrt(share * (1 - share) / count)
    return f"{100 * share:.1f}% ±{100 * error:.1f}"


WIDTH, LEFT, BAR, GAP = 640, 190, 16, 18
COLOURS = ["#9d9d9d", "#4c78a8", "#f58518", "#54a24b"]


def plot(options, found):
    """Bars by policy, one for each model."""
    policies = options.policies
    rows = [(policy, name) for policy in policies for name in found if relevant(policy, name)]
    height = 40 + len(rows) * BAR + len(policies) * GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
             f'font-size="11"><text x="8" y="18">Numbers found in {options.tokens} tokens through '
             f"{options.slots} slots</text>"]
    y = 30
    for policy in policies:
        parts.append(f'<text x="8" y="{y + 12}" font-weight="bold">{policy}</text>')
        y += GAP
        for at, name in enumerate(name for name in found if relevant(policy, name)):
            share = found[name][policy]
            width = (WIDTH - LEFT - 50) * share
            parts.append(f'<text x="{LEFT - 6}" y="{y + 12}" text-anchor="end">{name}</text>'
                         f'<rect x="{LEFT}" y="{y + 2}" width="{width:.1f}" height="{BAR - 4}" '
                         f'fill="{COLOURS[at]}"/>'
                         f'<text x="{LEFT + width + 6:.1f}" y="{y + 12}">{100 * share:.0f}%</text>')
            y += BAR
    return "\n".join(parts) + "\n</svg>\n"


def relevant(policy, name):
    return not name.startswith("tuned") or name in (f"tuned, {policy}", f"tuned, {DENSE}")


def parse_options():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--text", type=Path, required=True, metavar="FILE", help="a long text, as docs/kv_quality.md gets it")
    add("--model", default="smollm2-135m-instruct")
    add("--policies", default="h2o,h2o-vlen", type=lambda text: text.split(","))
    add("--slots", type=int, default=512)
    add("--tokens", type=int, default=2048, help="of each question")
    add("--chunk", type=int, default=128, help="tokens that choose their slots together")
    add("--steps", type=int, default=400)
    add("--batch", type=int, default=8, help="questions of a step")
    add("--rank", type=int, default=16)
    add("--learning-rate", type=float, default=3e-4)
    add("--questions", type=int, default=500, help="of each cell, a multiple of 5")
    add("--seed", type=int, default=1)
    add("--device", default="auto")
    add("--terrace", type=Path, default=target / "release/terrace")
    add("--dir", type=Path, default=target / "needles", help="for cases, adapters and answers")
    add("--plot", type=Path, metavar="FILE", help="draw the answers there, as SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
