"""Trains the sequential model, and tests what was best at the validation."""

import copy
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from gr.arg_checks import check_network, check_retrieval_metrics
from gr.args import DatasetArgs, NetworkArgs, OptimizerArgs, RetrievalArgs, given
from gr.argument_error import ArgumentError
from gr.checkpoint import write_replacing
from gr.gin_text import FILE as GIN_FILE
from gr.gin_text import generative_text
from gr.hstu_block import l2_normed
from gr.sampled_softmax import sampled_softmax
from gr.sequential.batches import Windows
from gr.sequential.data import read_histories
from gr.sequential.evaluation import held_out, held_out_ranks, metrics_of
from gr.sequential.model import SequentialModel, SequentialSizes
from gr.sequential.negatives import TrainingNegatives
from gr.training_loop import Trainee, pick_device, print_evaluation, train

CHECKPOINT = "checkpoint.pt"
MOST_GRADIENT = 1.0


class NextItem(nn.Module):
    """The loss of a batch: each item's next one against drawn items, the same for all."""

    def __init__(self, model, negatives, retrieval):
        super().__init__()
        self.model, self.negatives, self.args = model, negatives, retrieval

    def loss(self, batch):
        encoded = self.model(batch.ids, batch.times)
        present = batch.targets != 0
        targets = batch.targets[present]
        negatives = self.negatives.draw(self.args.num_negatives)
        return sampled_softmax(
            encoded[present], self.normed(targets), targets, self.normed(negatives), negatives,
            self.args.temperature,
        )

    def normed(self, ids):
        return l2_normed(self.model.item_rows(ids), self.args.l2_norm_eps)


class DenseOptimizer:
    def __init__(self, model, args, weight_decay):
        if args.optimizer_str.lower() != "adam":
            raise ArgumentError("OptimizerArgs.optimizer_str: the sequential model takes adam")
        self.parameters = [it for it in model.parameters() if it.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=args.learning_rate, betas=(args.adam_beta1, args.adam_beta2),
            eps=args.adam_eps, weight_decay=weight_decay, fused=True,
        )

    def step(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, MOST_GRADIENT)
        self.optimizer.step()


@dataclass
class Best:
    value: float = -1.0
    state: dict = field(default_factory=dict)

    def look(self, value, model):
        if value > self.value:
            self.value, self.state = value, copy.deepcopy(model.state_dict())


def save(folder, model, optimizer, iteration):
    """As generative-recommenders keeps its models, with iterations for epochs."""
    state = {
        "epoch": iteration,
        "model_state_dict": {key: value.cpu() for key, value in model.state_dict().items()},
        "optimizer_state_dict": optimizer.optimizer.state_dict(),
    }

    def write(fresh):
        (fresh / GIN_FILE).write_text(generative_text(model.sizes))
        torch.save(state, fresh / CHECKPOINT)

    write_replacing(folder, write)


def load(folder, model, optimizer):
    path = Path(folder) / CHECKPOINT
    if not path.is_file():
        raise ArgumentError(f"TrainerArgs.ckpt_load_dir: {folder} has no {CHECKPOINT}")
    state = torch.load(path, map_location="cpu", weights_only=True)
    try:
        model.load_state_dict(state["model_state_dict"])
    except RuntimeError as error:
        raise ArgumentError(f"{path} is of another model: {error}") from error
    optimizer.optimizer.load_state_dict(state["optimizer_state_dict"])


def sizes_of(network, dataset, histories):
    return SequentialSizes(
        items=histories.most_item,
        most_items=dataset.max_history_seqlen,
        dim=network.hidden_size,
        layers=network.num_layers,
        heads=network.num_attention_heads,
        head_dim=network.kv_channels,
        dropout=network.hidden_dropout,
        has_times=histories.times is not None,
    )


def train_sequential(sequential, trainer, random, say):
    """`sequential`: SequentialArgs, `trainer`: TrainerArgs"""
    dataset, network = given(DatasetArgs), given(NetworkArgs)
    retrieval = given(RetrievalArgs)
    check_network(network, sequential=True)
    check_retrieval_metrics(retrieval)
    if retrieval.num_negatives < 1:
        raise ArgumentError("RetrievalArgs.num_negatives: SequentialArgs needs 1 or more")
    histories, device = read_histories(dataset), pick_device()
    say(f"[data] {len(histories.items)} users, {histories.most_item} items, on {device}")
    model = SequentialModel(sizes_of(network, dataset, histories)).to(device)
    optimizer = DenseOptimizer(model, given(OptimizerArgs), sequential.weight_decay)
    if trainer.ckpt_load_dir:
        load(trainer.ckpt_load_dir, model, optimizer)
    windows = Windows(histories, dataset.max_history_seqlen, trainer.train_batch_size, device)
    negatives = TrainingNegatives(windows.counts(), sequential.sampling_power, device)
    splits = {
        split: held_out(
            histories, split, dataset.max_history_seqlen, sequential, trainer.seed, device
        )
        for split in ("validation", "test")
    }
    best = Best()

    def measure(split, max_iters, among_all):
        ranks = held_out_ranks(
            model, splits[split], trainer.eval_batch_size, max_iters, among_all
        )
        return len(ranks[0]), metrics_of(*ranks, retrieval.eval_metrics)

    def validate():
        users, metrics = measure("validation", trainer.max_eval_iters, among_all=False)
        best.look(metrics[retrieval.eval_metrics[-1]], model)
        return users, metrics

    trainee = Trainee(
        model=NextItem(model, negatives, retrieval),
        optimizers=optimizer,
        batches=windows.endless(random),
        evaluate=validate,
        save=lambda folder, done: save(folder, model, optimizer, done),
        iterations=trainer.max_train_iters or len(windows),
    )
    train(trainee, trainer, device, say)
    if sequential.keep_best:
        model.load_state_dict(best.state)
    print_evaluation(*measure("test", None, among_all=True), say, "test")
    if sequential.keep_best and trainer.ckpt_save_interval > 0:
        folder = f"{trainer.ckpt_save_dir}/best"
        save(folder, model, optimizer, trainee.iterations)
        say(f"[checkpoint] {folder}")
