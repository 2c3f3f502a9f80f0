//! The Data layer of a network: labels, dense features and keys.

use serde_json::Value;

use super::layer_fields::LayerFields;

pub(super) struct DataLayer<'a> {
    pub labels: Vec<Label<'a>>,
    pub dense: Option<Dense<'a>>,
    pub sparse: Vec<Sparse<'a>>,
}

pub(super) struct Label<'a> {
    pub name: &'a str,
    pub dim: usize,
}

pub(super) struct Dense<'a> {
    pub name: &'a str,
    pub dim: usize,
}

/// The keys of some slots.
pub(super) struct Sparse<'a> {
    pub name: &'a str,
    pub slots: usize,
    pub keys_per_slot_most: usize,
    pub keys_per_sample_most: usize,
}

/// Most slots of a sample.
const MAX_SLOTS: usize = 1 << 20;
/// Most keys of a sample.
const MAX_KEYS: usize = 1 << 24;

impl<'a> DataLayer<'a> {
    pub fn read(layer: &'a serde_json::Map<String, Value>) -> Result<Self, String> {
        let fields = LayerFields::new(layer);
        let labels = match layer.get("label") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(labels)) => {
                let labels = labels.iter().map(|label| match label.as_object() {
                    Some(label) => read_labels(label),
                    None => Err("label has something that is no object".into()),
                });
                labels.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect()
            }
            Some(Value::Object(label)) => read_labels(label)?,
            Some(_) => return Err("label must be an object or a list of them".into()),
        };
        let dense = match fields.has("dense") {
            true => {
                let dense = fields.object("dense")?;
                Some(Dense { name: dense.text("top")?, dim: dense.count("dense_dim")? })
            }
            false => None,
        };
        let sparse = match layer.get("sparse") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(sparse)) => {
                let sparse = sparse.iter().map(|sparse| match sparse.as_object() {
                    Some(sparse) => read_sparse(&LayerFields::new(sparse)),
                    None => Err("sparse has something that is no object".into()),
                });
                sparse.collect::<Result<_, _>>()?
            }
            Some(_) => return Err("sparse must be a list".into()),
        };
        Ok(DataLayer { labels, dense, sparse })
    }
}

/// One label, or several whose names and dimensions are lists.
fn read_labels(label: &serde_json::Map<String, Value>) -> Result<Vec<Label<'_>>, String> {
    let fields = LayerFields::new(label);
    let names = fields.names("top")?;
    let dims = match label.get("label_dim") {
        Some(Value::Object(by_name)) => {
            let by_name = LayerFields::new(by_name);
            names.iter().map(|name| by_name.count(name)).collect::<Result<_, _>>()?
        }
        _ => fields.one_or_more_counts("label_dim")?,
    };
    if names.len() != dims.len() {
        return Err(format!("label has {} names and {} label_dim", names.len(), dims.len()));
    }
    Ok(names.into_iter().zip(dims).map(|(name, dim)| Label { name, dim }).collect())
}

fn read_sparse<'a>(fields: &LayerFields<'a>) -> Result<Sparse<'a>, String> {
    let (name, slots) = (fields.text("top")?, fields.count("slot_num")?);
    if !(1..=MAX_SLOTS).contains(&slots) {
        return Err(format!("{name:?} has slot_num {slots}, but must have 1 to {MAX_SLOTS}"));
    }
    let (keys_per_slot_most, all) = match fields.has("nnz_per_slot") {
        true => {
            let keys = fields.one_or_more_counts("nnz_per_slot")?;
            let most = keys.iter().copied().max().unwrap_or_default();
            match keys.len() {
                // One number is that of every slot.
                1 => (most, most.checked_mul(slots)),
                found if found == slots => {
                    let sum = keys.iter().try_fold(0, |all: usize, keys| all.checked_add(*keys));
                    (most, sum)
                }
                found => {
                    return Err(format!("{name:?} has {slots} slots, but {found} nnz_per_slot"));
                }
            }
        }
        // As older files have it.
        false => {
            let keys = fields.count("max_feature_num_per_sample")?;
            (keys, Some(keys))
        }
    };
    let keys_per_sample_most = all.filter(|all| (1..=MAX_KEYS).contains(all)).ok_or_else(|| {
        format!("{name:?} must have 1 to {MAX_KEYS} keys for a sample; check nnz_per_slot")
    })?;
    Ok(Sparse { name, slots, keys_per_slot_most, keys_per_sample_most })
}
