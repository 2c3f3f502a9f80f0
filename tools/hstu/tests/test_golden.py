#!/usr/bin/env python3
"""Hold the trainer's models to numbers of the original implementations (`testdata/hstu`).

    pip install -r tools/hstu/requirements.txt
    python3 tools/hstu/tests/test_golden.py
"""

import json
import struct
import sys
import unittest
from functools import partial
from pathlib import Path

import numpy as np
import torch

TOOLS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))

from gr.args import NetworkArgs
from gr.attention import hstu_attention
from gr.hstu_block import HstuBlock
from gr.hstu_layer import HstuLayer
from gr.mask import TokenCounts, masked_blocks
from gr.metrics import auc, retrieval_metric
from gr.mlp import Mlp
from gr.sequential.model import SequentialModel, SequentialSizes, time_buckets

FOLDER = TOOLS.parent.parent / "testdata/hstu"
CASES = {case["name"]: case for case in json.loads((FOLDER / "manifest.json").read_text())["cases"]}
TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def golden(name):
    """Parameters, tensors and tolerance of a case."""
    case = CASES[name]
    data = (FOLDER / case.get("file", f"{name}.safetensors")).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for key, info in header.items():
        first, last = (8 + length + offset for offset in info["data_offsets"])
        numbers = np.frombuffer(data[first:last], TYPES[info["dtype"]]).reshape(info["shape"])
        tensors[key] = torch.from_numpy(numbers.copy())
    return case["params"], tensors, case["suggested_abs_tol"]


def padded(rows, lengths):
    """`[seqs, most rows, ...]` of the rows of all sequences."""
    return torch.nn.utils.rnn.pad_sequence(rows.split(list(lengths)), batch_first=True)


def unpadded(rows, lengths):
    return torch.cat([rows[i, :length] for i, length in enumerate(lengths)])


def set_layer(layer, tensors, prefix="", uvqk="uvqk_weight", bias="uvqk_bias"):
    with torch.no_grad():
        layer._linear_uvqk_weight.copy_(tensors[prefix + uvqk].T)
        layer._linear_uvqk_bias.copy_(tensors[prefix + bias])
        layer._linear_proj_weight.copy_(tensors[prefix + "proj_weight"].T)
        for side in ("input", "output"):
            for part in ("weight", "bias"):
                parameter = getattr(layer, f"_{side}_layernorm_{part}")
                parameter.copy_(tensors[f"{prefix}{side}_norm_{part}"])


def network(params, hidden, heads, head_dim, **more):
    sizes = {"num_layers": params.get("layers", 1), "hidden_size": hidden}
    return NetworkArgs(
        **sizes, num_attention_heads=heads, kv_channels=head_dim, hidden_dropout=0.0, **more
    )


class LayerTest(unittest.TestCase):
    def check(self, name, block_rows):
        params, tensors, tolerance = golden(name)
        args = network(params, params["hidden"], params["heads"], params["head_dim"])
        layer = HstuLayer(args, residual=params["residual"])
        set_layer(layer, tensors, "", "uvqk_weight_blocked", "uvqk_bias_blocked")
        lengths = params["lengths"]
        counts = TokenCounts(
            torch.tensor(lengths), tensors["contextual_seqlen"].long(),
            tensors["num_candidates"].long(),
        )
        blocks = masked_blocks(
            counts, max(lengths), block_rows, params["contextual_mask"],
            params["target_group_size"],
        )
        scaling = params["scaling_seqlen"]
        attend = partial(
            hstu_attention, blocks=blocks, alpha=params["head_dim"] ** -0.5,
            divisor=params["max_seqlen"] if scaling == -1 else scaling,
        )
        out = unpadded(layer(padded(tensors["x"], lengths), attend), lengths)
        torch.testing.assert_close(out, tensors["out"], atol=tolerance, rtol=0)

    def test_layers(self):
        for name in ("plain", "context_mask", "noresidual_group2"):
            for block_rows in (4, 64):
                with self.subTest(name, block_rows=block_rows):
                    self.check(f"layer_nv_{name}", block_rows)


class AttentionTest(unittest.TestCase):
    def test_gradients_are_those_of_the_plain_sum(self):
        torch.manual_seed(1)
        counts = TokenCounts(*(torch.tensor(it) for it in ([9, 6], [2, 2], [3, 1])))
        parts = [torch.randn(2, 2, 9, 4, dtype=torch.float64) for _ in range(4)]
        inputs = [part.requires_grad_() for part in parts[:3]]
        whole = masked_blocks(counts, 9, 9)[0].allowed
        scores = inputs[0] @ inputs[1].mT * 0.5
        plain = torch.nn.functional.silu(scores).masked_fill(~whole, 0) / 7 @ inputs[2]
        wanted = torch.autograd.grad((plain * parts[3]).sum(), inputs)
        out = hstu_attention(*inputs, masked_blocks(counts, 9, 4), 0.5, 7.0)
        found = torch.autograd.grad((out * parts[3]).sum(), inputs)
        for one, other in zip(found, wanted):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


