//! What gin files of recsys-examples say: every key, its default, and what cannot act.

use terrace_model::gin::GinConfig;
use terrace_model::hstu::recsys_args::{
    DatasetChoice, DynamicEmbeddingArgs, EmbeddingArgs, EvictStrategy, NetworkDtype, PipelineType,
    RecsysArgs, TableKind, TaskArgs, UnknownKeys,
};
use terrace_model::hstu::{HstuTask, UvqkOrder};

/// What the original serves KuaiRand-1K with.
const KUAIRAND: &str = "
DatasetArgs.dataset_name = 'kuairand-1k'
DatasetArgs.max_history_seqlen = 4096
DatasetArgs.max_num_candidates = 100
DatasetArgs.shuffle = False

NetworkArgs.num_layers = 3
NetworkArgs.num_attention_heads = 4
NetworkArgs.hidden_size = 512
NetworkArgs.kv_channels = 128

RankingArgs.prediction_head_arch = [
    512, 8
]
RankingArgs.prediction_head_bias = True
RankingArgs.num_tasks = 8
";

/// A file of made up features, with training's keys.
const BENCHMARK: &str = "
TrainerArgs.train_batch_size = 32
TrainerArgs.eval_batch_size = 16
TrainerArgs.pipeline_type = 'prefetch'
TrainerArgs.ckpt_save_interval = 500

lengths/RandomDistribution.dist_type = 'zipf'
lengths/RandomDistribution.alpha = 1.2
sequence/FeatureArgs.feature_names = ['item', 'action']
sequence/FeatureArgs.max_sequence_length = 2048
sequence/FeatureArgs.is_jagged = True
sequence/FeatureArgs.seqlen_dist = @lengths/RandomDistribution()
user/FeatureArgs.feature_names = ['user_id', 'age']
user/FeatureArgs.max_sequence_length = 1
BenchmarkDatasetArgs.feature_args = [@sequence/FeatureArgs(), @user/FeatureArgs()]

item/DynamicEmbeddingArgs.feature_names = ['item']
item/DynamicEmbeddingArgs.table_name = 'items'
item/DynamicEmbeddingArgs.item_vocab_size_or_capacity = 50000000
item/DynamicEmbeddingArgs.item_vocab_gpu_capacity_ratio = 0.1
item/DynamicEmbeddingArgs.evict_strategy = 'lfu'
action/EmbeddingArgs.feature_names = ['action']
action/EmbeddingArgs.table_name = 'action'
action/EmbeddingArgs.item_vocab_size_or_capacity = 100
action/EmbeddingArgs.sharding_type = 'data_parallel'
BenchmarkDatasetArgs.embedding_args = [@item/DynamicEmbeddingArgs(), @action/EmbeddingArgs()]
BenchmarkDatasetArgs.item_feature_name = 'item'
BenchmarkDatasetArgs.contextual_feature_names = ['user_id', 'age']
BenchmarkDatasetArgs.action_feature_name = 'action'

NetworkArgs.num_layers = 10
NetworkArgs.num_attention_heads = 4
NetworkArgs.hidden_size = 1024
NetworkArgs.kv_channels = 256
NetworkArgs.item_embedding_dim = 128
NetworkArgs.contextual_embedding_dim = 64
NetworkArgs.norm_epsilon = 1e-6
NetworkArgs.scaling_seqlen = 4096
OptimizerArgs.optimizer_str = 'adam'
OptimizerArgs.learning_rate = 1e-3
TensorModelParallelArgs.tensor_model_parallel_size = 2
RankingArgs.prediction_head_arch = [512, 8]
RankingArgs.num_tasks = 8
RankingArgs.prediction_head_act_type = 'gelu'
";

const RETRIEVAL: &str = "
DatasetArgs.dataset_name = 'ml-20m'
DatasetArgs.max_history_seqlen = 200
NetworkArgs.num_layers = 4
NetworkArgs.num_attention_heads = 4
NetworkArgs.hidden_size = 256
NetworkArgs.kv_channels = 64
RetrievalArgs.num_negatives = 128
RetrievalArgs.eval_metrics = ('NDCG@10', 'HR@10')
";

fn read(text: &str) -> Result<RecsysArgs, String> {
    let config = GinConfig::from_text("a.gin", text).map_err(|error| error.to_string())?;
    let read = RecsysArgs::read(&config, UnknownKeys::Refuse);
    read.map(|(args, _)| args).map_err(|error| error.to_string())
}

#[test]
fn defaults_are_those_of_the_original() {
    let args = read(KUAIRAND).expect("the original's file");
    assert_eq!((args.trainer, args.optimizer.is_none()), (None, true));
    assert_eq!(args.parallel.tensor_model_parallel_size, 1);
    let network = args.network;
    assert_eq!((network.hidden_dropout, network.norm_epsilon), (0.2, 1e-5));
    assert_eq!((network.num_position_buckets, network.scaling_seqlen), (8192, None));
    assert_eq!((network.dtype, network.is_causal), (NetworkDtype::Bfloat16, true));
    assert_eq!(network.kernel_backend, "cutlass");
    let TaskArgs::Ranking(ranking) = args.task else { panic!("it ranks") };
    assert_eq!(ranking.prediction_head_arch, [512, 8]);
    assert_eq!(ranking.eval_metrics, ["AUC"]);
    let args = read(RETRIEVAL).expect("the original's file");
    let TaskArgs::Retrieval(retrieval) = args.task else { panic!("it retrieves") };
    assert_eq!((retrieval.num_negatives, retrieval.temperature), (128, 0.05));
    assert_eq!(retrieval.eval_metrics, ["NDCG@10", "HR@10"]);
}

