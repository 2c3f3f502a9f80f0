"""Ranks of held-out items: among sampled ones, and among all that the user has not had."""

from dataclasses import dataclass

import numpy as np
import torch

from gr.hstu_block import l2_normed
from gr.metrics import retrieval_metric
from gr.sequential.data import last_items, last_times
from gr.sequential.model import EPS
from gr.sequential.negatives import evaluation_negatives

HELD_OUT_OF = {"validation": 2, "test": 1}


@dataclass
class HeldOut:
    """Users, what they had before, the item that came then, and items that they never had."""

    ids: torch.Tensor  # i64 [users, most items]
    times: torch.Tensor | None
    lengths: torch.Tensor  # i64 [users]
    targets: torch.Tensor  # i64 [users]
    negatives: torch.Tensor  # i64 [users, negatives]


def held_out(histories, split, most_items, args, seed, device):
    """`args`: SequentialArgs"""
    random = np.random.default_rng([seed, HELD_OUT_OF[split]])
    users = histories.held_out_users()
    count = HELD_OUT_OF[split]
    items = [histories.items[user] for user in users]
    ids, lengths = last_items(items, count, most_items)
    times = None
    if histories.times is not None:
        times = last_times([histories.times[user] for user in users], count, most_items)
    negatives = evaluation_negatives(
        histories, users, args.eval_negatives, args.eval_sampling, random
    )
    targets = np.array([array[-count] for array in items])
    arrays = (ids, times, lengths, targets, negatives)
    return HeldOut(*(None if it is None else torch.from_numpy(it).to(device) for it in arrays))


@torch.no_grad()
def held_out_ranks(model, data, batch_size, max_iters, among_all):
    """Ranks among the samples and, if asked for, among all; of equals the others come first."""
    was_training = model.training
    model.eval()
    every_item = torch.arange(model.sizes.items + 1, device=data.ids.device)
    table = l2_normed(model.item_rows(every_item), EPS)
    ranks, full_ranks = [], []
    for start in list(range(0, len(data.ids), batch_size))[:max_iters]:
        part = slice(start, start + batch_size)
        longest = int(data.lengths[part].max())
        ids = data.ids[part, :longest]
        encoded = model(ids, None if data.times is None else data.times[part, :longest])
        users = torch.arange(len(ids), device=ids.device)
        query = encoded[users, data.lengths[part] - 1]
        targets = data.targets[part]
        own = (query * table[targets]).sum(-1, keepdim=True)
        others = (query[:, None] * table[data.negatives[part]]).sum(-1)
        ranks.append(1 + (others >= own).sum(1))
        if among_all:
            scores = query @ table.T
            scores[:, 0] = -2
            scores.scatter_(1, ids, -2.0)
            scores.scatter_(1, targets[:, None], -2.0)
            full_ranks.append(1 + (scores >= own).sum(1))
    model.train(was_training)
    return joined(ranks), joined(full_ranks)


def joined(parts):
    return torch.cat(parts).cpu().numpy() if parts else None


def metrics_of(ranks, full_ranks, names):
    metrics = {name: retrieval_metric(name, ranks) for name in names}
    if full_ranks is not None:
        metrics |= {f"all.{name}": retrieval_metric(name, full_ranks) for name in names}
    return metrics
