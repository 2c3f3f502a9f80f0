"""Writes `testdata/ctr_onnx/`: the dense parts of two click-through models of `testdata/ctr` as ONNX.

PyTorch exports them, with the weights that HugeCTR's files have, so that the cases of
`testdata/ctr` say what comes out. Inputs are the dense features and the combined vectors of each
table. `one_sample.onnx` is exported for a single sample alone, which cannot be served.

    pip install torch==2.15.0 onnx onnxscript onnxruntime safetensors numpy
    python tools/golden/ctr_onnx.py
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from safetensors.torch import load_file

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
OPSET = 18


def dlrm(weights):
    class Dlrm(torch.nn.Module):
        def forward(self, dense, vectors):
            bottom = linear(weights, "fc2", linear(weights, "fc1", dense).relu()).relu()
            rows = torch.cat([bottom.unsqueeze(1), vectors], 1)
            products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
            second, first = torch.tril_indices(rows.shape[1], rows.shape[1], -1)
            pairs = products.index_select(1, second * rows.shape[1] + first)
            top = torch.cat([bottom, pairs, bottom[:, :1] * 0], 1)
            for layer in ("fc3", "fc4"):
                top = linear(weights, layer, top).relu()
            return torch.sigmoid(linear(weights, "fc5", top))

    return Dlrm(), {"dense": [13], "sparse_embedding1": [26, 32]}


def wdl(weights):
    class WideAndDeep(torch.nn.Module):
        def forward(self, wide, deep, dense):
            x = torch.cat([deep.flatten(1), dense], 1)
            for layer in ("fc1", "fc2"):
                x = linear(weights, layer, x).relu()
            return torch.sigmoid(linear(weights, "fc_out", x) + wide.sum(1))

    shapes = {"sparse_embedding2": [2, 1], "sparse_embedding1": [26, 16], "dense": [13]}
    return WideAndDeep(), shapes


def linear(weights, layer, x):
    return x @ weights[f"dense.{layer}.weight"] + weights[f"dense.{layer}.bias"]


def export(path, model, shapes, samples):
    example = tuple(torch.zeros(samples, *shape) for shape in shapes.values())
    is_open = samples > 1
    torch.onnx.export(
        model.eval(),
        example,
        path,
        input_names=list(shapes),
        output_names=["output"],
        opset_version=OPSET,
        dynamic_shapes=[{0: torch.export.Dim("batch")} for _ in shapes] if is_open else None,
        external_data=False,
        dynamo=True,
    )
    # What the exporter notes of its own machine says nothing about the model.
    file = onnx.load(path)
    for node in file.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for part in (file, file.graph):
        part.ClearField("metadata_props")
    for value in [*file.graph.value_info, *file.graph.input, *file.graph.output]:
        value.ClearField("metadata_props")
    onnx.save(file, path)


def check(path, model):
    session = onnxruntime.InferenceSession(path)
    for case in (TESTDATA / "ctr" / model).glob("case_*.safetensors"):
        tensors = load_file(case)
        if "combined.sparse_embedding1" not in tensors:
            continue
        samples = len(tensors["OUTPUT0"])
        vectors = {name.removeprefix("combined."): it for name, it in tensors.items()}
        vectors["dense"] = vectors["DES"].reshape(samples, -1)
        names = [it.name for it in session.get_inputs()]
        (out,) = session.run(None, {name: vectors[name].numpy() for name in names})
        apart = np.abs(out[:, 0] - tensors["OUTPUT0"].numpy()).max()
        print(f"{path.name} {case.name}: {apart:.1e} from the golden numbers")
        assert apart < 1e-6


def main():
    folder = TESTDATA / "ctr_onnx"
    folder.mkdir(exist_ok=True)
    for name, build in (("dlrm", dlrm), ("wdl", wdl)):
        model, shapes = build(load_file(TESTDATA / "ctr" / name / "weights.safetensors"))
        export(folder / f"{name}.onnx", model, shapes, samples=2)
        check(folder / f"{name}.onnx", name)
    model, shapes = wdl(load_file(TESTDATA / "ctr" / "wdl" / "weights.safetensors"))
    export(folder / "one_sample.onnx", model, shapes, samples=1)


if __name__ == "__main__":
    main()
