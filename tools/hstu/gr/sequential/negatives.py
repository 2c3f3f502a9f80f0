"""Items that are drawn: shared ones to train against, and each user's to be ranked among."""

import numpy as np
import torch

from gr.argument_error import ArgumentError


class TrainingNegatives:
    """Drawn with replacement by popularity to a power: 0 is uniform over all items.

    With another power items that do not train are never drawn, so nothing is learned against them.
    """

    def __init__(self, counts, power, device):
        weights = counts.astype(np.float64) ** power
        weights[0] = 0
        shares = np.cumsum(weights) / weights.sum()
        self.shares = torch.from_numpy(shares).to(device)

    def draw(self, count):
        random = torch.rand(count, device=self.shares.device, dtype=self.shares.dtype)
        return torch.searchsorted(self.shares, random, right=True).clamp(1, len(self.shares) - 1)


def evaluation_negatives(histories, users, count, sampling, random):
    """i64 `[users, count]`: different items of each user that are none of its own."""
    counts = histories.counts()
    if sampling not in ("uniform", "popularity"):
        key = "SequentialArgs.eval_sampling"
        raise ArgumentError(f"{key}: {sampling!r} is not uniform or popularity")
    weights = counts.astype(np.float64) if sampling == "popularity" else (counts > 0) * 1.0
    shares = np.cumsum(weights) / weights.sum()
    most = int((counts > 0).sum()) - max(len(np.unique(histories.items[i])) for i in users)
    if most < count:
        raise ArgumentError(f"SequentialArgs.eval_negatives: {count} of {most} other items")
    out = np.zeros((len(users), count), np.int64)
    for row, user in zip(out, users):
        own, found = set(histories.items[user].tolist()), {}
        while len(found) < count:
            draws = np.searchsorted(shares, random.random(2 * count), side="right")
            found.update((item, None) for item in draws.tolist() if item not in own)
        row[:] = list(found)[:count]
    return out
