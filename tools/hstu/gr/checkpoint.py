"""Checkpoints as recsys-examples writes and reads them.

    config.gin                      what model it is; the original's checkpoints have none
    torch_module/model.0.pth        dense parameters and their optimizer
    dynamicemb_module/model._embedding_collection._model_parallel_embedding_collection/
        TABLE_emb_keys.rank_0.world_size_1        i64 [rows]
        TABLE_emb_values.rank_0.world_size_1      f32 [rows, dim]
        TABLE_emb_scores.rank_0.world_size_1      i64 [rows]
        TABLE_emb_opt_values.rank_0.world_size_1  f32 [rows, states]
        TABLE_opt_args.json

A folder is written under another name first, so that what bears its name is whole.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import torch

from gr.argument_error import ArgumentError
from gr.embedding_tables import DYNAMIC
from gr.gin_text import FILE as GIN_FILE

DENSE_FILE = "torch_module/model.0.pth"
DYNAMIC_FOLDER = f"dynamicemb_module/model.{DYNAMIC}"
SUFFIX = "rank_0.world_size_1"


def dense_state(model):
    return {k: v.cpu() for k, v in model.state_dict().items() if not k.startswith(DYNAMIC)}


def table_file(folder, table, part):
    return folder / f"{table}_emb_{part}.{SUFFIX}"


def write_replacing(folder, write):
    """Calls `write` with an empty folder, which then takes the place of what is there."""
    folder = Path(folder)
    fresh = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    write(fresh)
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def save(folder, model, optimizers, vocabularies, gin_text, iteration):
    def write(fresh):
        (fresh / GIN_FILE).write_text(gin_text)
        (fresh / DENSE_FILE).parent.mkdir()
        state = {
            "model_state_dict": dense_state(model),
            "optimizer_state_dict": optimizers.of_dense.state_dict(),
        }
        torch.save(state, fresh / DENSE_FILE)
        tables = fresh / DYNAMIC_FOLDER
        tables.mkdir(parents=True)
        dynamic = model._embedding_collection.dynamic
        for feature, name in dynamic.tables.items():
            save_table(tables, name, vocabularies[feature].keys, dynamic, optimizers, iteration)

    write_replacing(folder, write)


def save_table(folder, name, keys, dynamic, optimizers, iteration):
    rows = dynamic.embeddings[name].weight.detach().float().cpu()[1:]
    keys.astype("<i8").tofile(table_file(folder, name, "keys"))
    rows.numpy().astype("<f4").tofile(table_file(folder, name, "values"))
    np.full(len(keys), iteration, "<i8").tofile(table_file(folder, name, "scores"))
    states = optimizers.row_states(name)[1:].numpy().astype("<f4")
    states.tofile(table_file(folder, name, "opt_values"))
    args = optimizers.args
    facts = {
        "opt_type": optimizers.kind,
        "lr": args.learning_rate,
        "iters": optimizers.sparse_step(),
        "beta1": args.adam_beta1,
        "beta2": args.adam_beta2,
        "eps": args.adam_eps,
        "weight_decay": 0.0,
    }
    (folder / f"{name}_opt_args.json").write_text(json.dumps(facts, indent=4))


def read_keys(folder, features):
    """The ids of each dynamic table of a checkpoint."""
    if not folder:
        return {}
    if not (Path(folder) / DENSE_FILE).is_file():
        raise ArgumentError(f"TrainerArgs.ckpt_load_dir: {folder} has no {DENSE_FILE}")
    tables = Path(folder) / DYNAMIC_FOLDER
    names = [table.name for table in features.dynamic]
    return {name: np.fromfile(table_file(tables, name, "keys"), "<i8") for name in names}


def load(folder, model, optimizers, vocabularies):
    """Goes on from a checkpoint of a model of the same sizes."""
    state = torch.load(Path(folder) / DENSE_FILE, map_location="cpu", weights_only=True)
    found = model.load_state_dict(state["model_state_dict"], strict=False)
    missing = [key for key in found.missing_keys if not key.startswith(DYNAMIC)]
    if missing or found.unexpected_keys:
        keys = missing or found.unexpected_keys
        raise ArgumentError(f"{folder} is of another model: {keys[0]} differs")
    if state.get("optimizer_state_dict"):
        optimizers.of_dense.load_state_dict(state["optimizer_state_dict"])
    tables = Path(folder) / DYNAMIC_FOLDER
    dynamic = model._embedding_collection.dynamic
    for feature, name in dynamic.tables.items():
        load_table(tables, name, vocabularies[feature], dynamic, optimizers)


def load_table(folder, name, vocabulary, dynamic, optimizers):
    weight = dynamic.embeddings[name].weight
    keys = np.fromfile(table_file(folder, name, "keys"), "<i8")
    values = np.fromfile(table_file(folder, name, "values"), "<f4")
    if values.size != keys.size * weight.shape[1]:
        widths = (values.size / max(keys.size, 1), weight.shape[1])
        raise ArgumentError("{} has rows of {:g} numbers; here they have {}".format(name, *widths))
    places = torch.from_numpy(vocabulary.rows(keys)).to(weight.device)
    rows = torch.from_numpy(values.reshape(len(keys), -1)).to(weight.device)
    with torch.no_grad():
        weight[places] = rows
    opt_file = table_file(folder, name, "opt_values")
    if not opt_file.is_file() or not len(keys):
        return
    found = torch.from_numpy(np.fromfile(opt_file, "<f4").reshape(len(keys), -1))
    states = torch.zeros(len(weight), found.shape[1])
    states[places.cpu()] = found
    facts = json.loads((folder / f"{name}_opt_args.json").read_text())
    optimizers.set_row_states(name, states, int(facts.get("iters", 0)))
