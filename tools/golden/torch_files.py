"""Writes `testdata/torch`: files of `torch.save`, right and wrong, and what PyTorch says is in them.

`values.json` has the numbers of the tensors in `tensors.pth` by name, as PyTorch prints them; the
model's tests read both. `recsys` and `sequential.pt` are golden models of `testdata/hstu` as
recsys-examples and generative-recommenders save theirs. Files that begin with `hostile-` would run
something if they were loaded without care; they are written here and loaded nowhere. `written.pth`
is Terrace's own work: the tests hold the writer to its bytes, and here PyTorch reads it.

    pip install torch==2.15.0 numpy==2.4.6 safetensors==0.8.0
    python tools/golden/torch_files.py
"""

import io
import json
import os
import tempfile
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

FOLDER = Path(__file__).resolve().parents[2] / "testdata" / "torch"
GOLDEN = FOLDER.parent / "hstu"


def tensors():
    base = torch.arange(24, dtype=torch.float32)
    matrix = base.reshape(4, 6)
    return OrderedDict(
        f64=torch.tensor([1.5, -2.5], dtype=torch.float64),
        f32=torch.tensor([[1.5, -2.5], [0.25, 3.0]]),
        f16=torch.tensor([0.5, -8.0], dtype=torch.float16),
        bf16=torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.bfloat16),
        f8_e4m3=torch.tensor([1.0, -0.5]).to(torch.float8_e4m3fn),
        f8_e5m2=torch.tensor([2.0, -4.0]).to(torch.float8_e5m2),
        i64=torch.tensor([1, -(2**40)]),
        i32=torch.tensor([7, -7], dtype=torch.int32),
        i16=torch.tensor([300, -300], dtype=torch.int16),
        i8=torch.tensor([-128, 127], dtype=torch.int8),
        u8=torch.tensor([0, 255], dtype=torch.uint8),
        flags=torch.tensor([True, False, True]),
        scalar=torch.tensor(42.0),
        empty=torch.empty(0, 3),
        parameter=torch.nn.Parameter(torch.tensor([4.0, 5.0])),
        shared=matrix,
        rows=matrix[1:3],
        columns=matrix[:, 2:4],
        turned=matrix.T,
        every_other=base[::2],
        deep=base.reshape(2, 3, 4).permute(2, 0, 1),
        bf16_turned=torch.arange(6).reshape(2, 3).to(torch.bfloat16).T,
        one_column=matrix[:, 5:6],
    )