class RankingTest(unittest.TestCase):
    def check(self, name):
        params, tensors, tolerance = golden(name)
        args = network(
            params, params["hidden"], params["heads"], params["head_dim"],
            num_position_buckets=params["position_rows"],
        )
        block = HstuBlock(args, params["scaling_seqlen"]).eval()
        head = Mlp(params["hidden"], params["head_arch"], params["head_activation"])
        with torch.no_grad():
            encoder = block._preprocessor._positional_encoder
            encoder._position_embeddings_weight.copy_(tensors["pos_emb"])
            for i, layer in enumerate(block._attention_layers):
                set_layer(layer, tensors, f"layer{i}.")
            for i, linear in enumerate(head._mlp[::2]):
                linear.weight.copy_(tensors[f"head{i}.weight"])
                linear.bias.copy_(tensors[f"head{i}.bias"])
            encoded = block(*self.inputs(params, tensors)).candidates()
            logits = head(encoded)
        torch.testing.assert_close(encoded, tensors["normed_candidates"], atol=tolerance, rtol=0)
        torch.testing.assert_close(logits, tensors["logits"], atol=tolerance, rtol=0)

    def inputs(self, params, tensors):
        """Values lie feature by feature, and in each user by user."""
        seqs, names = params["batch"], [*params["contextual_features"], "item", "action"]
        lengths = tensors["in.lengths"].tolist()
        parts = tensors["in.values"].split(lengths)
        by_feature = {name: parts[i * seqs : (i + 1) * seqs] for i, name in enumerate(names)}
        rows = {
            name: torch.nn.utils.rnn.pad_sequence(
                [tensors[f"emb.{name}"][ids] for ids in by_feature[name]], batch_first=True
            )
            for name in names
        }
        context = [rows[name] for name in params["contextual_features"]]
        context = torch.cat(context, 1) if context else rows["item"][:, :0]
        counts = torch.tensor([len(ids) for ids in by_feature["item"]])
        return context, rows["item"], rows["action"], counts, tensors["in.num_candidates"]

    def test_models(self):
        for name in ("ranking_nv", "ranking_nv_noctx_poscap"):
            with self.subTest(name):
                self.check(name)


class SequentialTest(unittest.TestCase):
    def check(self, name):
        params, tensors, tolerance = golden(name)
        model = SequentialModel(SequentialSizes(
            items=params["num_items"], most_items=params["max_seq_len"], dim=params["dim"],
            layers=params["blocks"], heads=params["heads"], head_dim=params["dqk"],
            dropout=0.0, has_times=True, concat_ua=params["concat_ua"],
        )).eval()
        names = set(model.state_dict())
        model.load_state_dict({key: tensors[key] for key in names})
        ids, times = tensors["ids"], tensors["timestamps"]
        with torch.no_grad():
            bias = model._hstu._attention_layers[0]._rel_attn_bias(
                ids.shape[1], time_buckets(times)
            )
            encoded = model(ids, times)
        last = encoded[torch.arange(len(ids)), tensors["lengths"] - 1]
        rows = torch.nn.functional.normalize(tensors["_embedding_module._item_emb.weight"][1:])
        present = (ids != 0)[:, :, None]
        close = partial(torch.testing.assert_close, atol=tolerance, rtol=0)
        close(bias, tensors["rel_bias_layer0"])
        close(encoded * present, tensors["encoded"] * present)
        close(last, tensors["current"])
        scores = last @ rows.T
        close(scores, tensors["scores"])
        self.assertTrue(torch.equal(scores.topk(5).indices + 1, tensors["top5_ids"]))

    def test_models(self):
        for name in ("seq_meta_relbias", "seq_meta_relbias_concat"):
            with self.subTest(name):
                self.check(name)


class MetricsTest(unittest.TestCase):
    def test_metrics(self):
        _, tensors, tolerance = golden("metrics")
        probabilities = tensors["logits"].sigmoid().numpy()
        labels, ranks = tensors["labels"].numpy(), tensors["ranks"].numpy()
        for task, wanted in enumerate(tensors["auc"].tolist()):
            found = auc(probabilities[:, task], (labels >> task) & 1)
            self.assertAlmostEqual(found, wanted, delta=tolerance)
        for name, key in (("HR@10", "hr10_standard"), ("NDCG@10", "ndcg10"), ("MRR", "mrr")):
            wanted = float(tensors[key].double().mean())
            self.assertAlmostEqual(retrieval_metric(name, ranks), wanted, delta=tolerance)


if __name__ == "__main__":
    unittest.main()
