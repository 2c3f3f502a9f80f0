"""Rows and dense weights of a click-through model come over Kafka, and its answers follow, seen by
NVIDIA's client for Triton.

usage: ctr_updates.py TERRACE GOLDEN BROKERS
"""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import tritonclient.http as http_client
from checks import equal, run
from ctr_client import Traffic, answer, serving, write_ps
from ctr_files import GoldenModel, read_safetensors, write_safetensors

REFRESH_SECONDS = 0.5
# It takes about a second; busy machines add to it.
PATIENCE = 30


def test_answers_follow_updates(terrace, golden, brokers):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = GoldenModel(golden, folder / "models", "dlrm")
        references = reference_answers(terrace, golden, folder)
        old, rows, both = references
        case = model.cases()[1]
        write_ps(
            folder / "ps.json",
            [model],
            entry={"cache_refresh_percentage_per_iteration": 1.0},
            update_source={"type": "kafka_message_queue", "brokers": brokers},
        )
        interval = f'key: "refresh_interval" value {{ string_value: "{REFRESH_SECONDS}" }}'
        model.write_config(model.config + f"parameters [ {{ {interval} }} ]")
        with serving(terrace, folder / "models", "--ps", folder / "ps.json") as server:
            client = http_client.InferenceServerClient(server.address)
            equal(answer(client, http_client, "dlrm", case).tolist(), old.tolist())
            with Traffic(server, "dlrm", case) as traffic:
                table = folder / "rows.model"
                shutil.copytree(next(model.folder.glob("1/*_sparse_*.model")), table)
                numbers = np.fromfile(table / "emb_vector", np.float32) * np.float32(1.5)
                numbers.astype(np.float32).tofile(table / "emb_vector")
                publish(terrace, brokers, "--table", "sparse_embedding1", table)
                wait_for(client, case, rows, "rows")
                weights = read_safetensors(model.golden / "weights.safetensors")
                weights = {name: array.copy() for name, array in weights.items()}
                weights["dense.fc5.bias"] += np.float32(0.7)
                write_safetensors(folder / "dense.safetensors", weights)
                publish(terrace, brokers, "--dense", folder / "dense.safetensors", "--version", 7)
                wait_for(client, case, both, "dense weights")
            equal(traffic.problems, [])
            # Dense weights are switched between two batches; rows come one by one, so what was
            # answered while they came is of no interest here.
            last = [found for _, found in traffic.answers][-20:]
            for found in last:
                assert any((found == want).all() for want in (rows, both)), "neither old nor new"


def reference_answers(terrace, golden, folder):
    """Before, with other rows, with other dense weights too."""
    with tempfile.TemporaryDirectory() as other:
        model = GoldenModel(golden, other, "dlrm")
        model.add_version(2, rows=1.5)
        model.add_version(3, rows=1.5, bias=0.7)
        model.write_config(model.config + "version_policy { all { } }")
        case = model.cases()[1]
        with serving(terrace, other) as server:
            client = http_client.InferenceServerClient(server.address)
            return [answer(client, http_client, "dlrm", case, str(it)) for it in (1, 2, 3)]


def publish(terrace, brokers, *options):
    words = [terrace, "ps", "publish", "--brokers", brokers, "--model", "dlrm", *options]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def wait_for(client, case, want, what):
    began = time.monotonic()
    while True:
        found = answer(client, http_client, "dlrm", case)
        took = time.monotonic() - began
        if (found == want).all():
            break
        assert took < PATIENCE, f"{what} were not seen in {PATIENCE} s"
        time.sleep(0.01)
    print(f"{what} were seen after {took:.2f} s (refresh {REFRESH_SECONDS} s)")


if __name__ == "__main__":
    run(globals(), "TERRACE GOLDEN BROKERS")
