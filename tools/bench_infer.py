#!/usr/bin/env python3
"""How a server of click-through models stands load, on the machine that sends it.

    tools/bench_infer.py --terrace target/release/terrace [--minutes 10] [--seconds 20]

A server with the demo model is asked as fast as it answers, in every form (`terrace bench infer`).
Then requests come at a quarter of the slowest form's rate, first alone, then while a process of
idle priority loads, replaces and unloads other models without a pause. Printed: the tables, how
many models came and went, and p99 with them over p99 without.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools/tests"))

from tiered_server import TieredServer

MODEL = "click_demo"
OTHERS = 4


def load(args, address, forms, seconds, rate=None):
    words = [args.terrace, "bench", "infer", "--model", MODEL, "--server", address]
    words += ["--request", ROOT / "examples/click_request.json", "--as", ",".join(forms)]
    words += ["--seconds", str(seconds), "--json"]
    words += [] if rate is None else ["--rate", str(rate)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    print(done.stderr, end="")
    rows = json.loads(done.stdout)["rows"]
    for row in rows:
        print(json.dumps(row), flush=True)
    return rows


def come_and_go(base, ends, counted):
    """Loads each model, loads it again, and unloads it, whenever nobody else wants the processor."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    counts = {}
    while not ends.is_set():
        for number in range(OTHERS):
            for what in ["load", "load", "unload"]:
                url = f"{base}/v2/repository/models/other{number}/{what}"
                request = urllib.request.Request(url, data=b"{}", method="POST")
                urllib.request.urlopen(request, timeout=60).read()
                counts[what] = counts.get(what, 0) + 1
    counted.put(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--terrace", type=Path, default=ROOT / "target/release/terrace")
    parser.add_argument("--minutes", type=float, default=10, help="of each open loop")
    parser.add_argument("--seconds", type=float, default=20, help="of each closed loop")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shutil.copytree(ROOT / "examples/click_demo", folder, dirs_exist_ok=True)
        for number in range(OTHERS):
            name = f"other{number}"
            shutil.copytree(folder / MODEL, folder / name)
            config = folder / name / "config.pbtxt"
            config.write_text(config.read_text().replace(MODEL, name))
            for path in sorted((folder / name).rglob(f"*{MODEL}*"), reverse=True):
                path.rename(path.with_name(path.name.replace(MODEL, name)))
        options = ["--model-repository", folder, "--device", "cpu", "--log-level", "warn"]
        server = stack.enter_context(TieredServer(args.terrace, None, *options))
        address = server.base.removeprefix("http://")
        rows = load(args, address, ["json", "binary", "grpc"], args.seconds)
        rate = min(row["requests_per_second"] for row in rows) / 4
        print(f"open loop at {rate:.0f} requests/s")
        (alone,) = load(args, address, ["grpc"], 60 * args.minutes, rate)
        ends, counted = multiprocessing.Event(), multiprocessing.Queue()
        loader = multiprocessing.Process(target=come_and_go, args=(server.base, ends, counted))
        loader.start()
        try:
            (beside,) = load(args, address, ["grpc"], 60 * args.minutes, rate)
        finally:
            ends.set()
            counts = counted.get(timeout=600)
            loader.join()
        ratio = beside["p99_ms"] / alone["p99_ms"]
        print(f"{counts}; p99 {ratio:.2f} times that without")
        assert alone["errors"] == beside["errors"] == 0, "requests failed"


if __name__ == "__main__":
    main()
