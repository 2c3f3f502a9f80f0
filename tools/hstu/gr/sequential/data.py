"""Users' items in the order of time, split by leaving one out.

Of each user the last item is the test, the one before it the validation; what is before trains.
Users of fewer than three items only train.
"""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gr.argument_error import ArgumentError
from gr.features import DATASETS

# Text files of "user item" lines, as BERT4Rec and SASRec published them.
TEXTS = {"amazon-beauty": "beauty.txt", "amazon-video-games": "Video.txt"}
HELD_OUT = 2


@dataclass
class Histories:
    items: list[np.ndarray]  # of each user, oldest first; from 1 on
    times: list[np.ndarray] | None  # seconds

    @property
    def most_item(self):
        return max(int(items.max()) for items in self.items)

    def counts(self):
        """How often each id is there, from 0 on."""
        return np.bincount(np.concatenate(self.items), minlength=self.most_item + 1)

    def held_out_users(self):
        return [i for i, items in enumerate(self.items) if len(items) > HELD_OUT]


def read_histories(dataset):
    """`dataset`: DatasetArgs"""
    name = dataset.dataset_name
    if name in TEXTS:
        given = Path(dataset.dataset_path or "tmp_data")
        return read_text(given if given.is_file() else given / TEXTS[name])
    if name in DATASETS:
        return read_processed(DATASETS[name].path(dataset.dataset_path), DATASETS[name])
    names = ", ".join([*TEXTS, *DATASETS])
    raise ArgumentError(f"DatasetArgs.dataset_name: {name!r} is not one of {names}")


def read_text(path):
    pairs = np.loadtxt(path, np.int64, ndmin=2)
    if pairs.shape[1] != 2 or pairs[:, 1].min() < 1:
        raise ArgumentError(f"{path}: lines must be a user and an item from 1 on")
    order = np.argsort(pairs[:, 0], kind="stable")
    users, items = pairs[order].T
    return Histories(np.split(items, np.flatnonzero(np.diff(users)) + 1), None)


def read_processed(path, features):
    csv.field_size_limit(2**31 - 1)
    with open(path, newline="", encoding="utf-8") as file:
        rows = [(row[features.item], row[features.time]) for row in csv.DictReader(file)]
    items = [np.array(json.loads(text), np.int64) for text, _ in rows]
    times = [np.array(json.loads(text), np.int64) for _, text in rows]
    if min(int(it.min()) for it in items) < 1:
        raise ArgumentError(f"{path}: item ids must be from 1 on: 0 is padding")
    return Histories(items, times)


def windows(histories, most_items):
    """What trains, as runs of at most `most_items` and the item that follows each; newest last."""
    parts = []
    for user, items in enumerate(histories.items):
        end = len(items) - HELD_OUT if len(items) > HELD_OUT else len(items)
        while end > 1:
            start = max(0, end - most_items - 1)
            parts.append((user, start, end))
            end = start + 1
    return parts


def padded(arrays, width):
    out = np.zeros((len(arrays), width), np.int64)
    for row, array in zip(out, arrays):
        row[: len(array)] = array
    return out


def before_held_out(arrays, held_out, most_items):
    """Of each user what is before the last `held_out` items, at most `most_items` of it."""
    return [array[: len(array) - held_out][-most_items:] for array in arrays]


def last_items(arrays, held_out, most_items):
    """Those, padded, and how many each user has."""
    kept = before_held_out(arrays, held_out, most_items)
    return padded(kept, most_items), np.array([len(array) for array in kept])


def last_times(arrays, held_out, most_items):
    """The same, padded with the last: a row looks at the time behind it, and the last at its own,
    whoever else is in its batch."""
    kept = before_held_out(arrays, held_out, most_items)
    repeated = [np.append(array, np.repeat(array[-1], most_items - len(array))) for array in kept]
    return padded(repeated, most_items)
