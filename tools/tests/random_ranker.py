"""A recommender of random weights, as a folder that Terrace serves.

Two layers, two heads, two features of context with 5 and 7 ids, items 1000 to 1059, 9 actions: what
`ranked_users.py` draws from.
"""

import array
import json
import math
import random
from pathlib import Path

ITEMS, ACTIONS, TASKS = 60, 9, 3
MAX_HISTORY_TOKENS, MAX_CANDIDATES = 202, 50


class RandomTensors:
    """Tensors of a file, by name."""

    def __init__(self, seed):
        self.chance, self.named = random.Random(seed), {}

    def add(self, name, *shape, size=0.3):
        count = math.prod(shape)
        numbers = array.array("f", (self.chance.uniform(-size, size) for _ in range(count)))
        self.named[name] = ("F32", shape, numbers.tobytes())


def write_model(
    folder, hidden=64, heads=2, head_dim=32, layers=2, seed=1, task="ranking", mlps=False
):
    """Writes the model's files into a folder; `mlps`: rows are narrower and go through such."""
    context_dim, item_dim = (24, 40) if mlps else (hidden, hidden)
    width = heads * head_dim
    config = {
        "model_type": "hstu",
        "task": task,
        "variant": "nvidia",
        "num_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "head_dim": head_dim,
        "scaling_seqlen": 250,
        "max_history_tokens": MAX_HISTORY_TOKENS,
        "max_candidates": MAX_CANDIDATES,
        "contextual_features": ["age", "city"],
        "item_feature": "item",
        "action_feature": "action",
        "num_tasks": TASKS,
    }
    if mlps:
        config |= {"contextual_embedding_dim": context_dim, "item_embedding_dim": item_dim}
    Path(folder, "config.json").write_text(json.dumps(config))
    tensors = RandomTensors(seed)
    add = tensors.add
    for name, rows in [("age", 5), ("city", 7)]:
        add(f"embeddings.{name}.weight", rows, context_dim)
    for name, rows in [("item", ITEMS), ("action", ACTIONS)]:
        add(f"embeddings.{name}.weight", rows, item_dim)
    for name, dim in [("contextual_mlp", context_dim), ("item_mlp", item_dim)] if mlps else []:
        for layer, (outputs, inputs) in enumerate([(48, dim), (hidden, 48)]):
            add(f"{name}.{layer}.weight", outputs, inputs)
            add(f"{name}.{layer}.bias", outputs)
    keys = array.array("q", (1000 + item for item in range(ITEMS)))
    tensors.named["embeddings.item.keys"] = ("I64", (ITEMS,), keys.tobytes())
    add("positions.weight", MAX_HISTORY_TOKENS, hidden)
    for layer in range(layers):
        for norm, dim in [("input_norm", hidden), ("output_norm", width)]:
            add(f"layers.{layer}.{norm}.weight", dim, size=1.0)
            add(f"layers.{layer}.{norm}.bias", dim)
        add(f"layers.{layer}.uvqk.weight", 4 * width, hidden)
        add(f"layers.{layer}.uvqk.bias", 4 * width)
        add(f"layers.{layer}.output.weight", hidden, width)
    add("head.0.weight", 24, hidden)
    add("head.0.bias", 24)
    add("head.1.weight", TASKS, 24)
    add("head.1.bias", TASKS)
    write_safetensors(Path(folder, "model.safetensors"), tensors.named)


def write_sequential(folder, hidden=50, heads=2, head_dim=25, layers=3, longest=40, seed=1):
    """A model that looks at times and finds items."""
    width = heads * head_dim
    config = {
        "model_type": "hstu",
        "task": "retrieval",
        "variant": "sequential",
        "num_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "head_dim": head_dim,
        "scaling_seqlen": longest + 1,
        "max_history_tokens": longest,
        "max_candidates": MAX_CANDIDATES,
        "item_feature": "item",
    }
    Path(folder, "config.json").write_text(json.dumps(config))
    tensors = RandomTensors(seed)
    add = tensors.add
    add("embeddings.item.weight", ITEMS, hidden)
    add("positions.weight", longest, hidden)
    for layer in range(layers):
        add(f"layers.{layer}.uvqk.weight", 4 * width, hidden)
        add(f"layers.{layer}.output.weight", hidden, width)
        add(f"layers.{layer}.output.bias", hidden)
        add(f"layers.{layer}.position_bias", 2 * longest - 1)
        add(f"layers.{layer}.time_bias", 129)
    write_safetensors(Path(folder, "model.safetensors"), tensors.named)


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        end = offset + len(data)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # Who has the file open keeps what was in it.
    beside = path.with_suffix(".new")
    with open(beside, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, _, data in tensors.values():
            file.write(data)
    beside.rename(path)


def page_bytes(tokens=64, heads=2, head_dim=32, layers=2, bytes_each=4):
    """Of keys and values."""
    return tokens * layers * 2 * heads * head_dim * bytes_each
