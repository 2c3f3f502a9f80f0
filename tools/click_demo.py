#!/usr/bin/env python3
"""Write examples/click_demo, a model repository with one small click-through model.

    pip install torch numpy
    tools/click_demo.py

The data are made up: people of 16 segments with interests, 200 ads of 12 categories, four devices,
24 hours. People click on what interests them, less on what is dear, old or far down the page. A
DLRM learns that in a minute, so that its answers mean something: ask for an ad in and outside a
person's interests.
"""

import json
import struct
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).resolve().parent.parent / "examples/click_demo"
NAME, STEPS, DIM = "click_demo", 3000, 8
SIZES = {"segment": 16, "interests": 12, "ad": 200, "category": 12, "device": 4, "hour": 24}
DENSE = ["price", "age", "position"]
BOTTOM, TOP = [16, DIM], [32, 16, 1]


def offsets():
    starts, total = {}, 0
    for slot, size in SIZES.items():
        starts[slot] = total
        total += size
    return starts, total


class World:
    """Who clicks on what."""

    def __init__(self, random):
        self.random = random
        self.category_of = random.integers(0, SIZES["category"], SIZES["ad"])
        self.appeal = random.normal(0, 0.6, SIZES["ad"])
        self.liked = random.normal(0, 0.5, (SIZES["segment"], SIZES["category"]))
        self.device = np.array([0.3, 0.0, -0.2, -0.4])

    def samples(self, count):
        r = self.random
        segment = r.integers(0, SIZES["segment"], count)
        ad = r.integers(0, SIZES["ad"], count)
        device = r.integers(0, SIZES["device"], count)
        hour = r.integers(0, SIZES["hour"], count)
        interests = r.random((count, SIZES["interests"])) < 0.2
        dense = r.random((count, len(DENSE)))
        category = self.category_of[ad]
        logit = -2.0 + self.appeal[ad] + self.liked[segment, category] + self.device[device]
        logit += 1.8 * interests[np.arange(count), category]
        logit += 0.4 * np.cos((hour - 20) / 24 * 2 * np.pi)
        logit -= 1.2 * dense[:, 0] + 0.6 * dense[:, 1] + 1.5 * dense[:, 2]
        clicks = r.random(count) < 1 / (1 + np.exp(-logit))
        ids = {"segment": segment, "ad": ad, "category": category, "device": device, "hour": hour}
        return dense, ids, interests, clicks


class Dlrm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.starts, rows = offsets()
        self.rows = torch.nn.Parameter(torch.randn(rows, DIM) * 0.1)
        vectors = 1 + len(SIZES)
        width = DIM + vectors * (vectors - 1) // 2 + 1
        self.bottom = stack(len(DENSE), BOTTOM)
        self.top = stack(width, TOP)

    def forward(self, dense, ids, interests):
        x = dense
        for layer in self.bottom:
            x = torch.relu(layer(x))
        slots = []
        for slot, start in self.starts.items():
            if slot == "interests":
                rows = self.rows[start : start + SIZES[slot]]
                slots.append(interests.to(rows.dtype) @ rows)
            else:
                slots.append(self.rows[start + ids[slot]])
        vectors = torch.stack([x, *slots], 1)
        products = vectors @ vectors.transpose(1, 2)
        pairs = [products[:, i, j] for j in range(1, vectors.shape[1]) for i in range(j)]
        x = torch.cat([x, torch.stack(pairs, 1), torch.zeros(len(x), 1)], 1)
        for number, layer in enumerate(self.top):
            x = layer(x)
            if number + 1 < len(self.top):
                x = torch.relu(x)
        return x[:, 0]


def stack(width, outputs):
    layers = []
    for size in outputs:
        layers.append(torch.nn.Linear(width, size))
        width = size
    return torch.nn.ModuleList(layers)


