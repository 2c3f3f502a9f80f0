"""Writes `crates/terrace/tests/trained`: small recommenders as `tools/hstu` trains and saves them.

Each folder has the users (`processed_seqs.csv`, or `sequences.txt`), the gin file, the checkpoint,
and in `metrics.json` what the trainer's own evaluation printed, which `terrace rank eval` is held to.

    pip install torch==2.15.0 numpy==2.4.6 gin-config==0.5.0
    python tools/golden/hstu_trained.py
"""

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "crates" / "terrace" / "tests" / "trained"
TRAINING = ROOT / "tools" / "hstu" / "training"
USERS, ITEMS, UNKNOWN = 24, 40, 9
COMMON = """
TrainerArgs.train_batch_size = 8
TrainerArgs.eval_batch_size = 5
TrainerArgs.max_train_iters = 60
TrainerArgs.ckpt_save_interval = 60
DatasetArgs.max_history_seqlen = 16
NetworkArgs.num_layers = 1
NetworkArgs.hidden_size = 8
NetworkArgs.num_attention_heads = 2
NetworkArgs.kv_channels = 4
NetworkArgs.num_position_buckets = 40
NetworkArgs.disable_contextual_mask = True
OptimizerArgs.optimizer_str = "adam"
OptimizerArgs.learning_rate = 1e-2
"""
CASES = {
    "tasks": ("pretrain_gr_ranking", """
DatasetArgs.dataset_name = "ml-20m"
DatasetArgs.max_num_candidates = 6
RankingArgs.prediction_head_arch = [8, 3]
RankingArgs.num_tasks = 3
"""),
    "popularity": ("pretrain_gr_retrieval", """
DatasetArgs.dataset_name = "amazon-beauty"
RetrievalArgs.num_negatives = 16
RetrievalArgs.eval_metrics = ("HR@5", "NDCG@5", "MRR")
SequentialArgs.enabled = True
SequentialArgs.eval_negatives = 12
SequentialArgs.eval_sampling = "popularity"
"""),
}


def histories(random):
    """Users like items of their own kind; few have items that nobody trains on."""
    for user in range(1, USERS + 1):
        count = int(random.integers(7, 26))
        likes = random.random(ITEMS) < np.where(np.arange(ITEMS) % 3 == user % 3, 0.8, 0.2)
        items = 1 + (random.random(count) ** 1.5 * ITEMS).astype(int)
        if user % 9 == 0:
            items[::5] = ITEMS + 1 + items[::5] % UNKNOWN
        yield user, items.tolist(), likes[(items - 1) % ITEMS]


def write_users(path, random):
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["user_id", "movie_id", "rating"])
        for user, items, liked in histories(random):
            actions = np.where(liked, 1, 0) | 2 * random.integers(0, 5, len(items))
            rows.writerow([user, items, actions.tolist()])


def write_text(path, random):
    lines = [f"{user} {item}" for user, items, _ in histories(random) for item in items]
    path.write_text("\n".join(lines) + "\n")


def printed_metrics(text):
    """Those of the last evaluation."""
    users, body = re.findall(r"\[(?:eval|test)\] \[\w+ (\d+) users\]:\n((?:    .*\n)+)", text)[-1]
    metrics = dict(re.findall(r"Metrics\.(\S+):(\S+)", body))
    return {"users": int(users), "metrics": {name: float(it) for name, it in metrics.items()}}


def leave_optimizer_out(checkpoint):
    """What training goes on from, and nothing reads here."""
    for kind in ("emb_opt_values.*", "emb_scores.*", "opt_args.json"):
        for path in checkpoint.glob(f"**/*_{kind}"):
            path.unlink()
    for path in (checkpoint / "torch_module/model.0.pth", checkpoint / "checkpoint.pt"):
        if path.is_file():
            state = torch.load(path, weights_only=True)
            state.pop("optimizer_state_dict")
            torch.save(state, path)


def make(name, program, own):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = np.random.default_rng(sum(name.encode()))
    is_text = "SequentialArgs" in own
    users = folder / ("sequences.txt" if is_text else "processed_seqs.csv")
    (write_text if is_text else write_users)(users, random)
    gin = folder / "training.gin"
    gin.write_text(COMMON.strip() + "\n" + own)
    # Relative paths: the checkpoint's gin file has them.
    bindings = [f"DatasetArgs.dataset_path = '{users.name}'",
                "TrainerArgs.ckpt_save_dir = 'checkpoints'"]
    command = [sys.executable, "-B", TRAINING / f"{program}.py", "--gin-config-file", gin.name]
    done = subprocess.run([*command, "--gin-bindings", *bindings], cwd=folder,
                          capture_output=True, text=True, check=True)
    checkpoints = folder / "checkpoints"
    best = checkpoints / "best"
    (best if best.is_dir() else checkpoints / "iter60").rename(folder / "checkpoint")
    shutil.rmtree(checkpoints)
    leave_optimizer_out(folder / "checkpoint")
    metrics = printed_metrics(done.stdout)
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    print(name, metrics)


def main():
    for name, (program, own) in CASES.items():
        make(name, program, own)


if __name__ == "__main__":
    main()
