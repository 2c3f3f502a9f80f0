"""Writes `testdata/ctr_layers/`: layers of click-through networks as PyTorch computes them in f64.

Each case is a network in HugeCTR's JSON (`CASE.json`) and a safetensors file with its weights by
`LAYER.PARAM`, the inputs `dense` and `pooled.TABLE` in f32, and the result `out` in f64. There is a
case for each layer and each way to use it, and small networks in the form of HugeCTR's samples.

    pip install torch==2.15.0 safetensors numpy
    python tools/golden/ctr_layers.py
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

FOLDER = Path(__file__).resolve().parents[2] / "testdata" / "ctr_layers"
SAMPLES = 5


class Case:
    """A network in the making, and its tensors for one batch."""

    def __init__(self, name, dense=0, tables=None, labels=None):
        self.name = name
        self.random = torch.Generator().manual_seed(sum(map(ord, name)))
        self.tables = tables or {}
        label = labels or {"label": 1}
        names, dims = list(label), list(label.values())
        data = {
            "type": "Data",
            "label": {
                "top": names if len(names) > 1 else names[0],
                "label_dim": dims if len(dims) > 1 else dims[0],
            },
            "dense": {"top": "dense", "dense_dim": dense},
            "sparse": [],
        }
        self.layers = [data]
        self.tensors, self.x = {}, {}
        if dense:
            self.x["dense"] = self.draw("dense", SAMPLES, dense)
        for table, (slots, dim) in self.tables.items():
            nnz = [1] * slots
            data["sparse"].append(
                {"top": table + "_keys", "slot_num": slots, "is_fixed_length": True, "nnz_per_slot": nnz}
            )
            self.layers.append(
                {
                    "type": "DistributedSlotSparseEmbeddingHash",
                    "bottom": table + "_keys",
                    "top": table,
                    "sparse_embedding_hparam": {"embedding_vec_size": dim, "combiner": "sum"},
                }
            )
            pooled = self.draw("pooled." + table, SAMPLES, slots * dim)
            self.x[table] = pooled.reshape(SAMPLES, slots, dim)

    def draw(self, name, *shape, scale=1.0, offset=0.0):
        """Numbers that are the same in f32 and f64."""
        numbers = torch.randn(*shape, generator=self.random, dtype=torch.float64)
        self.tensors[name] = (numbers * scale + offset).float().contiguous()
        return self.tensors[name].double()

    def layer(self, kind, bottom, top, value, **options):
        """Adds a layer whose top has this value; several where these are lists."""
        self.layers.append({"type": kind, "bottom": bottom, "top": top, **options})
        tops, values = ([top], [value]) if isinstance(top, str) else (top, value)
        self.x.update(zip(tops, values))

    def fc(self, bottom, top, outputs, **options):
        """An InnerProduct; over the last extent."""
        inputs = self.x[bottom].shape[-1]
        weight = self.draw(top + ".weight", inputs, outputs, scale=inputs**-0.5)
        bias = self.draw(top + ".bias", 1, outputs)
        value = F.linear(self.x[bottom], weight.T, bias[0])
        self.layer("InnerProduct", bottom, top, value, fc_param={"num_output": outputs}, **options)

    def relu(self, bottom, top):
        self.layer("ReLU", bottom, top, F.relu(self.x[bottom]))

    def dropout(self, bottom, top):
        self.layer("Dropout", bottom, top, self.x[bottom], rate=0.5)

    def reshape(self, bottom, top, leading_dim, time_step=0):
        rows = (-1, time_step, leading_dim) if time_step else (-1, leading_dim)
        value = self.x[bottom].reshape(*rows)
        self.layer("Reshape", bottom, top, value, leading_dim=leading_dim, time_step=time_step)

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

    def norm(self, bottom, top, eps=1e-4):
        dim = self.x[bottom].shape[-1]
        gamma = self.draw(top + ".gamma", 1, dim, offset=1.0)
        beta = self.draw(top + ".beta", 1, dim)
        value = F.layer_norm(self.x[bottom], (dim,), gamma[0], beta[0], eps)
        self.layer("LayerNorm", bottom, top, value, ln_param={"eps": eps})

    def add(self, bottoms, top):
        self.layer("Add", bottoms, top, sum(self.x[bottom] for bottom in bottoms))

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
        value = value.double().reshape(SAMPLES, 1, rows, columns)
        lengths = {"max_sequence_len_from": rows, "max_sequence_len_to": columns}
        self.layer("SequenceMask", bottoms, top, value, **lengths)

    def loss(self, kind, bottom, label):
        bottoms = [bottom, label]
        self.layers.append({"type": kind, "bottom": bottoms, "top": "loss_" + label})
        softmax = kind == "CrossEntropyLoss"
        return F.softmax(self.x[bottom], 1) if softmax else torch.sigmoid(self.x[bottom])

    def write(self, *outputs):
        """`outputs` side by side; the last layer's top where none are given."""
        if not outputs:
            top = self.layers[-1]["top"]
            outputs = [self.x[top if isinstance(top, str) else top[-1]]]
        out = torch.cat([output.reshape(SAMPLES, -1) for output in outputs], 1)
        text = json.dumps({"layers": self.layers}, indent=1)
        (FOLDER / (self.name + ".json")).write_text(text + "\n")
        save_file({**self.tensors, "out": out.contiguous()}, FOLDER / (self.name + ".safetensors"))