def train(model, world):
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        dense, ids, interests, clicks = world.samples(1024)
        ids = {slot: torch.from_numpy(numbers) for slot, numbers in ids.items()}
        logit = model(torch.from_numpy(dense).float(), ids, torch.from_numpy(interests))
        wanted = torch.from_numpy(clicks).float()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


def network():
    layers = [
        {
            "name": "data",
            "type": "Data",
            "label": {"top": "label", "label_dim": 1},
            "dense": {"top": "dense", "dense_dim": len(DENSE)},
            "sparse": [{"top": "data1", "slot_num": len(SIZES), "is_fixed_length": False,
                        "nnz_per_slot": [SIZES[slot] if slot == "interests" else 1 for slot in SIZES]}],
        },
        {
            "name": "sparse_embedding1",
            "type": "DistributedSlotSparseEmbeddingHash",
            "bottom": "data1",
            "top": "sparse_embedding1",
            "sparse_embedding_hparam": {"embedding_vec_size": DIM, "combiner": "sum"},
        },
    ]
    bottom = "dense"
    for number, size in enumerate(BOTTOM, 1):
        layers += product(number, bottom, size)
        bottom = f"relu{number}"
    layers.append({"name": "interaction1", "type": "Interaction",
                   "bottom": [bottom, "sparse_embedding1"], "top": "interaction1"})
    bottom = "interaction1"
    for number, size in enumerate(TOP, len(BOTTOM) + 1):
        layers += product(number, bottom, size)
        bottom = f"relu{number}"
    layers.pop()
    layers.append({"name": "loss", "type": "BinaryCrossEntropyLoss",
                   "bottom": [layers[-1]["top"], "label"], "top": "loss"})
    return {"layers": layers}


def product(number, bottom, outputs):
    fc, relu = f"fc{number}", f"relu{number}"
    return [
        {"name": fc, "type": "InnerProduct", "bottom": bottom, "top": fc,
         "fc_param": {"num_output": outputs}},
        {"name": relu, "type": "ReLU", "bottom": fc, "top": relu},
    ]


CONFIG = """name: "click_demo"
backend: "hugectr"
max_batch_size: 256
input [
  { name: "DES" data_type: TYPE_FP32 dims: [ -1 ] },
  { name: "CATCOLUMN" data_type: TYPE_INT64 dims: [ -1 ] },
  { name: "ROWINDEX" data_type: TYPE_INT32 dims: [ -1 ] }
]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [ { count: 1 kind: KIND_AUTO } ]
dynamic_batching { }
parameters [
  { key: "slots" value: { string_value: "6" } },
  { key: "des_feature_num" value: { string_value: "3" } },
  { key: "embedding_vector_size" value: { string_value: "8" } },
  { key: "embeddingkey_long_type" value: { string_value: "true" } },
  { key: "gpucache" value: { string_value: "true" } },
  { key: "gpucacheper" value: { string_value: "1.0" } }
]
"""


def write(model):
    folder = FOLDER / NAME / "1"
    table = folder / f"{NAME}0_sparse_{STEPS}.model"
    table.mkdir(parents=True, exist_ok=True)
    (FOLDER / NAME / "config.pbtxt").write_text(CONFIG)
    (folder / f"{NAME}.json").write_text(json.dumps(network(), indent=1) + "\n")
    rows = model.rows.detach().numpy().astype("<f4")
    (table / "key").write_bytes(struct.pack(f"<{len(rows)}q", *range(len(rows))))
    (table / "emb_vector").write_bytes(rows.tobytes())
    dense = b""
    for layer in [*model.bottom, *model.top]:
        dense += layer.weight.detach().numpy().T.astype("<f4").tobytes(order="C")
        dense += layer.bias.detach().numpy().astype("<f4").tobytes()
    (folder / f"{NAME}_dense_{STEPS}.model").write_bytes(dense)


if __name__ == "__main__":
    torch.manual_seed(7)
    model, world = Dlrm(), World(np.random.default_rng(7))
    train(model, world)
    write(model)
