#!/usr/bin/env python3
"""How long `terrace preprocess` and pandas take for the same KuaiRand files, and their peak memory.

    python3 tools/hstu/generate_kuairand.py data --form 27k --rows 20000000
    python3 tools/hstu/bench_preprocess.py target/release/terrace data --form 27k

Runs take turns; the best of each is printed, and whether the outputs are the same, byte for byte.
The peer needs `pandas`.
"""

import argparse
import filecmp
import os
import pathlib
import subprocess
import sys
import time

from preprocess_pandas import FOLDERS

NAMES = ["processed_seqs.csv", "processed_seqs_inference.csv", "processed_batches.csv"]
SUFFIX = ".pandas"


def run(command):
    """Seconds, and the peak of resident memory in MiB."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"error: {command[0]} ended with status {status}")
    return time.monotonic() - begun, usage.ru_maxrss / 1024


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("terrace", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, help="the dataset path")
    parser.add_argument("--form", choices=FOLDERS, default="27k")
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer-runs", type=int, default=1)
    args = parser.parse_args()

    inference = ["--inference"] if args.inference else []
    dataset = ["--dataset_name", f"kuairand-{args.form}", "--dataset_path", args.folder]
    ours = [args.terrace, "preprocess", *dataset, *inference]
    program = pathlib.Path(__file__).with_name("preprocess_pandas.py")
    peer = [sys.executable, program, args.folder, "--form", args.form, "--suffix", SUFFIX]
    peer += inference
    best = {}
    for turn in range(max(args.runs, args.peer_runs)):
        for name, command, runs in [("terrace", ours, args.runs), ("pandas", peer, args.peer_runs)]:
            if turn < runs:
                best[name] = min(best.get(name, (float("inf"), 0)), run(command))
    for name, (seconds, peak) in best.items():
        print(f"{name}: {seconds:.1f} s, {peak:.0f} MiB at the most")
    print(f"pandas takes {best['pandas'][0] / best['terrace'][0]:.1f} times as long")
    data = args.folder / FOLDERS[args.form] / "data"
    for name in NAMES if args.inference else NAMES[:1]:
        same = filecmp.cmp(data / name, data / f"{name}{SUFFIX}", shallow=False)
        print(f"{name}: {'the same' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
