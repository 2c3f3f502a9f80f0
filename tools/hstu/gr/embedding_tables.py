"""The tables of a model, with the parameter names of recsys-examples.

Static tables are one flat parameter, named after all of them; dynamic ones have a parameter each,
which a checkpoint has as raw files of keys and values instead.
"""

import torch
from torch import nn

INITIAL_DEVIATION = 0.02
DYNAMIC = "_embedding_collection._model_parallel_embedding_collection"


class StaticTables(nn.Module):
    def __init__(self, tables, dim):
        super().__init__()
        self.dim = dim
        self.starts, start = {}, 0
        for table in tables:
            self.starts[table.feature] = (start, start + table.rows)
            start += table.rows
        self.parameter_name = "/".join(table.name for table in tables) + "_weights"
        numbers = torch.empty(start * dim).normal_(0, INITIAL_DEVIATION)
        self.embeddings = nn.Module()
        self.embeddings.register_parameter(self.parameter_name, nn.Parameter(numbers))

    def forward(self, feature, rows):
        first, last = self.starts[feature]
        numbers = getattr(self.embeddings, self.parameter_name).view(-1, self.dim)
        zeros = numbers.new_zeros(1, self.dim)
        return nn.functional.embedding(rows, torch.cat([numbers[first:last], zeros]))


class DynamicTables(nn.Module):
    """Row 0 of each is zeros for ever; a step changes those rows alone that its batch has."""

    def __init__(self, tables, vocabularies, dim):
        super().__init__()
        self.tables = {table.feature: table.name for table in tables}
        self.embeddings = nn.ModuleDict()
        for table in tables:
            count = vocabularies[table.feature].count
            rows = nn.Embedding(count, dim, padding_idx=0, sparse=True)
            with torch.no_grad():
                rows.weight[1:].normal_(0, INITIAL_DEVIATION)
            self.embeddings[table.name] = rows

    def forward(self, feature, rows):
        return self.embeddings[self.tables[feature]](rows)

    def weight(self, feature):
        return self.embeddings[self.tables[feature]].weight


class EmbeddingTables(nn.Module):
    def __init__(self, features, vocabularies, dim):
        super().__init__()
        self._data_parallel_embedding_collection = StaticTables(features.static, dim)
        self._model_parallel_embedding_collection = DynamicTables(
            features.dynamic, vocabularies, dim
        )

    def forward(self, feature, rows):
        """f32 `[..., dim]` of rows `[...]`"""
        if feature in self.dynamic.tables:
            return self.dynamic(feature, rows)
        return self._data_parallel_embedding_collection(feature, rows)

    @property
    def dynamic(self):
        return self._model_parallel_embedding_collection
