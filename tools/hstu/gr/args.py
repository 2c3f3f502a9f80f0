"""What a gin file says: the argument classes of recsys-examples, with its names and defaults.

A key that is not here is refused by gin. What cannot act here is refused or noted by `arg_checks`.
"""

from dataclasses import dataclass

import gin

from gr.argument_error import ArgumentError


@gin.configurable
@dataclass
class TrainerArgs:
    train_batch_size: int
    eval_batch_size: int
    eval_interval: int = 100
    log_interval: int = 100
    max_train_iters: int | None = None  # one pass over the training users unless given
    max_eval_iters: int | None = None
    seed: int = 1234
    profile: bool = False
    profile_step_start: int = 100
    profile_step_end: int = 200
    ckpt_save_interval: int = -1  # -1: no checkpoints
    ckpt_save_dir: str = "./checkpoints"
    ckpt_load_dir: str = ""
    pipeline_type: str = "native"
    enable_balanced_shuffler: bool = False


@gin.configurable
@dataclass
class DatasetArgs:
    dataset_name: str
    max_history_seqlen: int
    dataset_path: str | None = None
    max_num_candidates: int = 0
    shuffle: bool = False


@gin.configurable
@dataclass
class NetworkArgs:
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    kv_channels: int
    hidden_dropout: float = 0.2
    norm_epsilon: float = 1e-5
    is_causal: bool = True
    dtype_str: str = "bfloat16"
    kernel_backend: str = "cutlass"
    target_group_size: int = 1
    num_position_buckets: int = 8192
    recompute_input_layernorm: bool = False
    recompute_input_silu: bool = False
    item_embedding_dim: int = -1
    contextual_embedding_dim: int = -1
    scaling_seqlen: int = -1
    embedding_backend: str | None = None
    disable_contextual_mask: bool = False


@gin.configurable
@dataclass
class RankingArgs:
    prediction_head_arch: list[int]
    prediction_head_act_type: str = "relu"
    prediction_head_bias: bool = True
    num_tasks: int = 1
    eval_metrics: tuple[str, ...] = ("AUC",)


@gin.configurable
@dataclass
class RetrievalArgs:
    num_negatives: int = -1  # -1: all different items of the batch
    temperature: float = 0.05
    l2_norm_eps: float = 1e-6
    eval_metrics: tuple[str, ...] = ("HR@10", "NDCG@10")


@gin.configurable
@dataclass
class OptimizerArgs:
    optimizer_str: str
    learning_rate: float
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_eps: float = 1e-8


@gin.configurable
@dataclass
class TensorModelParallelArgs:
    tensor_model_parallel_size: int = 1


@gin.configurable
@dataclass
class DynamicEmbeddingArgs:
    """Of tables whose ids are not known before. Here a table has the ids of its training data."""

    global_hbm_for_values: int | None = None
    item_vocab_gpu_capacity: float | None = None
    item_vocab_gpu_capacity_ratio: float | None = None
    evict_strategy: str = "lru"
    caching: bool = False
    dist_type: str = "roundrobin"


@gin.configurable
@dataclass
class AugmentationArgs:
    """Not of recsys-examples: what makes more of few users, in training alone."""

    random_prefix: bool = False  # candidates are at any place of a user's items, not at the end
    unknown_user_share: float = 0.0  # of users that are met as if their id were new


@gin.configurable
@dataclass
class SequentialArgs:
    """Not of recsys-examples: the sequential model, whose users all train and are all evaluated.

    Each user's last item is the test, the one before it the validation (leave one out).
    """

    enabled: bool = False
    sampling_power: float = 0.0  # negatives in training are drawn by popularity to this power
    eval_negatives: int = 100
    eval_sampling: str = "uniform"  # or "popularity"
    weight_decay: float = 0.0
    keep_best: bool = True  # test the parameters that were best at the validation


def parse(path, bindings=()):
    """Reads a gin file, then bindings as a file has them; `given` has their values."""
    try:
        gin.parse_config_files_and_bindings([path], list(bindings))
    except (OSError, SyntaxError, TypeError, ValueError) as error:
        raise ArgumentError(f"{path}: {error}") from error


def given(arguments):
    """One of the classes above, with the values of the gin file."""
    try:
        return arguments()
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(str(error)) from error
