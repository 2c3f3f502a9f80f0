"""A click-through network in HugeCTR's JSON, which PyTorch computes in f64 as it is written."""

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

SAMPLES = 3


class Case:
    """A network in the making, and its tensors for one batch."""

    def __init__(self, name, dense=None, tables=None, labels=None, samples=SAMPLES):
        self.name, self.samples = name, samples
        self.random = torch.Generator().manual_seed(sum(map(ord, name)))
        self.data = {"type": "Data"}
        self.layers = [self.data]
        self.tensors, self.x = {}, {}
        if labels:
            names, dims = list(labels), list(labels.values())
            self.data["label"] = {
                "top": names if len(names) > 1 else names[0],
                "label_dim": dims if len(dims) > 1 else dims[0],
            }
        if dense is not None:
            self.data["dense"] = {"top": "dense", "dense_dim": dense}
        if dense:
            self.x["dense"] = self.draw("dense", samples, dense)
        for table, (slots, dim) in (tables or {}).items():
            self.table(table, slots, dim)

    def table(self, table, slots, dim):
        keys = {"top": table + "_keys", "slot_num": slots, "nnz_per_slot": 1}
        self.data.setdefault("sparse", []).append(keys)
        options = {"embedding_vec_size": dim, "combiner": "sum"}
        self.layers.append(
            {
                "type": "DistributedSlotSparseEmbeddingHash",
                "bottom": table + "_keys",
                "top": table,
                "sparse_embedding_hparam": options,
            }
        )
        pooled = self.draw("pooled." + table, self.samples, slots * dim)
        self.x[table] = pooled.reshape(self.samples, slots, dim)

    def draw(self, name, *shape, scale=1.0, offset=0.0):
        """Numbers that are the same in f32 and f64."""
        numbers = torch.randn(*shape, generator=self.random, dtype=torch.float64)
        return self.set(name, numbers * scale + offset)

    def set(self, name, numbers):
        self.tensors[name] = numbers.float().contiguous()
        return self.tensors[name].double()

    def lengths(self, *rows):
        """The dense input, as lengths of sequences."""
        self.x["dense"] = self.set("dense", torch.tensor(rows))

    def layer(self, kind, bottom, top, value, **options):
        """Adds a layer whose top has this value; several where these are lists."""
        self.layers.append({"type": kind, "bottom": bottom, "top": top, **options})
        tops, values = ([top], [value]) if isinstance(top, str) else (top, value)
        self.x.update(zip(tops, values))

    def fc(self, bottom, top, outputs, **options):
        """An InnerProduct; over the last extent."""
        inputs = self.x[bottom].shape[-1]
        name = options.get("name", top)
        weight = self.draw(name + ".weight", inputs, outputs, scale=inputs**-0.5)
        bias = self.draw(name + ".bias", 1, outputs)
        value = F.linear(self.x[bottom], weight.T, bias[0])
        self.layer("InnerProduct", bottom, top, value, fc_param={"num_output": outputs}, **options)

    def relu(self, bottom, top):
        self.layer("ReLU", bottom, top, F.relu(self.x[bottom]))

    def sigmoid(self, bottom, top):
        self.layer("Sigmoid", bottom, top, torch.sigmoid(self.x[bottom]))

    def dropout(self, bottom, top):
        self.layer("Dropout", bottom, top, self.x[bottom], rate=0.5)

    def softmax(self, bottom, top, **options):
        self.layer("Softmax", bottom, top, F.softmax(self.x[bottom], -1), **options)

    def reshape(self, bottom, top, leading_dim, time_step=None):
        steps = {} if time_step is None else {"time_step": time_step}
        rows = (-1, time_step, leading_dim) if time_step else (-1, leading_dim)
        value = self.x[bottom].reshape(*rows)
        self.layer("Reshape", bottom, top, value, leading_dim=leading_dim, **steps)

    def concat(self, bottoms, top, axis=1):
        value = torch.cat([self.x[bottom] for bottom in bottoms], dim=axis)
        self.layer("Concat", bottoms, top, value, axis=axis)

    def slice(self, bottom, tops, ranges):
        values = [self.x[bottom][..., start:end] for start, end in ranges]
        self.layer("Slice", bottom, tops, values, ranges=[list(it) for it in ranges])

    def dice(self, bottom, top, alpha=0.2, eps=1e-8):
        x = self.x[bottom]
        normed = F.batch_norm(x, None, None, training=True, eps=eps)
        part = torch.sigmoid(normed)
        value = part * x + (1 - part) * alpha * x
        self.layer("PReLU_Dice", bottom, top, value, prelu_dice_param={"alpha": alpha, "eps": eps})

    def batch_norm(self, bottom, top, eps=1e-3):
        x, shape = self.x[bottom], (1, self.x[bottom].shape[-1])
        gamma, beta = (self.draw(f"{top}.{name}", *shape) for name in ["gamma", "beta"])
        mean = self.draw(top + ".running_mean", *shape)
        var = self.draw(top + ".running_var", *shape).abs() + 0.1
        var = self.set(top + ".running_var", var)
        value = F.batch_norm(x, mean[0], var[0], gamma[0], beta[0], eps=eps)
        self.layer("BatchNorm", bottom, top, value, bn_param={"factor": 0.9, "eps": eps})

    def norm(self, bottom, top, eps=1e-4):
        dim = self.x[bottom].shape[-1]
        gamma = self.draw(top + ".gamma", 1, dim, offset=1.0)
        beta = self.draw(top + ".beta", 1, dim)
        value = F.layer_norm(self.x[bottom], (dim,), gamma[0], beta[0], eps)
        self.layer("LayerNorm", bottom, top, value, ln_param={"eps": eps})

    def add(self, bottoms, top):
        self.layer("Add", bottoms, top, sum(self.x[bottom] for bottom in bottoms))

    def sub(self, bottoms, top):
        self.layer("Sub", bottoms, top, self.x[bottoms[0]] - self.x[bottoms[1]])

    def multiply(self, bottoms, top, kind="ElementwiseMultiply"):
        value = torch.stack([self.x[bottom] for bottom in bottoms]).prod(0)
        self.layer(kind, bottoms, top, value)

    def reduce(self, kind, bottom, top, axis):
        x = self.x[bottom]
        value = x.sum(axis, True) if kind == "ReduceSum" else x.mean(axis, True)
        self.layer(kind, bottom, top, value, axis=axis)

    def scale(self, bottom, top, axis, factor):
        value = self.x[bottom].repeat_interleave(factor, dim=1 - axis)
        self.layer("Scale", bottom, top, value, scale_param={"axis": axis, "factor": float(factor)})

    def attention(self, bottoms, top, heads):
        """Softmax with HugeCTR's mask, which hides by 10,000 and adds 1e-6 to the sum."""
        q, k, v = (self.x[it].unflatten(-1, (heads, -1)).transpose(1, 2) for it in bottoms[:3])
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = F.softmax(scores, -1)
        if len(bottoms) == 4:
            scores = scores - (1 - self.x[bottoms[3]]) * 10_000
            powers = (scores - scores.amax(-1, True)).exp()
            weights = powers / (powers.sum(-1, True) + 1e-6)
        value = (weights @ v).transpose(1, 2).flatten(-2)
        self.layer("MultiHeadAttention", bottoms, top, value, num_attention_heads=heads)

    def mask(self, bottoms, top, rows, columns):
        from_, to = (self.x[bottom].trunc() for bottom in bottoms)
        value = (torch.arange(rows)[:, None] < from_[:, :, None]) & (
            torch.arange(columns)[None, :] < to[:, :, None]
        )
        value = value.double().reshape(self.samples, 1, rows, columns)
        lengths = {"max_sequence_len_from": rows, "max_sequence_len_to": columns}
        self.layer("SequenceMask", bottoms, top, value, **lengths)

    def loss(self, kind, bottom, label):
        """Adds it, and gives what a server gives in its place."""
        bottoms = [bottom, label]
        self.layers.append({"type": kind, "bottom": bottoms, "top": "loss_" + label})
        softmax = kind == "CrossEntropyLoss"
        return F.softmax(self.x[bottom], 1) if softmax else torch.sigmoid(self.x[bottom])

    def giving(self, *outputs):
        """The whole case, whose result is `outputs` side by side, or the last layer's top where
        none are given."""
        if not outputs:
            top = self.layers[-1]["top"]
            outputs = [self.x[top if isinstance(top, str) else top[-1]]]
        out = torch.cat([output.reshape(self.samples, -1) for output in outputs], 1)
        self.set("out", out)
        return self

    def write(self, folder):
        """Writes the tensors, and gives the entry of the manifest."""
        file = self.name + ".safetensors"
        save_file(self.tensors, folder / file)
        kind = "network" if self.name.startswith("net_") else "layer"
        return {"kind": kind, "file": file, "layers": self.layers}
