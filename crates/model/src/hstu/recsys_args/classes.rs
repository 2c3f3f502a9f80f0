//! The classes that recsys-examples configures through gin, and their parameters; and those that
//! our own trainer has beside them.

use crate::gin::GinClass;

pub const TRAINER: GinClass = GinClass {
    name: "TrainerArgs",
    params: &[
        "train_batch_size",
        "eval_batch_size",
        "eval_interval",
        "log_interval",
        "max_train_iters",
        "max_eval_iters",
        "seed",
        "profile",
        "profile_step_start",
        "profile_step_end",
        "ckpt_save_interval",
        "ckpt_save_dir",
        "ckpt_load_dir",
        "pipeline_type",
        "enable_balanced_shuffler",
    ],
};

pub const DATASET: GinClass = GinClass {
    name: "DatasetArgs",
    params: &[
        "dataset_name",
        "max_history_seqlen",
        "dataset_path",
        "max_num_candidates",
        "shuffle",
    ],
};

pub const BENCHMARK_DATASET: GinClass = GinClass {
    name: "BenchmarkDatasetArgs",
    params: &[
        "feature_args",
        "embedding_args",
        "item_feature_name",
        "contextual_feature_names",
        "action_feature_name",
        "max_num_candidates",
        "num_generated_batches",
    ],
};

pub const FEATURE: GinClass = GinClass {
    name: "FeatureArgs",
    params: &["feature_names", "max_sequence_length", "is_jagged", "seqlen_dist", "value_dists"],
};

/// Of features that are made up; nothing of it acts at inference.
pub const RANDOM_DISTRIBUTION: GinClass = GinClass {
    name: "RandomDistribution",
    params: &["dist_type", "low", "high", "mean", "std", "alpha"],
};

pub const EMBEDDING: GinClass = GinClass {
    name: "EmbeddingArgs",
    params: &["feature_names", "table_name", "item_vocab_size_or_capacity", "sharding_type"],
};

pub const DYNAMIC_EMBEDDING: GinClass = GinClass {
    name: "DynamicEmbeddingArgs",
    params: &[
        "feature_names",
        "table_name",
        "item_vocab_size_or_capacity",
        "sharding_type",
        "global_hbm_for_values",
        "item_vocab_gpu_capacity",
        "item_vocab_gpu_capacity_ratio",
        "evict_strategy",
        "caching",
        "dist_type",
    ],
};

pub const NETWORK: GinClass = GinClass {
    name: "NetworkArgs",
    params: &[
        "num_layers",
        "hidden_size",
        "num_attention_heads",
        "kv_channels",
        "hidden_dropout",
        "norm_epsilon",
        "is_causal",
        "dtype_str",
        "kernel_backend",
        "target_group_size",
        "num_position_buckets",
        "recompute_input_layernorm",
        "recompute_input_silu",
        "item_embedding_dim",
        "contextual_embedding_dim",
        "scaling_seqlen",
        "embedding_backend",
        "disable_contextual_mask",
        "backbone",
        "transformer_ffn_dim",
    ],
};

pub const RANKING: GinClass = GinClass {
    name: "RankingArgs",
    params: &[
        "prediction_head_arch",
        "prediction_head_act_type",
        "prediction_head_bias",
        "num_tasks",
        "eval_metrics",
    ],
};

pub const RETRIEVAL: GinClass = GinClass {
    name: "RetrievalArgs",
    params: &["num_negatives", "temperature", "l2_norm_eps", "eval_metrics"],
};

pub const OPTIMIZER: GinClass = GinClass {
    name: "OptimizerArgs",
    params: &["optimizer_str", "learning_rate", "adam_beta1", "adam_beta2", "adam_eps"],
};

pub const PARALLEL: GinClass =
    GinClass { name: "TensorModelParallelArgs", params: &["tensor_model_parallel_size"] };

/// Of our own trainer, in training alone.
const AUGMENTATION: GinClass =
    GinClass { name: "AugmentationArgs", params: &["random_prefix", "unknown_user_share"] };

/// Of our own trainer's sequential models.
pub const SEQUENTIAL: GinClass = GinClass {
    name: "SequentialArgs",
    params: &[
        "enabled",
        "sampling_power",
        "eval_negatives",
        "eval_sampling",
        "weight_decay",
        "keep_best",
    ],
};

pub const ALL: [&GinClass; 14] = [
    &TRAINER,
    &DATASET,
    &BENCHMARK_DATASET,
    &FEATURE,
    &RANDOM_DISTRIBUTION,
    &EMBEDDING,
    &DYNAMIC_EMBEDDING,
    &NETWORK,
    &RANKING,
    &RETRIEVAL,
    &OPTIMIZER,
    &PARALLEL,
    &AUGMENTATION,
    &SEQUENTIAL,
];