def checkpoint():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    for at, parameter in enumerate(model.parameters()):
        torch.nn.init.constant_(parameter, at + 0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {
        "epoch": 3,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
        "seed": 2**64 - 1,
        "loss": 0.125,
        "name": "größer",
        "notes": [True, None, (1, 2), {"inner": torch.ones(2)}],
        "raw": b"\x00\xff",
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        "size": torch.Size([2, 3]),
        "kinds": {5},
    }


def sharded_table():
    """What DynamicEmb leaves in a state dict in place of a table."""
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata

    spec = EnumerableShardingSpec([ShardMetadata([0, 0], [2, 3], placement="rank:0/cpu")])
    return sharded_tensor.zeros(spec, 2, 3)


def recsys():
    """The ranking model with fused layers, as rank 0 of one and as two dumps of its items' table."""
    golden = load_file(GOLDEN / "ranking_nv.safetensors")
    state = OrderedDict()
    tables = "_embedding_collection._data_parallel_embedding_collection.embeddings."
    dynamic = "_embedding_collection._model_parallel_embedding_collection.embeddings."
    static = ["ctx0", "ctx1", "action"]
    state[f"{tables}{'/'.join(static)}_weights"] = torch.cat([golden[f"emb.{name}"].flatten() for name in static])
    state[f"{dynamic}item.weight"] = sharded_table()
    encoder = "_hstu_block._preprocessor._positional_encoder."
    state[f"{encoder}_position_embeddings_weight"] = golden["pos_emb"]
    for layer in range(2):
        to, of = f"_hstu_block._attention_layers.{layer}.", f"layer{layer}."
        state[f"{to}_linear_uvqk_weight"] = golden[f"{of}uvqk_weight"].T.contiguous()
        state[f"{to}_linear_uvqk_bias"] = golden[f"{of}uvqk_bias"]
        state[f"{to}_input_layernorm_weight"] = golden[f"{of}input_norm_weight"]
        state[f"{to}_input_layernorm_bias"] = golden[f"{of}input_norm_bias"]
        state[f"{to}_output_layernorm_weight"] = golden[f"{of}output_norm_weight"]
        state[f"{to}_output_layernorm_bias"] = golden[f"{of}output_norm_bias"]
        state[f"{to}_linear_proj_weight"] = golden[f"{of}proj_weight"].T.contiguous()
    for layer in range(2):
        for part in ["weight", "bias"]:
            state[f"_mlp._mlp.{2 * layer}.{part}"] = golden[f"head{layer}.{part}"]
    dense = FOLDER / "recsys" / "torch_module"
    dense.mkdir(parents=True, exist_ok=True)
    torch.save({"model_state_dict": state, "optimizer_state_dict": None}, dense / "model.0.pth")
    folder = FOLDER / "recsys" / "dynamicemb_module" / "model._embedding_collection._model_parallel_embedding_collection"
    folder.mkdir(parents=True, exist_ok=True)
    keys = np.arange(len(golden["emb.item"]), dtype="<i8")
    for rank in range(2):
        own, name = keys[rank::2], f"rank_{rank}.world_size_2"
        own.tofile(folder / f"item_emb_keys.{name}")
        golden["emb.item"].numpy()[own].astype("<f4").tofile(folder / f"item_emb_values.{name}")
        (own + 1).tofile(folder / f"item_emb_scores.{name}")


def sequential():
    golden = load_file(GOLDEN / "seq_meta_relbias_concat.safetensors")
    names = ("_embedding_module.", "_input_features_preproc.", "_hstu.")
    state = OrderedDict((f"module.{name}", golden[name]) for name in golden if name.startswith(names))
    state["module._attn_mask"] = torch.ones(10, 10, dtype=torch.bool).triu(1)
    torch.save({"epoch": 100, "model_state_dict": state}, FOLDER / "sequential.pt")


def check_written():
    """PyTorch reads what Terrace wrote, with care and mapped."""
    for mapped in [False, True]:
        read = torch.load(FOLDER / "written.pth", weights_only=True, mmap=mapped)
        assert list(read) == ["model_state_dict", "optimizer_state_dict", "steps"], list(read)
        assert read["optimizer_state_dict"] is None and read["steps"] == 2**40
        state = read["model_state_dict"]
        assert isinstance(state, OrderedDict) and list(state) == ["matrix", "half", "ids", "none"]
        assert torch.equal(state["matrix"], torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4)
        assert torch.equal(state["half"], torch.tensor([1.0, -2.0], dtype=torch.bfloat16))
        assert torch.equal(state["ids"], torch.tensor([7, -(2**50)]))
        assert state["none"].shape == (0, 4)
        state["matrix"].add_(1)


def save_sharded():
    """What DynamicEmb and Transformer Engine leave in a state dict beside weights."""
    state = OrderedDict(table=sharded_table(), weight=torch.ones(2), extra=io.BytesIO(b"state"))
    torch.save({"model_state_dict": state}, FOLDER / "sharded.pth")


class Calls:
    """An object whose pickle calls a function with arguments."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def archive(name, pickle):
    with zipfile.ZipFile(FOLDER / name, "w", zipfile.ZIP_STORED) as file:
        for entry, content in [("a/data.pkl", pickle), ("a/byteorder", b"little"), ("a/version", b"3\n")]:
            file.writestr(zipfile.ZipInfo(entry), content)


def bombs():
    # A list of two lists, each of two lists ...: 2^40 of them, in 40 times a few bytes.
    doubled = b"".join(b"]q" + bytes([at]) + b"(h" + bytes([at - 1]) + b"h" + bytes([at - 1]) + b"e" for at in range(1, 41))
    archive("hostile-doubled.pth", b"\x80\x02]q\x00" + doubled + b".")
    archive("hostile-deep.pth", b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".")
    archive("hostile-itself.pth", b"\x80\x02]q\x00h\x00a.")
    archive("hostile-stack.pth", b"\x80\x02" + b"N2" * 1000 + b"\x94" * 1000)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    saved = tensors()
    torch.save(saved, FOLDER / "tensors.pth")
    values = {
        name: {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
               "values": tensor.detach().double().flatten().tolist()}
        for name, tensor in torch.load(FOLDER / "tensors.pth").items()
    }  # fmt: skip
    (FOLDER / "values.json").write_text(json.dumps(values, indent=1) + "\n")
    torch.save(checkpoint(), FOLDER / "checkpoint.pth")
    torch.save({"w": torch.ones(2)}, FOLDER / "protocol-4.pth", pickle_protocol=4)
    torch.save({"w": torch.ones(2)}, FOLDER / "before-1.6.pth", _use_new_zipfile_serialization=False)
    with tempfile.TemporaryDirectory() as folder:
        store = torch.distributed.FileStore(os.path.join(folder, "store"), 1)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        save_sharded()
        recsys()
        torch.distributed.destroy_process_group()
    sequential()
    check_written()
    calls = {"system": (os.system, "true"), "eval": (eval, "1"), "getattr": (getattr, "", "upper")}
    for name, (function, *arguments) in calls.items():
        torch.save({"w": torch.ones(2), "x": Calls(function, *arguments)}, FOLDER / f"hostile-{name}.pth")
    bombs()


if __name__ == "__main__":
    main()