def products():
    case = Case("inner_product", dense=13)
    case.fc("dense", "fc", 7)
    case.write()

    case = Case("inner_product_of_vectors", tables={"table": (6, 5)})
    case.fc("table", "fc", 3, name="named")
    for param in ["weight", "bias"]:
        case.tensors["named." + param] = case.tensors.pop("fc." + param)
    case.relu("fc", "relu")
    case.write()

    case = Case("inner_product_read_twice", dense=9)
    case.fc("dense", "fc", 8)
    case.relu("fc", "relu")
    case.add(["fc", "relu"], "add")
    case.write()

    case = Case("fused_inner_product", dense=11)
    bottom = ["dense"]
    for index, (position, outputs, activation) in enumerate(
        [("Head", 9, "Relu"), ("Body", 8, "Relu"), ("Tail", 3, "None")]
    ):
        top = f"fc{index}"
        x = case.x[bottom[0]]
        weight = case.draw(top + ".weight", x.shape[1], outputs, scale=x.shape[1] ** -0.5)
        bias = case.draw(top + ".bias", 1, outputs)
        value = x @ weight + bias
        value = F.relu(value) if activation == "Relu" else value
        tops = [top] if position == "Tail" else [top, top + "_mask", top + "_drelu", top + "_db"]
        options = {"fc_param": {"num_output": outputs}, "position": position, "activation": activation}
        case.layer("FusedInnerProduct", bottom, tops, [value] * len(tops), **options)
        bottom = tops
    case.write(case.x["fc2"])

    for name, options in {
        "mlp": {},
        "mlp_activations": {"activations": ["Relu", "None", "Relu"], "biases": [True, False, True]},
        "mlp_without_bias": {"activation": "None", "use_bias": False},
    }.items():
        case = Case(name, dense=10)
        x, outputs = case.x["dense"], [9, 6, 4]
        activations = options.get("activations", [options.get("activation", "Relu")] * 3)
        biases = options.get("biases", [options.get("use_bias", True)] * 3)
        for index, output in enumerate(outputs):
            scale = x.shape[1] ** -0.5
            weight = case.draw(f"mlp.{index}.weight", x.shape[1], output, scale=scale)
            bias = case.draw(f"mlp.{index}.bias", 1, output)
            x = x @ weight + (bias if biases[index] else 0)
            x = F.relu(x) if activations[index] == "Relu" else x
        param = {"num_output": 4, "num_outputs": outputs, **options}
        case.layer("MLP", "dense", "mlp", x, mlp_param=param)
        case.write()


