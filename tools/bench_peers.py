#!/usr/bin/env python3
"""Measure Terrace and llama.cpp side by side, on the same GGUF file and this machine's CPU.

    tools/bench_peers.py                       five rounds; builds llama.cpp first (minutes, once)
    tools/bench_peers.py --rounds 1 --skip-build
    tools/bench_peers.py --json compared.json

In each round every program runs each measurement once, one program after the other, and the next
round begins with the next program: what the machine does meanwhile meets all of them. Medians over
the rounds are compared. docs/measuring.md says what exactly is measured.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from bench import llama_cpp, machine
from bench.comparison import Comparison
from bench.contestants import Client, LlamaCpp, Terrace
from bench.load import Load
from bench.say import Failed, say

ROOT = Path(__file__).resolve().parent.parent


def main():
    options = parse_options()
    load = Load(
        threads=options.threads,
        prompt_tokens=options.prompt_tokens,
        new_tokens=options.new_tokens,
        streams=options.streams,
        stream_prompt_tokens=options.stream_prompt_tokens,
        repeats=options.repeats,
    )
    if not options.terrace.exists():
        sys.exit(f"{options.terrace} is missing: cargo build --release -p terrace")
    model = options.model or pull(options.terrace)
    client = Client(options.terrace)
    builds = llama_cpp.builds(options.dir, options.jobs, options.skip_build)
    contestants = [Terrace(options.terrace, model, client)]
    contestants += [LlamaCpp(build, model, client) for build in builds]
    machine.warn_if_busy()
    comparison = Comparison(contestants, load, model, machine.describe())
    for round_number in range(1, options.rounds + 1):
        run_round(round_number, options.rounds, contestants, load, comparison)
    print(comparison.table())
    if options.json:
        options.json.write_text(json.dumps(comparison.as_json(), indent=2) + "\n")
        say(f"all rounds are in {options.json}")


def run_round(number, rounds, contestants, load, comparison):
    first = (number - 1) % len(contestants)
    order = contestants[first:] + contestants[:first]
    measurements = {
        "alone": lambda program: program.offline(load),
        # Prompts of a seed of their own: a server could know those of an earlier round.
        "as a server": lambda program: program.served(load, seed=number),
    }
    for how, measure in measurements.items():
        for program in order:
            say(f"round {number} of {rounds}: {program.name} {how}")
            try:
                comparison.add(program, measure(program))
            except Failed as failure:
                say(f"{program.name} failed: {failure}")


def pull(terrace):
    """The default model's file, which is fetched if it is not there."""
    pulled = subprocess.run([terrace, "pull"], stdout=subprocess.PIPE, text=True)
    if pulled.returncode != 0:
        sys.exit("the default model cannot be fetched; give another with --model")
    return Path(pulled.stdout.strip())


def parse_options():
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="times that each measurement is made")
    add("--repeats", type=int, default=3, help="runs within a measurement; their median counts")
    add("--threads", type=int, default=machine.cores(), help="of each program (default: %(default)s)")
    add("--prompt-tokens", type=int, default=512, help="of prefill, and before an output")
    add("--new-tokens", type=int, default=128, help="output tokens of each request")
    add("--streams", type=int, default=8, help="outputs that a server decodes at once")
    add("--stream-prompt-tokens", type=int, default=128, help="of each stream")
    add("--model", type=Path, metavar="GGUF", help="default: what `terrace pull` fetches")
    add("--terrace", type=Path, default=target / "release/terrace", help="the program to measure")
    add("--dir", type=Path, default=target / "peers", help="where llama.cpp is built")
    add("--jobs", type=int, default=machine.cores(), help="compilers at once")
    add("--skip-build", action="store_true", help="take builds that are there, make none")
    add("--json", type=Path, metavar="FILE", help="write every round's numbers there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
