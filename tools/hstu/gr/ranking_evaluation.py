"""How well a model ranks the candidates of users that it was not trained on.

Computed as it is served, in float32 and without the contextual mask, over all samples at once.
"""

from itertools import islice

import numpy as np
import torch

from gr.metrics import auc, class_auc


def task_metrics(probabilities, labels, num_tasks):
    """AUC by task, of f32 `[samples, outputs]` and i64 `[samples]`"""
    if num_tasks == 1 and probabilities.shape[1] > 1:
        return {"task0.AUC": class_auc(probabilities, labels)}
    return {
        f"task{task}.AUC": auc(probabilities[:, task], (labels >> task) & 1)
        for task in range(num_tasks)
    }


def evaluate_ranking(model, batches, max_iters, device):
    """How many users there were, and the metrics."""
    model.eval()
    users, probabilities, labels = 0, [], []
    with torch.no_grad():
        for batch in islice(batches.in_order(), max_iters):
            logits = model(batch.to(device))
            classes = model.num_tasks == 1 and logits.shape[1] > 1
            scores = logits.softmax(-1) if classes else logits.sigmoid()
            probabilities.append(scores.cpu().numpy())
            labels.append(batch.labels.numpy())
            users += batch.seqs
    model.train()
    probabilities, labels = np.concatenate(probabilities), np.concatenate(labels)
    return users, task_metrics(probabilities, labels, model.num_tasks)


def popularity_baseline(train, evaluated, max_iters, outputs, num_tasks):
    """Candidates scored by how often training users gave their item the label, whoever asks."""
    items, actions = train.sequences.items, train.sequences.actions
    keys, place = np.unique(items, return_inverse=True)
    counts = np.bincount(place)
    classes = num_tasks == 1 and outputs > 1
    hits = [actions == i if classes else (actions >> i) & 1 for i in range(outputs)]
    means = [np.bincount(place, weights=hit) / counts for hit in hits]
    overall = [float(hit.mean()) for hit in hits]
    users, scores, labels = 0, [], []
    for batch in islice(evaluated.in_order(), max_iters):
        columns = np.arange(batch.item_ids.shape[1])
        ends = batch.lengths.numpy()[:, None]
        mask = (columns >= ends - batch.candidates.numpy()[:, None]) & (columns < ends)
        ids = batch.item_ids.numpy()[mask]
        found = np.searchsorted(keys, ids).clip(max=len(keys) - 1)
        known = keys[found] == ids
        means_of = [np.where(known, mean[found], rest) for mean, rest in zip(means, overall)]
        scores.append(np.stack(means_of, 1))
        labels.append(batch.labels.numpy())
        users += batch.seqs
    return users, task_metrics(np.concatenate(scores), np.concatenate(labels), num_tasks)
