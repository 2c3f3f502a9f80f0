"""What both programs do before and around training."""

import argparse
import os
import sys
from functools import partial

import numpy as np
import torch

from gr import arg_checks
from gr.args import TensorModelParallelArgs, TrainerArgs, given, parse
from gr.argument_error import ArgumentError
from gr.features import DATASETS
from gr.host_memory import keep_freed_memory


def run(description, task, options=()):
    """Parses the command line and the gin file, and does the task; says plainly what is wrong."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--gin-config-file", required=True)
    parser.add_argument("--gin-bindings", nargs="*", action="extend", default=[], metavar="CLASS.KEY=VALUE",
                        help="values that come before those of the file")
    for flag, text in options:
        parser.add_argument(flag, action="store_true", help=text)
    command = parser.parse_args()
    say = partial(print, flush=True)
    keep_freed_memory()
    try:
        arg_checks.check_processes(int(os.environ.get("WORLD_SIZE", "1")))
        parse(command.gin_config_file, command.gin_bindings)
        trainer = given(TrainerArgs)
        arg_checks.check_trainer(trainer)
        arg_checks.check_tensor_parallel(given(TensorModelParallelArgs))
        arg_checks.note_ignored_keys(say)
        torch.manual_seed(trainer.seed)
        task(command, trainer, np.random.default_rng(trainer.seed), say)
    except (ArgumentError, FileNotFoundError) as error:
        sys.exit(f"error: {error}")


def known_features(dataset_name):
    if dataset_name not in DATASETS:
        names = ", ".join(DATASETS)
        raise ArgumentError(f"DatasetArgs.dataset_name: {dataset_name!r} is not one of {names}")
    return DATASETS[dataset_name]
