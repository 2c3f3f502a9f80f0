"""Writes `testdata/ctr_layers/`: layers of click-through networks as PyTorch computes them in f64.

`manifest.json` has each case's network in HugeCTR's JSON, and a safetensors file for each its
weights by `LAYER.PARAM`, the inputs `dense` and `pooled.TABLE`, and the result `out`, rounded to
f32. There is a case for each layer and each way to use it, and small networks in the form of
HugeCTR's samples.

    pip install torch==2.15.0 safetensors numpy
    python tools/golden/ctr_layers.py
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from ctr_case import SAMPLES, Case
from ctr_samples import networks

FOLDER = Path(__file__).resolve().parents[2] / "testdata" / "ctr_layers"


def products():
    case = Case("inner_product", dense=13)
    case.fc("dense", "fc", 7)
    yield case.giving()

    case = Case("inner_product_of_vectors", tables={"table": (6, 5)})
    case.fc("table", "fc", 3, name="named")
    case.relu("fc", "relu")
    yield case.giving()

    case = Case("inner_product_read_twice", dense=9)
    case.fc("dense", "fc", 8)
    case.relu("fc", "relu")
    case.add(["fc", "relu"], "add")
    yield case.giving()

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
        options = {"num_output": outputs}
        options = {"fc_param": options, "position": position, "activation": activation}
        case.layer("FusedInnerProduct", bottom, tops, [value] * len(tops), **options)
        bottom = tops
    yield case.giving(case.x["fc2"])

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
        yield case.giving()


def functions():
    for name, (kind, function, options) in {
        "relu": ("ReLU", F.relu, {}),
        "sigmoid": ("Sigmoid", torch.sigmoid, {}),
        "elu": ("ELU", lambda x: F.elu(x, 0.7), {"elu_param": {"alpha": 0.7}}),
        "dropout": ("Dropout", lambda x: x, {"rate": 0.5}),
        "cast": ("Cast", lambda x: x, {}),
    }.items():
        case = Case(name, dense=19)
        case.layer(kind, "dense", "top", function(case.x["dense"]), **options)
        yield case.giving()

    case = Case("functions_of_vectors", tables={"table": (3, 6)})
    elu = F.elu(case.x["table"], 1.3)
    case.layer("ELU", "table", "elu", elu, elu_param={"alpha": 1.3})
    case.sigmoid("elu", "sigmoid")
    case.dropout("table", "dropout")
    case.layer("Cast", "dropout", "cast", case.x["dropout"])
    case.relu("cast", "relu")
    case.concat(["sigmoid", "relu"], "top", axis=2)
    yield case.giving()

    case = Case("softmax", dense=19)
    case.softmax("dense", "top", factor=1.0)
    yield case.giving()

    case = Case("softmax_of_vectors", tables={"table": (4, 7)})
    case.softmax("table", "top")
    yield case.giving()

    case = Case("dice", dense=21)
    case.dice("dense", "top", alpha=0.3, eps=1e-4)
    yield case.giving()

    case = Case("dice_of_rows", dense=12)
    case.reshape("dense", "rows", 4)
    case.dice("rows", "dice")
    case.reshape("dice", "top", 12)
    yield case.giving()

    case = Case("batch_norm", dense=21)
    case.batch_norm("dense", "top")
    yield case.giving()

    case = Case("batch_norm_of_rows", dense=12)
    case.reshape("dense", "rows", 4)
    case.batch_norm("rows", "norm")
    case.reshape("norm", "top", 12)
    yield case.giving()

    case = Case("layer_norm", dense=21)
    case.norm("dense", "top")
    yield case.giving()

    case = Case("layer_norm_of_vectors", tables={"table": (4, 9)})
    case.norm("table", "top")
    yield case.giving()


def combinations():
    for name, kind, count in [
        ("add", "Add", 3),
        ("multiply", "ElementwiseMultiply", 3),
        ("dot_product", "DotProduct", 3),
        ("sub", "Sub", 2),
    ]:
        case = Case(name, dense=4)
        bottoms = ["a", "b", "c"][:count]
        for bottom in bottoms:
            case.fc("dense", bottom, 17)
        combine(case, kind, bottoms)
        yield case.giving()

        case = Case(name + "_of_vectors", tables={"a": (2, 9), "b": (2, 9)})
        combine(case, kind, ["a", "b"])
        yield case.giving()


def combine(case, kind, bottoms):
    if kind == "Sub":
        case.sub(bottoms, "top")
    elif kind == "Add":
        case.add(bottoms, "top")
    else:
        case.multiply(bottoms, "top", kind)


def reshapes():
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
            steps, width = options.get("time_step", 1), options.get("leading_dim")
            case.x["top"] = x.reshape(*options.get("shape", [-1, steps, width]))
            if name == "reshape":
                case.x["top"] = x.reshape(-1, 10)
            # A product sees the rows that there are now.
            case.fc("top", "fc", 3)
            case.reshape("fc", "flat", case.x["fc"].numel() // SAMPLES)
            value = case.x["flat"]
        yield case.giving(value)


def concats():
    case = Case("concat", dense=6, tables={"table": (3, 4)})
    case.reshape("table", "flat", 12)
    case.fc("dense", "fc", 5)
    case.concat(["fc", "flat", "dense"], "top")
    case.fc("top", "out_fc", 3)
    yield case.giving()

    case = Case("concat_twice", dense=6)
    case.fc("dense", "fc", 5)
    case.concat(["fc", "dense", "fc"], "inner")
    case.relu("inner", "relu")
    case.concat(["relu", "fc"], "outer")
    yield case.giving()

    case = Case("concat_in_concat", dense=6)
    for top in ["a", "b", "c"]:
        case.fc("dense", top, 4)
    case.concat(["a", "b"], "inner")
    case.concat(["c", "inner"], "outer")
    case.fc("outer", "out_fc", 3)
    yield case.giving()

    case = Case("concat_vectors", tables={"a": (3, 4), "b": (2, 4), "c": (3, 5)})
    case.concat(["a", "b"], "slots")
    case.concat(["a", "c"], "wide", axis=2)
    case.fc("slots", "fc_slots", 2)
    case.fc("wide", "fc_wide", 3)
    case.reshape("fc_slots", "flat_slots", 10)
    case.reshape("fc_wide", "flat_wide", 9)
    case.concat(["flat_slots", "flat_wide"], "top")
    yield case.giving()

    case = Case("concat_of_products", tables={"table": (3, 4)})
    case.fc("table", "a", 5)
    case.fc("table", "b", 2)
    case.concat(["a", "b"], "top", axis=2)
    case.fc("top", "fc", 2)
    yield case.giving()

    case = Case("fused_reshape_concat", tables={"a": (4, 3), "b": (4, 5)})
    joined = torch.cat([case.x["a"], case.x["b"]], 2)
    values = [joined[:, :-1].reshape(-1, 8), joined[:, -1]]
    case.layer("FusedReshapeConcat", ["a", "b"], ["items", "last"], values)
    case.fc("last", "fc_last", 8)
    case.scale("fc_last", "last_rows", 1, 3)
    case.add(["items", "last_rows"], "sum")
    case.reshape("sum", "top", 24)
    yield case.giving()

    case = Case("fused_reshape_concat_general", tables={"a": (4, 3), "b": (4, 5)})
    value = torch.cat([case.x["a"], case.x["b"]], 2).reshape(-1, 8)
    case.layer("FusedReshapeConcatGeneral", ["a", "b"], "rows", value)
    case.fc("rows", "fc", 3)
    case.reshape("fc", "top", 12)
    yield case.giving()


def slices():
    case = Case("slice", dense=20)
    case.slice("dense", ["a", "b", "whole"], [(0, 12), (5, 17), (0, 20)])
    case.fc("a", "fc_a", 4)
    case.fc("b", "fc_b", 4)
    case.fc("whole", "fc_whole", 4)
    case.add(["fc_a", "fc_b", "fc_whole"], "top")
    yield case.giving()

    case = Case("slice_of_slice", dense=20)
    case.slice("dense", ["a"], [(2, 18)])
    case.slice("a", ["b", "c"], [(1, 9), (8, 16)])
    case.multiply(["b", "c"], "top")
    yield case.giving()

    case = Case("slice_of_other_rows", dense=20)
    case.slice("dense", ["a"], [(2, 18)])
    case.reshape("a", "rows", 4)
    case.slice("rows", ["b", "c"], [(0, 3), (1, 4)])
    case.sub(["b", "c"], "top")
    case.reshape("top", "flat", 12)
    yield case.giving()

    case = Case("slice_of_vectors", tables={"table": (4, 7)})
    case.slice("table", ["a", "b"], [(0, 3), (3, 7)])
    case.fc("a", "fc_a", 2)
    case.fc("b", "fc_b", 2)
    case.add(["fc_a", "fc_b"], "top")
    yield case.giving()

    case = Case("activations_of_slices", dense=6)
    case.fc("dense", "fc", 12)
    case.slice("fc", ["a", "b"], [(0, 12), (0, 12)])
    case.relu("a", "relu")
    case.sigmoid("b", "sigmoid")
    case.concat(["relu", "sigmoid"], "top")
    yield case.giving()

    for axis in [0, 1]:
        case = Case(f"scale_{axis}", dense=7)
        case.scale("dense", "scaled", axis, 3)
        case.reshape("scaled", "top", 21)
        yield case.giving()


def crosses():
    case = Case("weight_multiply", dense=13)
    weight = case.draw("top.weight", 13, 3)
    value = (case.x["dense"][:, :, None] * weight).flatten(1)
    case.layer("WeightMultiply", "dense", "top", value, weight_dims=[13, 3])
    yield case.giving()

    case = Case("fm_order2", tables={"table": (6, 5)})
    case.reshape("table", "flat", 30)
    x = case.x["table"]
    pairs = [(i, j) for i in range(6) for j in range(i)]
    case.layer("FmOrder2", "flat", "top", sum(x[:, i] * x[:, j] for i, j in pairs), out_dim=5)
    yield case.giving()

    for kind, name in [("ReduceSum", "reduce_sum"), ("ReduceMean", "reduce_mean")]:
        case = Case(name, dense=17)
        case.reduce(kind, "dense", "top", 1)
        yield case.giving()
        for axis in [1, 2]:
            case = Case(f"{name}_of_vectors_{axis}", tables={"table": (6, 5)})
            case.reduce(kind, "table", "top", axis)
            yield case.giving()

    case = Case("multi_cross", dense=19)
    first = x = case.x["dense"]
    for layer in range(3):
        weight = case.draw(f"cross.{layer}.weight", 1, 19, scale=0.2)
        bias = case.draw(f"cross.{layer}.bias", 1, 19)
        x = first * (x @ weight.T) + x + bias
    case.layer("MultiCross", "dense", "cross", x, mc_param={"num_layers": 3})
    yield case.giving()

    case = Case("multi_cross_projected", dense=19)
    first = x = case.x["dense"]
    for layer in range(2):
        down = case.draw(f"cross.{layer}.U", 19, 4, scale=0.2)
        up = case.draw(f"cross.{layer}.V", 4, 19, scale=0.2)
        bias = case.draw(f"cross.{layer}.bias", 1, 19)
        x = first * (x @ down @ up + bias) + x
    param = {"num_layers": 2, "projection_dim": 4}
    case.layer("MultiCross", "dense", "cross", x, mc_param=param)
    yield case.giving()

    case = Case("interaction", dense=4, tables={"table": (5, 9)})
    case.fc("dense", "bottom", 9)
    vectors = torch.cat([case.x["bottom"][:, None], case.x["table"]], 1)
    products = vectors @ vectors.transpose(1, 2)
    below = [products[:, j, i] for j in range(1, 6) for i in range(j)]
    zero = torch.zeros(SAMPLES, dtype=torch.float64)
    value = torch.cat([case.x["bottom"], torch.stack([*below, zero], 1)], 1)
    case.layer("Interaction", ["bottom", "table"], ["top", "gradient"], [value, value])
    yield case.giving(value)


def sequences():
    # Lengths of no token and of too many, below zero, and with a fraction.
    case = Case("sequence_mask", dense=2, samples=5)
    case.lengths([0, 3], [2, 4], [5, 9], [-1, 2], [2.75, 1])
    case.slice("dense", ["from", "to"], [(0, 1), (1, 2)])
    case.mask(["from", "to"], "mask", 3, 4)
    yield case.giving()

    tables = {"queries": (3, 8), "keys": (5, 8), "values": (5, 8)}
    case = Case("attention", tables=tables)
    case.attention(list(tables), "top", 2)
    yield case.giving()

    # The whole sequences, some of them, and rows that see no key at all.
    case = Case("attention_masked", dense=2, tables=tables, samples=4)
    case.lengths([3, 5], [2, 4], [0, 2], [3, 0])
    case.slice("dense", ["from", "to"], [(0, 1), (1, 2)])
    case.mask(["from", "to"], "mask", 3, 5)
    case.attention([*tables, "mask"], "top", 4)
    yield case.giving()


def losses():
    case = Case("binary_loss", dense=8, labels={"label": 1})
    case.fc("dense", "fc", 1)
    yield case.giving(case.loss("BinaryCrossEntropyLoss", "fc", "label"))

    case = Case("loss_of_input", dense=3, labels={"label": 3})
    yield case.giving(case.loss("MultiCrossEntropyLoss", "dense", "label"))

    case = Case("multi_loss", dense=8, labels={"label": 4})
    case.fc("dense", "fc", 4)
    case.relu("fc", "relu")
    yield case.giving(case.loss("MultiCrossEntropyLoss", "relu", "label"))

    case = Case("class_loss", dense=8, labels={"label": 1})
    case.fc("dense", "fc", 2)
    yield case.giving(case.loss("CrossEntropyLoss", "fc", "label"))

    case = Case("two_losses", dense=8, labels={"first": 1, "second": 2})
    case.fc("dense", "fc_second", 2)
    case.fc("dense", "fc_first", 1)
    second = case.loss("BinaryCrossEntropyLoss", "fc_second", "second")
    first = case.loss("BinaryCrossEntropyLoss", "fc_first", "first")
    yield case.giving(first, second)


def main():
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.safetensors"):
        path.unlink()
    entries = {}
    kinds = [products, functions, combinations, reshapes, concats, slices, crosses, sequences]
    for cases in [*kinds, losses, networks]:
        entries |= {case.name: case.write(FOLDER) for case in cases()}
    lines = [
        f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}"
        for name, entry in sorted(entries.items())
    ]
    (FOLDER / "manifest.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(len(entries), "cases in", FOLDER)


if __name__ == "__main__":
    main()
