"""Measures of ranking and retrieval."""

import numpy as np


def auc(scores, labels):
    """The exact area under the ROC curve; equal scores count half. NaN if all labels are equal."""
    labels = np.asarray(labels, bool)
    positives = int(labels.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts, dtype=np.float64)
    rank = (last - (counts - 1) / 2)[place]
    return float((rank[labels].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def class_auc(probabilities, labels):
    """The mean AUC of each class that there is against the others."""
    kinds = [kind for kind in range(probabilities.shape[1]) if (labels == kind).any()]
    return float(np.mean([auc(probabilities[:, kind], labels == kind) for kind in kinds]))


def retrieval_metric(name, ranks):
    """`HR@10`, `NDCG@10` or `MRR` of ranks from 1 on."""
    kind, _, count = name.upper().partition("@")
    ranks = np.asarray(ranks, np.float64)
    if kind == "MRR":
        return float((1 / ranks).mean())
    inside = ranks <= int(count)
    if kind == "HR":
        return float(inside.mean())
    assert kind == "NDCG", f"no measure {name!r}"
    return float(np.where(inside, 1 / np.log2(ranks + 1), 0).mean())
