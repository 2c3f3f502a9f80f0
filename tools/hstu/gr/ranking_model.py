"""The model that ranks: logits of each candidate after its user's history."""

import torch
from torch import nn
from torch.nn import functional

from gr.embedding_tables import EmbeddingTables
from gr.hstu_block import HstuBlock
from gr.mlp import Mlp

SCALING_STEP = 32  # to a multiple of which recsys-examples rounds the longest sequence


def row_width(network):
    """Of the tables: the model's, or what goes through an mlp first."""
    return network.item_embedding_dim if network.item_embedding_dim > 0 else network.hidden_size


def divisor_of(network, features, dataset_args):
    """Of sums over keys. With `scaling_seqlen` -1 it is the longest sequence that there can be."""
    if network.scaling_seqlen != -1:
        return network.scaling_seqlen
    history = len(features.context) + 2 * dataset_args.max_history_seqlen
    longest = history + dataset_args.max_num_candidates
    return -(-longest // SCALING_STEP) * SCALING_STEP


class RankingModel(nn.Module):
    def __init__(self, features, vocabularies, network, dataset_args, ranking):
        super().__init__()
        self.features, self.num_tasks = features, ranking.num_tasks
        divisor = divisor_of(network, features, dataset_args)
        width = row_width(network)
        self._embedding_collection = EmbeddingTables(features, vocabularies, width)
        self._hstu_block = HstuBlock(network, divisor)
        self._mlp = Mlp(
            network.hidden_size,
            ranking.prediction_head_arch,
            ranking.prediction_head_act_type,
            ranking.prediction_head_bias,
        )

    def forward(self, batch):
        """f32 `[all candidates, outputs]`"""
        rows = self._embedding_collection
        context = [rows(name, batch.context[:, i]) for i, name in enumerate(self.features.context)]
        items = rows(self.features.item, batch.items)
        empty = items.new_zeros(batch.seqs, 0, items.shape[-1])
        encoded = self._hstu_block(
            torch.stack(context, 1) if context else empty,
            items,
            rows(self.features.action, batch.actions),
            batch.lengths,
            batch.candidates,
        )
        return self._mlp(encoded.candidates()).float()

    def loss(self, batch):
        return ranking_loss(self(batch), batch.labels, self.num_tasks)


def ranking_loss(logits, labels, num_tasks):
    """Task k is bit k of the label; one task of several outputs is a class by its number."""
    if num_tasks == 1 and logits.shape[1] > 1:
        return functional.cross_entropy(logits, labels)
    return functional.binary_cross_entropy_with_logits(logits, task_labels(labels, num_tasks))


def task_labels(labels, num_tasks):
    """f32 `[labels, tasks]`"""
    bits = torch.arange(num_tasks, device=labels.device)
    return ((labels[:, None] >> bits) & 1).float()
