"""Windows of histories in batches of similar length, from arrays that lie on the device."""

from dataclasses import dataclass

import numpy as np
import torch

from gr.sequential.data import padded, windows

POOL_BATCHES = 32


@dataclass
class Window:
    """Items of users and, one place further, those that follow them; padded at the end."""

    ids: torch.Tensor  # i64 [seqs, rows]
    targets: torch.Tensor  # i64 [seqs, rows]
    times: torch.Tensor | None  # i64 [seqs, rows]
    lengths: torch.Tensor  # i64 [seqs]

    def to(self, _device):
        """They are there."""
        return self


class Windows:
    def __init__(self, histories, most_items, batch_size, device):
        parts = windows(histories, most_items)

        def cut(arrays):
            kept = [arrays[user][start:end] for user, start, end in parts]
            return torch.from_numpy(padded(kept, most_items + 1)).to(device)

        self.lengths = np.array([end - start - 1 for _, start, end in parts])
        self.items = cut(histories.items)
        self.times = None if histories.times is None else cut(histories.times)
        self.batch_size, self.device = batch_size, device
        self.most_item = histories.most_item

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)

    def counts(self):
        """How often each id is there to train, from 0 on."""
        return np.bincount(self.items.flatten().cpu().numpy(), minlength=self.most_item + 1)

    def endless(self, random):
        pool = POOL_BATCHES * self.batch_size
        while True:
            order = random.permutation(len(self.lengths))
            for start in range(0, len(order), pool):
                mixed = order[start : start + pool]
                mixed = mixed[np.argsort(self.lengths[mixed], kind="stable")]
                for first in random.permutation(np.arange(0, len(mixed), self.batch_size)):
                    yield self.batch(mixed[first : first + self.batch_size])

    def batch(self, chosen):
        rows = int(self.lengths[chosen].max())
        places = torch.from_numpy(chosen).to(self.device)
        items = self.items[places]
        targets = items[:, 1 : rows + 1]
        # The last item of a window is nobody's row: it is what the one before it predicts.
        ids = torch.where(targets != 0, items[:, :rows], 0)
        times = None if self.times is None else self.times[places][:, :rows]
        lengths = torch.from_numpy(self.lengths[chosen]).to(self.device)
        return Window(ids, targets, times, lengths)
