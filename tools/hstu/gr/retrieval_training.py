"""Trains the model of recsys-examples that retrieves, and measures it on users it has not seen."""

from itertools import islice

import numpy as np
import torch

from gr import arg_checks, checkpoint
from gr.args import AugmentationArgs, DatasetArgs, NetworkArgs, OptimizerArgs, RetrievalArgs, given
from gr.batches import Batches
from gr.gin_text import recsys_text
from gr.metrics import retrieval_metric
from gr.optimizers import Optimizers
from gr.retrieval_model import RetrievalModel
from gr.run import known_features
from gr.sequences import read_sequences, split_users
from gr.training_loop import Trainee, pick_device, train
from gr.vocabulary import make_vocabularies, note_ids_without_rows


def evaluate_retrieval(model, batches, max_iters, device, names):
    """Of every item of a user but the first: its rank among all items of the training users."""
    model.eval()
    users, ranks = 0, []
    with torch.no_grad():
        for batch in islice(batches.in_order(), max_iters):
            ranks.append(model.ranks(batch.to(device)).cpu().numpy())
            users += batch.seqs
    model.train()
    ranks = np.concatenate(ranks)
    return users, {name: retrieval_metric(name, ranks) for name in names}


def train_retrieval(trainer, random, say):
    """`trainer`: TrainerArgs"""
    dataset, network, retrieval = given(DatasetArgs), given(NetworkArgs), given(RetrievalArgs)
    optimizer = given(OptimizerArgs)
    arg_checks.check_network(network)
    arg_checks.check_retrieval(retrieval, network, dataset)
    features = known_features(dataset.dataset_name)
    path = features.path(dataset.dataset_path)
    sequences = read_sequences(path, features, dataset.max_history_seqlen, more_than=0)
    splits = split_users(sequences)
    say(f"[data] {path}: {len(splits[0])} users train, {len(splits[1])} evaluate")

    known_keys = checkpoint.read_keys(trainer.ckpt_load_dir, features)
    vocabularies = make_vocabularies(features, splits[0], known_keys)
    note_ids_without_rows(vocabularies, sequences, features, say)
    sizes = (trainer.train_batch_size, trainer.eval_batch_size)
    train_batches, eval_batches = (
        Batches(split, features, vocabularies, 0, size) for split, size in zip(splits, sizes)
    )
    device = pick_device()
    model = RetrievalModel(features, vocabularies, network, dataset, retrieval).to(device)
    optimizers = Optimizers(model, optimizer)
    if trainer.ckpt_load_dir:
        checkpoint.load(trainer.ckpt_load_dir, model, optimizers, vocabularies)
    gin_text = recsys_text(features, dataset, network, retrieval, trainer, optimizer)
    trainee = Trainee(
        model=model,
        optimizers=optimizers,
        batches=train_batches.endless(dataset.shuffle, random, given(AugmentationArgs)),
        evaluate=lambda: evaluate_retrieval(
            model, eval_batches, trainer.max_eval_iters, device, retrieval.eval_metrics
        ),
        save=lambda folder, done: checkpoint.save(
            folder, model, optimizers, vocabularies, gin_text, done
        ),
        iterations=trainer.max_train_iters or len(train_batches),
    )
    train(trainee, trainer, device, say)