def numbers():
    functions = {
        "relu": ("ReLU", F.relu, {}),
        "sigmoid": ("Sigmoid", torch.sigmoid, {}),
        "elu": ("ELU", lambda x: F.elu(x, 0.7), {"elu_param": {"alpha": 0.7}}),
        "softmax": ("Softmax", lambda x: F.softmax(x, 1), {"factor": 1.0}),
        "dropout": ("Dropout", lambda x: x, {"rate": 0.5}),
        "cast": ("Cast", lambda x: x, {}),
    }
    for name, (kind, function, options) in functions.items():
        case = Case(name, dense=19)
        case.layer(kind, "dense", "top", function(case.x["dense"]), **options)
        case.write()

    case = Case("softmax_of_vectors", tables={"table": (4, 7)})
    case.layer("Softmax", "table", "top", F.softmax(case.x["table"], 2))
    case.write()

    case = Case("dice", dense=21)
    case.dice("dense", "top", alpha=0.3, eps=1e-4)
    case.write()

    case = Case("batch_norm", dense=21)
    gamma = case.draw("top.gamma", 1, 21)
    beta = case.draw("top.beta", 1, 21)
    mean = case.draw("top.running_mean", 1, 21)
    var = case.draw("top.running_var", 1, 21).abs() + 0.1
    case.tensors["top.running_var"] = var.float()
    value = F.batch_norm(case.x["dense"], mean[0], var.float().double()[0], gamma[0], beta[0], eps=1e-3)
    case.layer("BatchNorm", "dense", "top", value, bn_param={"factor": 0.9, "eps": 1e-3})
    case.write()

    case = Case("layer_norm", dense=21)
    case.norm("dense", "top")
    case.write()

    case = Case("layer_norm_of_vectors", tables={"table": (4, 9)})
    case.norm("table", "top")
    case.write()

    for name, kind in {
        "add": "Add",
        "multiply": "ElementwiseMultiply",
        "dot_product": "DotProduct",
        "sub": "Sub",
    }.items():
        case = Case(name, dense=10)
        bottoms = ["a", "b"] if kind == "Sub" else ["a", "b", "c"]
        for bottom in bottoms:
            case.fc("dense", bottom, 17)
        if kind == "Sub":
            case.layer("Sub", bottoms, "top", case.x["a"] - case.x["b"])
        elif kind == "Add":
            case.add(bottoms, "top")
        else:
            case.multiply(bottoms, "top", kind)
        case.write()


