//! The features and tables of the data sets that recsys-examples knows by name, and of
//! MovieLens-100K, which our own trainer knows beside them.

use super::embedding_args::EmbeddingArgs;

/// What a model of a data set looks up.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetFeatures {
    pub item: String,
    pub contextual: Vec<String>,
    pub action: Option<String>,
    /// Tables, in the order in which static ones lie in a checkpoint.
    pub tables: Vec<EmbeddingArgs>,
}

struct KnownDataset {
    name: &'static str,
    item: &'static str,
    action: &'static str,
    /// In the order of the tokens, `user_id` first.
    contextual: &'static [&'static str],
    /// Rows of the static tables of the context, those behind `user_id`.
    contextual_rows: &'static [usize],
    /// Rows of the table of actions, which is called `action_weights`.
    action_rows: usize,
    item_capacity: usize,
}

/// What a table of hashed ids takes.
const HASH_CAPACITY: usize = 10_000_000;
const ACTION_TABLE: &str = "action_weights";
const USER_FEATURE: &str = "user_id";
const KUAIRAND_CONTEXT: &[&str] = &[
    USER_FEATURE,
    "user_active_degree",
    "follow_user_num_range",
    "fans_user_num_range",
    "friend_user_num_range",
    "register_days_range",
];

const MOVIELENS_CONTEXT: &[&str] = &[USER_FEATURE, "sex", "age_group", "occupation", "zip_code"];

const KNOWN: [KnownDataset; 6] = [
    KnownDataset {
        name: "kuairand-pure",
        item: "video_id",
        action: ACTION_TABLE,
        contextual: KUAIRAND_CONTEXT,
        contextual_rows: &[10, 9, 10, 8, 8],
        action_rows: 226,
        item_capacity: HASH_CAPACITY,
    },
    KnownDataset {
        name: "kuairand-1k",
        item: "video_id",
        action: ACTION_TABLE,
        contextual: KUAIRAND_CONTEXT,
        contextual_rows: &[8, 9, 9, 8, 8],
        action_rows: 233,
        item_capacity: HASH_CAPACITY,
    },
    KnownDataset {
        name: "kuairand-27k",
        item: "video_id",
        action: ACTION_TABLE,
        contextual: KUAIRAND_CONTEXT,
        contextual_rows: &[10, 9, 10, 8, 8],
        action_rows: 246,
        item_capacity: 32_038_725,
    },
    KnownDataset {
        name: "ml-1m",
        item: "movie_id",
        action: "rating",
        contextual: MOVIELENS_CONTEXT,
        contextual_rows: &[3, 8, 22, 3440],
        action_rows: 11,
        item_capacity: HASH_CAPACITY,
    },
    KnownDataset {
        name: "ml-100k",
        item: "movie_id",
        action: "rating",
        contextual: MOVIELENS_CONTEXT,
        contextual_rows: &[3, 8, 22, 796],
        action_rows: 8,
        item_capacity: HASH_CAPACITY,
    },
    KnownDataset {
        name: "ml-20m",
        item: "movie_id",
        action: "rating",
        contextual: &[USER_FEATURE],
        contextual_rows: &[],
        action_rows: 11,
        item_capacity: HASH_CAPACITY,
    },
];

impl DatasetFeatures {
    pub fn of(dataset: &str) -> Option<Self> {
        let known = KNOWN.iter().find(|known| known.name == dataset)?;
        let fixed = known.contextual[1..].iter().zip(known.contextual_rows);
        let mut tables: Vec<EmbeddingArgs> =
            fixed.map(|(name, rows)| EmbeddingArgs::fixed(name, name, *rows)).collect();
        tables.push(EmbeddingArgs::fixed(known.action, ACTION_TABLE, known.action_rows));
        tables.push(EmbeddingArgs::dynamic(known.item, known.item_capacity));
        tables.push(EmbeddingArgs::dynamic(USER_FEATURE, HASH_CAPACITY));
        Some(DatasetFeatures {
            item: known.item.to_owned(),
            contextual: known.contextual.iter().map(|name| (*name).to_owned()).collect(),
            action: Some(known.action.to_owned()),
            tables,
        })
    }

    /// Names of the data sets that are known.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|known| known.name)
    }

    /// The table that a feature looks up in.
    pub fn table_of(&self, feature: &str) -> Option<&EmbeddingArgs> {
        self.tables.iter().find(|table| table.feature_names.iter().any(|name| name == feature))
    }
}
