"""Model repositories of golden click-through models, and versions of them that answer otherwise."""

import json
import shutil
import struct
from pathlib import Path

import numpy as np

MODELS = ["dcn", "dcnv2", "deepfm", "dlrm", "wdl"]
DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "U32": np.uint32}


def read_safetensors(path):
    data = Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, end = (start + at for at in about["data_offsets"])
            array = np.frombuffer(data[first:end], DTYPES[about["dtype"]])
            tensors[name] = array.reshape(about["shape"])
    return tensors


def write_safetensors(path, tensors):
    head, parts, at = {}, [], 0
    for name, array in tensors.items():
        part = np.ascontiguousarray(array, np.float32).tobytes()
        head[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [at, at + len(part)],
        }
        parts.append(part)
        at += len(part)
    head = json.dumps(head).encode()
    Path(path).write_bytes(struct.pack("<Q", len(head)) + head + b"".join(parts))


class Case:
    """A golden request and its answer."""

    def __init__(self, path):
        tensors = read_safetensors(path)
        self.dense = tensors["DES"]
        self.keys = tensors["CATCOLUMN"]
        self.offsets = tensors["ROWINDEX"]
        self.want = tensors["OUTPUT0"]

    def inputs(self, client, **how):
        """How a client sends it."""
        keys = "UINT32" if self.keys.dtype == np.uint32 else "INT64"
        inputs = []
        for name, kind, numbers in [
            ("DES", "FP32", self.dense),
            ("CATCOLUMN", keys, self.keys),
            ("ROWINDEX", "INT32", self.offsets),
        ]:
            # As users of Triton have it: one row.
            row = numbers.reshape(1, -1)
            tensor = client.InferInput(name, list(row.shape), kind)
            tensor.set_data_from_numpy(row, **how)
            inputs.append(tensor)
        return inputs


class GoldenModel:
    """A golden model in a repository of one's own."""

    def __init__(self, golden, repository, name, copied_as=None):
        self.golden = Path(golden) / name
        self.name = copied_as or name
        self.folder = Path(repository) / self.name
        self.folder.mkdir(parents=True)
        shutil.copytree(self.golden / "1", self.folder / "1")
        config = (self.golden / "config.pbtxt").read_text()
        self.write_config(config.replace(f'name: "{name}"', f'name: "{self.name}"'))

    def write_config(self, text):
        (self.folder / "config.pbtxt").write_text(text)

    @property
    def config(self):
        return (self.folder / "config.pbtxt").read_text()

    def cases(self):
        return [Case(path) for path in sorted(self.golden.glob("case_*.safetensors"))]

    def add_version(self, version, rows=1.0, bias=0.0):
        """Another version: rows of its tables by a factor, the last bias by a number."""
        folder = self.folder / str(version)
        shutil.copytree(self.folder / "1", folder)
        for table in folder.glob("*_sparse_*.model"):
            numbers = np.fromfile(table / "emb_vector", np.float32)
            (numbers * np.float32(rows)).astype(np.float32).tofile(table / "emb_vector")
        (dense,) = folder.glob("*_dense_*.model")
        numbers = np.fromfile(dense, np.float32)
        numbers[-1] += bias
        numbers.tofile(dense)
        return folder

    def ps_entry(self):
        """Its entry of ps.json, with paths of this repository."""
        (entry,) = json.loads((self.golden / "ps.json").read_text())["models"]
        entry["model"] = self.name
        for name in ("sparse_files", "dense_file", "network_file"):
            paths = entry[name]
            is_list = isinstance(paths, list)
            full = [str(self.folder / path) for path in (paths if is_list else [paths])]
            entry[name] = full if is_list else full[0]
        return entry