#[test]
fn a_known_data_set_becomes_a_model() {
    let args = read(KUAIRAND).expect("the original's file");
    let config = args.hstu_config(UvqkOrder::Blocked).expect("a model");
    assert_eq!((config.num_layers, config.hidden_size, config.head_dim), (3, 512, 128));
    assert_eq!((config.max_history_tokens, config.max_candidates), (2 * 4096 + 6, 100));
    assert_eq!(config.scaling_seqlen, 8320, "6 + 2 * 4096 + 100, up to a multiple of 32");
    assert_eq!(config.contextual_features.len(), 6);
    assert_eq!(config.action_feature.as_deref(), Some("action_weights"));
    let notes = args.inference_notes().expect("notes").join("\n");
    assert!(notes.contains("divided by 8320"), "{notes}");
    assert!(notes.contains("disable_contextual_mask is False"), "{notes}");
    let features = args.features().expect("features");
    let ranges = features.table_of("fans_user_num_range").expect("a table");
    assert_eq!(ranges.item_vocab_size_or_capacity, 9);

    let config = read(RETRIEVAL).expect("a file").hstu_config(UvqkOrder::Blocked).expect("a model");
    assert_eq!((config.task, config.max_history_tokens), (HstuTask::Retrieval, 401));
    assert_eq!(config.action_feature.as_deref(), Some("rating"));
}

#[test]
fn listed_features_and_tables_are_followed() {
    let args = read(BENCHMARK).expect("a good file");
    let trainer = args.trainer.as_ref().expect("it is set");
    assert_eq!((trainer.eval_batch_size, trainer.seed), (16, 1234));
    assert_eq!(trainer.ckpt_save_interval, Some(500));
    assert_eq!(trainer.pipeline_type, PipelineType::Prefetch);
    let DatasetChoice::Benchmark(dataset) = &args.dataset else { panic!("a benchmark") };
    assert_eq!(dataset.feature_args[1].feature_names, ["user_id", "age"]);
    let items = EmbeddingArgs {
        feature_names: vec!["item".to_owned()],
        table_name: "items".to_owned(),
        item_vocab_size_or_capacity: 50_000_000,
        kind: TableKind::Dynamic(DynamicEmbeddingArgs {
            item_vocab_gpu_capacity_ratio: Some(0.1),
            evict_strategy: EvictStrategy::Lfu,
            ..DynamicEmbeddingArgs::default()
        }),
    };
    assert_eq!(dataset.embedding_args[0], items);
    assert_eq!(args.parallel.tensor_model_parallel_size, 2);
    let config = args.hstu_config(UvqkOrder::PerHead).expect("a model");
    assert_eq!((config.item_embedding_dim, config.contextual_embedding_dim), (Some(128), Some(64)));
    assert_eq!((config.norm_eps, config.scaling_seqlen), (Some(1e-6), 4096));
    assert_eq!((config.max_history_tokens, config.max_candidates), (2 + 2 * 2048, 2048));
}

#[track_caller]
fn refused(text: &str, line: &str, want: &str) {
    let read = read(&format!("{text}{line}\n"));
    let model = read
        .and_then(|args| args.hstu_config(UvqkOrder::Blocked).map_err(|error| error.to_string()));
    let message = model.expect_err(line);
    assert!(message.contains(want), "{line}: {message}");
}

#[test]
fn unknown_keys_are_all_named_or_skipped() {
    let text =
        format!("{KUAIRAND}NetworkArgs.num_layer = 3\nNetworkArg.hidden_size = 8\nX.y = 1\n");
    let message = read(&text).expect_err("unknown keys");
    assert!(message.starts_with("3 unknown keys: "), "{message}");
    for part in [
        "NetworkArgs.num_layer (a.gin:17; did you mean NetworkArgs.num_layers?)",
        "NetworkArg.hidden_size (a.gin:18; did you mean NetworkArgs.hidden_size?)",
        "X.y (a.gin:19)",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let config = GinConfig::from_text("a.gin", &text).expect("good syntax");
    let (_, skipped) = RecsysArgs::read(&config, UnknownKeys::Skip).expect("the rest is known");
    assert_eq!(skipped.len(), 3);
}

#[test]
fn what_cannot_act_is_refused_with_the_reason() {
    refused(KUAIRAND, "NetworkArgs.dtype_str = 'float16'", "dtype_str is float16");
    refused(KUAIRAND, "NetworkArgs.is_causal = False", "cannot be cached");
    refused(KUAIRAND, "NetworkArgs.target_group_size = 2", "target_group_size is 2");
    refused(KUAIRAND, "NetworkArgs.backbone = 'transformer'", "backbone is transformer");
    refused(KUAIRAND, "NetworkArgs.item_embedding_dim = 64", "only where both are given");
    refused(KUAIRAND, "DatasetArgs.dataset_name = 'kuairand-2k'", "did you mean kuairand-1k?");
    refused(KUAIRAND, "NetworkArgs.num_layers = '3'", "a.gin:17: NetworkArgs.num_layers is '3'");
    refused(KUAIRAND, "NetworkArgs.dtype_str = 'float64'", "one of bfloat16, float16");
    refused("", "NetworkArgs.num_layers = 3", "BenchmarkDatasetArgs.feature_args is not set");
    let without = KUAIRAND.replace("NetworkArgs.kv_channels = 128", "");
    refused(&without, "", "NetworkArgs.kv_channels is not set, and has no default");
}
