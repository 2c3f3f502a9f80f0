#!/usr/bin/env python3
"""Train a model that ranks, as recsys-examples' program of this name does.

    torchrun --nproc_per_node 1 --master_addr localhost --master_port 6000 \\
      ./training/pretrain_gr_ranking.py --gin-config-file FILE
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gr import arg_checks, checkpoint
from gr.args import AugmentationArgs, DatasetArgs, NetworkArgs, OptimizerArgs, RankingArgs, given
from gr.batches import Batches
from gr.gin_text import recsys_text
from gr.optimizers import Optimizers
from gr.ranking_evaluation import evaluate_ranking, popularity_baseline
from gr.ranking_model import RankingModel
from gr.run import known_features, run
from gr.sequences import read_sequences, split_users
from gr.training_loop import Trainee, pick_device, print_evaluation, train
from gr.vocabulary import make_vocabularies, note_ids_without_rows

BASELINE = "also measure candidates scored by the mean label of their item among training users"


def task(command, trainer, random, say):
    dataset, network = given(DatasetArgs), given(NetworkArgs)
    ranking, optimizer = given(RankingArgs), given(OptimizerArgs)
    arg_checks.check_network(network)
    arg_checks.check_ranking(ranking, dataset)
    features = known_features(dataset.dataset_name)
    most_items = dataset.max_history_seqlen + dataset.max_num_candidates
    path = features.path(dataset.dataset_path)
    sequences = read_sequences(path, features, most_items, dataset.max_num_candidates)
    splits = split_users(sequences)
    say(f"[data] {path}: {len(splits[0])} users train, {len(splits[1])} evaluate")

    known_keys = checkpoint.read_keys(trainer.ckpt_load_dir, features)
    vocabularies = make_vocabularies(features, splits[0], known_keys)
    note_ids_without_rows(vocabularies, sequences, features, say)
    sizes = (trainer.train_batch_size, trainer.eval_batch_size)
    train_batches, eval_batches = (
        Batches(split, features, vocabularies, dataset.max_num_candidates, size)
        for split, size in zip(splits, sizes)
    )
    device = pick_device()
    model = RankingModel(features, vocabularies, network, dataset, ranking).to(device)
    optimizers = Optimizers(model, optimizer)
    if trainer.ckpt_load_dir:
        checkpoint.load(trainer.ckpt_load_dir, model, optimizers, vocabularies)
    if not network.disable_contextual_mask and features.context:
        say("[note] the context sees the history in training alone: the server cannot cache such "
            "rows, and evaluation is as it serves. NetworkArgs.disable_contextual_mask = True "
            "trains what is served")
    if command.baseline:
        outputs = ranking.prediction_head_arch[-1]
        print_evaluation(*popularity_baseline(
            train_batches, eval_batches, trainer.max_eval_iters, outputs, ranking.num_tasks
        ), say, "baseline")
    gin_text = recsys_text(features, dataset, network, ranking, trainer, optimizer)
    trainee = Trainee(
        model=model,
        optimizers=optimizers,
        batches=train_batches.endless(dataset.shuffle, random, given(AugmentationArgs)),
        evaluate=lambda: evaluate_ranking(model, eval_batches, trainer.max_eval_iters, device),
        save=lambda folder, done: checkpoint.save(
            folder, model, optimizers, vocabularies, gin_text, done
        ),
        iterations=trainer.max_train_iters or len(train_batches),
    )
    train(trainee, trainer, device, say)


if __name__ == "__main__":
    run(__doc__.splitlines()[0], task, [("--baseline", BASELINE)])