def shapes():
    for name, options in {
        "reshape": {"leading_dim": 10},
        "reshape_time_step": {"leading_dim": 5, "time_step": 4},
        "reshape_shape": {"shape": [-1, 2, 10]},
        "reshape_flat": {},
        "reshape_selected": {"selected": [1, 2, 3]},
        "reshape_selected_apart": {"selected": [3, 0, 1, 3]},
    }.items():
        case = Case(name, tables={"table": (4, 5)})
        x = case.x["table"]
        if "selected" in options:
            x = x[:, options["selected"]]
        case.layer("Reshape", "table", "top", x.reshape(SAMPLES, -1), **options)
        value = case.x["top"]
        if "leading_dim" in options or "shape" in options:
            shape = options.get("shape", [-1, options.get("time_step", 1), options.get("leading_dim")])
            case.x["top"] = x.reshape(*shape)
            if name == "reshape":
                case.x["top"] = x.reshape(-1, 10)
            # A product sees the rows that there are now.
            case.fc("top", "fc", 3)
            case.reshape("fc", "flat", case.x["fc"].numel() // SAMPLES)
            value = case.x["flat"]
        case.write(value)

    case = Case("concat", dense=6, tables={"table": (3, 4)})
    case.reshape("table", "flat", 12)
    case.fc("dense", "fc", 5)
    case.concat(["fc", "flat", "dense"], "top")
    case.fc("top", "out_fc", 3)
    case.write()

    case = Case("concat_twice", dense=6)
    case.fc("dense", "fc", 5)
    case.concat(["fc", "dense", "fc"], "inner")
    case.relu("inner", "relu")
    case.concat(["relu", "fc"], "outer")
    case.write()

    case = Case("concat_in_concat", dense=6)
    for top in ["a", "b", "c"]:
        case.fc("dense", top, 4)
    case.concat(["a", "b"], "inner")
    case.concat(["c", "inner"], "outer")
    case.fc("outer", "out_fc", 3)
    case.write()

    tables = {"first": (3, 4), "second": (2, 4), "third": (3, 5)}
    case = Case("concat_vectors", tables=tables)
    case.concat(["first", "second"], "slots")
    case.concat(["first", "third"], "wide", axis=2)
    case.fc("slots", "fc_slots", 2)
    case.fc("wide", "fc_wide", 3)
    case.reshape("fc_slots", "flat_slots", 10)
    case.reshape("fc_wide", "flat_wide", 9)
    case.concat(["flat_slots", "flat_wide"], "top")
    case.write()

    case = Case("concat_of_products", dense=4, tables={"table": (3, 4)})
    case.fc("table", "a", 5)
    case.fc("table", "b", 2)
    case.concat(["a", "b"], "top", axis=2)
    case.fc("top", "fc", 2)
    case.write()

    case = Case("slice", dense=20)
    case.slice("dense", ["a", "b", "whole"], [(0, 12), (5, 17), (0, 20)])
    case.fc("a", "fc_a", 4)
    case.fc("b", "fc_b", 4)
    case.fc("whole", "fc_whole", 4)
    case.add(["fc_a", "fc_b", "fc_whole"], "top")
    case.write()

    case = Case("slice_of_slice", dense=20)
    case.slice("dense", ["a"], [(2, 18)])
    case.slice("a", ["b", "c"], [(1, 9), (8, 16)])
    case.multiply(["b", "c"], "top")
    case.write()

    case = Case("slice_of_other_rows", dense=20)
    case.slice("dense", ["a"], [(2, 18)])
    case.reshape("a", "rows", 4)
    case.slice("rows", ["b", "c"], [(0, 3), (1, 4)])
    case.layer("Sub", ["b", "c"], "top", case.x["b"] - case.x["c"])
    case.reshape("top", "flat", 12)
    case.write()

    case = Case("slice_of_vectors", tables={"table": (4, 7)})
    case.slice("table", ["a", "b"], [(0, 3), (3, 7)])
    case.fc("a", "fc_a", 2)
    case.fc("b", "fc_b", 2)
    case.add(["fc_a", "fc_b"], "top")
    case.write()

    case = Case("activations_of_slices", dense=12)
    case.fc("dense", "fc", 12)
    case.slice("fc", ["a", "b"], [(0, 12), (0, 12)])
    case.relu("a", "relu")
    case.layer("Sigmoid", "b", "sigmoid", torch.sigmoid(case.x["b"]))
    case.concat(["relu", "sigmoid"], "top")
    case.write()

    for axis in [0, 1]:
        case = Case(f"scale_{axis}", dense=7)
        case.scale("dense", "scaled", axis, 3)
        case.reshape("scaled", "top", 21)
        case.write()

    tables = {"first": (4, 3), "second": (4, 5)}
    for name in ["fused_reshape_concat", "fused_reshape_concat_general"]:
        case = Case(name, tables=tables)
        joined = torch.cat([case.x["first"], case.x["second"]], 2)
        if name == "fused_reshape_concat":
            values = [joined[:, :-1].reshape(-1, 8), joined[:, -1]]
            case.layer("FusedReshapeConcat", ["first", "second"], ["items", "last"], values)
            case.fc("last", "fc_last", 8)
            case.scale("fc_last", "last_rows", 1, 3)
            case.add(["items", "last_rows"], "sum")
            case.reshape("sum", "top", 24)
        else:
            value = joined.reshape(-1, 8)
            case.layer("FusedReshapeConcatGeneral", ["first", "second"], "rows", value)
            case.fc("rows", "fc", 3)
            case.reshape("fc", "top", 12)
        case.write()


def crosses():
    case = Case("weight_multiply", dense=13)
    weight = case.draw("top.weight", 13, 6)
    value = (case.x["dense"][:, :, None] * weight).flatten(1)
    case.layer("WeightMultiply", "dense", "top", value, weight_dims=[13, 6])
    case.write()

    case = Case("fm_order2", tables={"table": (6, 5)})
    case.reshape("table", "flat", 30)
    x = case.x["table"]
    pairs = [(i, j) for i in range(6) for j in range(i)]
    case.layer("FmOrder2", "flat", "top", sum(x[:, i] * x[:, j] for i, j in pairs), out_dim=5)
    case.write()

    for kind, name in [("ReduceSum", "reduce_sum"), ("ReduceMean", "reduce_mean")]:
        case = Case(name, dense=17)
        case.reduce(kind, "dense", "top", 1)
        case.write()
        for axis in [1, 2]:
            case = Case(f"{name}_of_vectors_{axis}", tables={"table": (6, 5)})
            case.reduce(kind, "table", "top", axis)
            case.write()

    case = Case("multi_cross", dense=19)
    first = x = case.x["dense"]
    for layer in range(3):
        weight = case.draw(f"cross.{layer}.weight", 1, 19, scale=0.2)
        bias = case.draw(f"cross.{layer}.bias", 1, 19)
        x = first * (x @ weight.T) + x + bias
    case.layer("MultiCross", "dense", "cross", x, mc_param={"num_layers": 3})
    case.write()

    case = Case("multi_cross_projected", dense=19)
    first = x = case.x["dense"]
    for layer in range(3):
        down = case.draw(f"cross.{layer}.U", 19, 4, scale=0.2)
        up = case.draw(f"cross.{layer}.V", 4, 19, scale=0.2)
        bias = case.draw(f"cross.{layer}.bias", 1, 19)
        x = first * (x @ down @ up + bias) + x
    param = {"num_layers": 3, "projection_dim": 4}
    case.layer("MultiCross", "dense", "cross", x, mc_param=param)
    case.write()

    case = Case("interaction", dense=9, tables={"table": (5, 9)})
    case.fc("dense", "bottom", 9)
    vectors = torch.cat([case.x["bottom"][:, None], case.x["table"]], 1)
    products = vectors @ vectors.transpose(1, 2)
    below = [products[:, j, i] for j in range(1, 6) for i in range(j)]
    zero = torch.zeros(SAMPLES, dtype=torch.float64)
    value = torch.cat([case.x["bottom"], torch.stack([*below, zero], 1)], 1)
    case.layer("Interaction", ["bottom", "table"], ["top", "gradient"], [value, value])
    case.write(value)


def sequences():
    case = Case("sequence_mask", dense=2)
    lengths = torch.tensor([[0, 3], [2, 4], [5, 9], [-1, 2], [2.75, 1]])
    case.tensors["dense"] = lengths
    case.x["dense"] = lengths.double()
    case.slice("dense", ["from", "to"], [(0, 1), (1, 2)])
    case.mask(["from", "to"], "mask", 3, 4)
    case.write()

    tables = {"queries": (3, 8), "keys": (5, 8), "values": (5, 8)}
    case = Case("attention", tables=tables)
    case.attention(list(tables), "top", 2)
    case.write()

    case = Case("attention_masked", dense=2, tables=tables)
    lengths = torch.tensor([[3, 5], [2, 4], [1, 1], [0, 2], [3, 0]])
    case.tensors["dense"] = lengths.float()
    case.x["dense"] = lengths.double()
    case.slice("dense", ["from", "to"], [(0, 1), (1, 2)])
    case.mask(["from", "to"], "mask", 3, 5)
    case.attention([*tables, "mask"], "top", 4)
    case.write()


def losses():
    case = Case("binary_loss", dense=8)
    case.fc("dense", "fc", 1)
    case.write(case.loss("BinaryCrossEntropyLoss", "fc", "label"))

    case = Case("loss_of_input", dense=3, labels={"label": 3})
    case.write(case.loss("MultiCrossEntropyLoss", "dense", "label"))

    case = Case("multi_loss", dense=8, labels={"label": 4})
    case.fc("dense", "fc", 4)
    case.relu("fc", "relu")
    case.write(case.loss("MultiCrossEntropyLoss", "relu", "label"))

    case = Case("class_loss", dense=8)
    case.fc("dense", "fc", 2)
    case.write(case.loss("CrossEntropyLoss", "fc", "label"))

    case = Case("two_losses", dense=8, labels={"first": 1, "second": 2})
    case.fc("dense", "fc_second", 2)
    case.fc("dense", "fc_first", 1)
    second = case.loss("BinaryCrossEntropyLoss", "fc_second", "second")
    first = case.loss("BinaryCrossEntropyLoss", "fc_first", "first")
    case.write(first, second)


def din():
    """Deep interest network: history and candidate, an attention MLP, Dice."""
    slots, dim = 5, 4
    case = Case("net_din", tables={"user": (1, dim), "good": (slots, dim), "cate": (slots, dim)})
    width, history = 2 * dim, slots - 1
    joined = torch.cat([case.x["good"], case.x["cate"]], 2)
    values = [joined[:, :-1].reshape(-1, width), joined[:, -1]]
    case.layer("FusedReshapeConcat", ["good", "cate"], ["items", "item"], values)
    case.scale("item", "item_rows", 1, history)
    case.layer("Sub", ["item_rows", "items"], "sub", case.x["item_rows"] - case.x["items"])
    case.multiply(["item_rows", "items"], "product")
    case.concat(["item_rows", "items", "sub", "product"], "joined")
    case.fc("joined", "att1", 10)
    case.fc("att1", "att2", 1)
    case.reshape("att2", "scores", history)
    case.layer("Softmax", "scores", "weights", F.softmax(case.x["scores"], 1))
    case.scale("weights", "weights_wide", 0, width)
    case.reshape("items", "items_flat", history * width)
    case.multiply(["weights_wide", "items_flat"], "weighted")
    case.reduce("ReduceSum", "weighted", "interest", 1)
    case.reshape("items", "items_steps", width, history)
    case.reduce("ReduceMean", "items_steps", "mean", 1)
    case.reshape("mean", "mean_flat", width)
    case.reshape("user", "user_flat", dim)
    case.concat(["user_flat", "mean_flat", "interest", "item"], "top")
    case.fc("top", "fc1", 12)
    case.dice("fc1", "dice1")
    case.fc("dice1", "fc2", 6)
    case.dice("fc2", "dice2")
    case.fc("dice2", "fc3", 1)
    case.write(case.loss("BinaryCrossEntropyLoss", "fc3", "label"))


def bst():
    """Behaviour sequence transformer: attention over the history, in both of its poolings."""
    slots, dim = 4, 6
    for pooling in ["mean", "concat"]:
        tables = {"user": (1, 5), "good": (slots, dim), "item_good": (1, dim)}
        tables |= {"cate": (slots, dim), "item_cate": (1, dim)}
        case = Case("net_bst_" + pooling, dense=1, tables=tables)
        lengths = torch.tensor([[4.0], [2.0], [1.0], [3.0], [4.0]])
        case.tensors["dense"] = lengths
        case.x["dense"] = lengths.double()
        case.mask(["dense", "dense"], "mask", slots, slots)
        case.concat(["cate", "good"], "history", axis=2)
        for top in ["query", "key", "value"]:
            case.fc("history", top, 8)
        case.attention(["query", "key", "value", "mask"], "attended", 2)
        case.add(["attended", "query"], "shortcut")
        case.norm("shortcut", "normed")
        case.fc("normed", "ffn1", 16)
        case.fc("ffn1", "ffn2", 8)
        case.add(["ffn2", "normed"], "ffn_shortcut")
        case.norm("ffn_shortcut", "ffn_normed")
        if pooling == "mean":
            case.reduce("ReduceMean", "ffn_normed", "pooled", 1)
            case.reshape("pooled", "sequence", 8)
        else:
            case.reshape("ffn_normed", "sequence", slots * 8)
        for table in ["user", "item_good", "item_cate"]:
            case.reshape(table, table + "_flat", tables[table][1])
        case.concat(["sequence", "user_flat", "item_good_flat", "item_cate_flat"], "top")
        case.fc("top", "fc1", 10)
        case.dice("fc1", "dice1")
        case.fc("dice1", "fc2", 1)
        case.write(case.loss("BinaryCrossEntropyLoss", "fc2", "label"))


def mmoe():
    """Two tasks with layers that they share, and some of their own."""
    case = Case("net_mmoe", dense=1, tables={"table": (3, 6)}, labels={"A": 1, "B": 1})
    case.reshape("table", "flat", 18)
    case.fc("flat", "shared1", 16)
    case.relu("shared1", "relu1")
    case.dropout("relu1", "dropout1")
    case.fc("dropout1", "shared2", 16)
    case.relu("shared2", "relu2")
    case.dropout("relu2", "dropout2")
    case.slice("dropout2", ["sliceA", "sliceB"], [(0, 7), (8, 15)])
    outputs = []
    for task in ["A", "B"]:
        case.fc("slice" + task, task + "_fc1", 5)
        case.relu(task + "_fc1", task + "_relu1")
        case.dropout(task + "_relu1", task + "_dropout1")
        case.fc(task + "_dropout1", task + "_out", 1)
        outputs.append(case.loss("BinaryCrossEntropyLoss", task + "_out", task))
    case.write(*outputs)


def ncf():
    """Neural matrix factorisation: an MLP beside a product of factors."""
    case = Case("net_neumf", dense=1, tables={"mixed": (2, 12)})
    case.reshape("mixed", "flat", 24)
    case.slice("flat", ["mlp", "gmf"], [(0, 15), (16, 24)])
    case.fc("mlp", "fc1", 16)
    case.relu("fc1", "relu1")
    case.dropout("relu1", "dropout1")
    case.fc("dropout1", "fc2", 8)
    case.relu("fc2", "relu2")
    case.dropout("relu2", "dropout2")
    case.slice("gmf", ["user", "item"], [(0, 4), (4, 8)])
    case.multiply(["user", "item"], "factors")
    case.concat(["factors", "dropout2"], "joined")
    case.fc("joined", "out_fc", 1)
    case.write(case.loss("BinaryCrossEntropyLoss", "out_fc", "label"))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for write in [products, numbers, shapes, crosses, sequences, losses, din, bst, mmoe, ncf]:
        write()
    print(len(list(FOLDER.glob("*.json"))), "cases in", FOLDER)
