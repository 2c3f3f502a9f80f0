"""Layers, encoder and parameter names of generative-recommenders' sequential HSTU."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from gr.hstu_block import l2_normed

EPS = 1e-6
TIME_BUCKETS = 128
BUCKET_BASE = 0.301


@dataclass(frozen=True)
class SequentialSizes:
    items: int  # ids are 1 to `items`; 0 is padding
    most_items: int  # of a history
    dim: int
    layers: int
    heads: int
    head_dim: int
    dropout: float
    has_times: bool
    concat_ua: bool = False

    @property
    def positions(self):
        """Of a history and the item that is asked for; sums over keys are divided by it."""
        return self.most_items + 1


class RelativeBias(nn.Module):
    """Added to scores: a weight by distance, and one by the time until the row's next item."""

    def __init__(self, positions, has_times):
        super().__init__()
        self.positions = positions
        self._pos_w = nn.Parameter(torch.empty(2 * positions - 1).normal_(0, 0.02))
        times = torch.empty(TIME_BUCKETS + 1).normal_(0, 0.02) if has_times else None
        self._ts_w = nn.Parameter(
            torch.zeros(TIME_BUCKETS + 1) if times is None else times, requires_grad=has_times
        )

    def forward(self, length, buckets):
        """f32 `[1 or seqs, length, length]`; buckets i64 `[seqs, length, length]` or none"""
        position = torch.arange(length, device=self._pos_w.device)
        distance = position[None, :] - position[:, None] + self.positions - 1
        bias = self._pos_w[distance][None]
        return bias if buckets is None else bias + self._ts_w[buckets]


def time_buckets(times):
    """i64 `[seqs, rows, keys]`: the log of the time from a key to the item behind the row.

    times i64 `[seqs, rows]`
    """
    next_times = torch.cat([times[:, 1:], times[:, -1:]], 1)
    seconds = (next_times[:, :, None] - times[:, None, :]).abs().clamp(min=1).float()
    return (seconds.log() / BUCKET_BASE).long().clamp(0, TIME_BUCKETS)


class SequentialLayer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        width = sizes.heads * sizes.head_dim
        self._uvqk = nn.Parameter(torch.empty(sizes.dim, 4 * width).normal_(0, 0.02))
        self._rel_attn_bias = RelativeBias(sizes.positions, sizes.has_times)
        self._o = nn.Linear(3 * width if sizes.concat_ua else width, sizes.dim)
        nn.init.xavier_uniform_(self._o.weight)

    def forward(self, tokens, mask, buckets):
        """tokens f32 `[seqs, rows, dim]`, mask bool `[seqs, rows, keys]`"""
        sizes = self.sizes
        normed = functional.layer_norm(tokens, tokens.shape[-1:], eps=EPS)
        gate, *rest = functional.silu(normed @ self._uvqk).chunk(4, dim=-1)
        value, query, key = (
            part.unflatten(-1, (sizes.heads, sizes.head_dim)).transpose(1, 2) for part in rest
        )
        bias = self._rel_attn_bias(tokens.shape[1], buckets)[:, None]
        weights = functional.silu(query @ key.mT + bias) / sizes.positions
        attended = weights.masked_fill(~mask[:, None], 0.0).to(value.dtype) @ value
        attended = attended.transpose(1, 2).flatten(2)
        attended = functional.layer_norm(attended, attended.shape[-1:], eps=EPS)
        gated = gate * attended
        if sizes.concat_ua:
            gated = torch.cat([gate, attended, gated], -1)
        return self._o(functional.dropout(gated, sizes.dropout, self.training)) + tokens


class ItemEmbedding(nn.Module):
    def __init__(self, items, dim):
        super().__init__()
        self._item_emb = nn.Embedding(items + 1, dim, padding_idx=0)
        nn.init.trunc_normal_(self._item_emb.weight, std=0.02)
        with torch.no_grad():
            self._item_emb.weight[0] = 0


class Positions(nn.Module):
    def __init__(self, positions, dim):
        super().__init__()
        self._pos_emb = nn.Embedding(positions, dim)
        nn.init.trunc_normal_(self._pos_emb.weight, std=math.sqrt(1 / dim))


class Layers(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self._attention_layers = nn.ModuleList(SequentialLayer(sizes) for _ in range(sizes.layers))


class SequentialModel(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self._embedding_module = ItemEmbedding(sizes.items, sizes.dim)
        self._input_features_preproc = Positions(sizes.positions, sizes.dim)
        self._hstu = Layers(sizes)

    def item_rows(self, ids):
        return self._embedding_module._item_emb(ids)

    def forward(self, ids, times=None):
        """f32 `[seqs, rows, dim]` of length 1; ids i64 `[seqs, rows]`, oldest first, 0 behind"""
        sizes, length = self.sizes, ids.shape[1]
        position = torch.arange(length, device=ids.device)
        tokens = self.item_rows(ids) * math.sqrt(sizes.dim)
        tokens = tokens + self._input_features_preproc._pos_emb(position)
        tokens = functional.dropout(tokens, sizes.dropout, self.training)
        present = (ids != 0)[:, :, None]
        tokens = tokens * present
        mask = (position[:, None] >= position[None, :])[None] & present.mT
        buckets = time_buckets(times) if sizes.has_times else None
        for layer in self._hstu._attention_layers:
            tokens = layer(tokens, mask, buckets) * present
        return l2_normed(tokens.float(), EPS)
