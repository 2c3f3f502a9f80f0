//! The tables of a model: which features look up in which, and how they were trained.

use super::classes;
use crate::gin::{Called, GinArgs, GinConfig, GinError};

#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingArgs {
    pub feature_names: Vec<String>,
    pub table_name: String,
    /// Rows of a static table, or the most of a dynamic one.
    pub item_vocab_size_or_capacity: usize,
    pub kind: TableKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TableKind {
    /// Each GPU has all rows: the table is in the state dict.
    DataParallel,
    /// The GPUs share the rows of a table of TorchRec.
    ModelParallel,
    /// A hash table of DynamicEmb, whose keys and rows are in files of their own.
    Dynamic(DynamicEmbeddingArgs),
}

/// How a dynamic table was kept while it was trained; nothing of it acts at inference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamicEmbeddingArgs {
    pub global_hbm_for_values: Option<usize>,
    pub item_vocab_gpu_capacity: Option<f64>,
    pub item_vocab_gpu_capacity_ratio: Option<f64>,
    pub evict_strategy: EvictStrategy,
    pub caching: bool,
    pub dist_type: DistType,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictStrategy {
    #[default]
    Lru,
    Lfu,
}

/// Which GPU has a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DistType {
    Continuous,
    #[default]
    Roundrobin,
    HashRoundrobin,
}

/// By whether it is data parallel.
const SHARDING_TYPES: [(&str, bool); 2] = [("data_parallel", true), ("model_parallel", false)];
const EVICT_STRATEGIES: [(&str, EvictStrategy); 2] =
    [("lru", EvictStrategy::Lru), ("lfu", EvictStrategy::Lfu)];
const DIST_TYPES: [(&str, DistType); 3] = [
    ("continuous", DistType::Continuous),
    ("roundrobin", DistType::Roundrobin),
    ("hash_roundrobin", DistType::HashRoundrobin),
];

impl EmbeddingArgs {
    /// A static table of one feature.
    pub fn fixed(feature: &str, table: &str, rows: usize) -> Self {
        EmbeddingArgs {
            feature_names: vec![feature.to_owned()],
            table_name: table.to_owned(),
            item_vocab_size_or_capacity: rows,
            kind: TableKind::DataParallel,
        }
    }

    /// A hash table of one feature, of the same name.
    pub fn dynamic(feature: &str, capacity: usize) -> Self {
        EmbeddingArgs {
            kind: TableKind::Dynamic(DynamicEmbeddingArgs::default()),
            ..Self::fixed(feature, feature, capacity)
        }
    }

    /// What a reference to `EmbeddingArgs` or `DynamicEmbeddingArgs` names.
    pub fn read(config: &GinConfig, Called { scope, name }: &Called) -> Result<Self, GinError> {
        let is_dynamic = name == classes::DYNAMIC_EMBEDDING.name;
        let class = match is_dynamic {
            true => &classes::DYNAMIC_EMBEDDING,
            false => &classes::EMBEDDING,
        };
        let args = GinArgs::new(config, scope, class);
        Ok(EmbeddingArgs {
            feature_names: args.required("feature_names")?,
            table_name: args.required("table_name")?,
            item_vocab_size_or_capacity: args.required("item_vocab_size_or_capacity")?,
            kind: match is_dynamic {
                true => TableKind::Dynamic(DynamicEmbeddingArgs::read(&args)?),
                false => match args.one_of("sharding_type", &SHARDING_TYPES)? {
                    Some(true) => TableKind::DataParallel,
                    Some(false) => TableKind::ModelParallel,
                    None => return Err(args.missing("sharding_type")),
                },
            },
        })
    }
}

impl DynamicEmbeddingArgs {
    fn read(args: &GinArgs<'_>) -> Result<Self, GinError> {
        Ok(DynamicEmbeddingArgs {
            global_hbm_for_values: args.get("global_hbm_for_values")?,
            item_vocab_gpu_capacity: args.get("item_vocab_gpu_capacity")?,
            item_vocab_gpu_capacity_ratio: args.get("item_vocab_gpu_capacity_ratio")?,
            evict_strategy: args.one_of("evict_strategy", &EVICT_STRATEGIES)?.unwrap_or_default(),
            caching: args.or("caching", false)?,
            dist_type: args.one_of("dist_type", &DIST_TYPES)?.unwrap_or_default(),
        })
    }
}
