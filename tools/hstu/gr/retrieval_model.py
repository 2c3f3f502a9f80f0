"""The model of recsys-examples that retrieves: from each item of a history, the next one."""

import torch
from torch import nn

from gr.embedding_tables import EmbeddingTables
from gr.hstu_block import HstuBlock, l2_normed
from gr.ranking_model import divisor_of
from gr.sampled_softmax import different_items, sampled_softmax


class RetrievalModel(nn.Module):
    def __init__(self, features, vocabularies, network, dataset_args, retrieval):
        super().__init__()
        self.features, self.args = features, retrieval
        divisor = divisor_of(network, features, dataset_args)
        self._embedding_collection = EmbeddingTables(features, vocabularies, network.hidden_size)
        self._hstu_block = HstuBlock(network, divisor)

    def queries(self, batch):
        """What each item but the last predicts with, and the places of the items that follow."""
        rows = self._embedding_collection
        context = [rows(name, batch.context[:, i]) for i, name in enumerate(self.features.context)]
        items = rows(self.features.item, batch.items)
        empty = items.new_zeros(batch.seqs, 0, items.shape[-1])
        encoded = self._hstu_block(
            torch.stack(context, 1) if context else empty,
            items,
            rows(self.features.action, batch.actions),
            batch.lengths,
            torch.zeros_like(batch.lengths),
        )
        columns = torch.arange(batch.items.shape[1], device=items.device)
        has_next = columns < batch.lengths[:, None] - 1
        is_next = (columns > 0) & (columns < batch.lengths[:, None])
        return encoded.history_items()[has_next].float(), is_next

    def loss(self, batch):
        queries, is_next = self.queries(batch)
        targets = batch.items[is_next]
        negatives = different_items(targets, self.args.num_negatives)
        return sampled_softmax(
            queries, self.normed(targets), targets, self.normed(negatives), negatives,
            self.args.temperature,
        )

    def normed(self, rows):
        return l2_normed(self.item_rows(rows), self.args.l2_norm_eps)

    def item_rows(self, rows):
        return self._embedding_collection(self.features.item, rows)

    def ranks(self, batch):
        """Of each next item among all of the table, by products with rows as they are."""
        queries, is_next = self.queries(batch)
        targets = batch.items[is_next]
        table = self._embedding_collection.dynamic.weight(self.features.item)[1:]
        ranks = []
        for part, ids in zip(queries.split(512), targets.split(512)):
            scores = part @ table.T
            own = (part * self.item_rows(ids)).sum(-1, keepdim=True)
            ranks.append(1 + (scores > own + 1e-6).sum(1))
        ranks = torch.cat(ranks)
        # An item that was not there in training cannot be found.
        return torch.where(targets > 0, ranks, len(table) + 1)
