//! An inference request's way through a model, the same for every protocol.

use super::classification::classified;
use super::infer_error::InferError;
use super::infer_outputs::InferOutputs;
use super::infer_request::{InferRequest, RequestedOutput};
use super::model_registry::ModelRegistry;
use super::tensor::Tensor;

/// What a client gets: the outputs that it asked for, in its order.
pub struct Inferred {
    /// The request's; empty where it has none.
    pub id: String,
    pub model: String,
    pub version: u64,
    pub outputs: InferOutputs,
}

/// An empty `version` is the latest.
pub async fn infer(
    registry: &ModelRegistry,
    model: &str,
    version: &str,
    mut request: InferRequest,
) -> Result<Inferred, InferError> {
    let served = registry.find(model, version)?;
    let (id, requested) = (std::mem::take(&mut request.id), request.outputs.clone());
    let mut outputs = served.infer(request).await?;
    if !requested.is_empty() {
        outputs.tensors = selected(outputs.tensors, &requested)?;
    }
    let version = served.metadata().version;
    Ok(Inferred { id, model: model.to_owned(), version, outputs })
}

fn selected(
    tensors: Vec<Tensor>,
    requested: &[RequestedOutput],
) -> Result<Vec<Tensor>, InferError> {
    let mut tensors: Vec<_> = tensors.into_iter().map(Some).collect();
    let of_name = |tensors: &[Option<Tensor>], name: &str| {
        tensors.iter().position(|it| it.as_ref().is_some_and(|tensor| tensor.name() == name))
    };
    let mut found = Vec::with_capacity(requested.len());
    for RequestedOutput { name, classes } in requested {
        let Some(index) = of_name(&tensors, name) else {
            let has_had = requested.iter().filter(|other| other.name == *name).count() > 1;
            let message = match has_had {
                true => format!("the output {name:?} is asked for twice"),
                false => format!("the model has no output {name:?}"),
            };
            return Err(InferError::invalid(message));
        };
        let tensor = tensors[index].take().expect("it was found");
        found.push(match classes {
            Some(classes) => classified(&tensor, *classes)?,
            None => tensor,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::tensor_data::TensorData;
    use super::*;

    #[test]
    fn outputs_come_as_they_are_asked_for() {
        let tensor = |name: &str| Tensor::list(name, TensorData::Fp32(vec![1.0, 2.0]));
        let all = || vec![tensor("A"), tensor("B")];
        let ask = |name: &str, classes| RequestedOutput { name: name.to_owned(), classes };
        let found = selected(all(), &[ask("B", None), ask("A", Some(1))]).expect("both are there");
        assert_eq!(found[0], tensor("B"));
        assert_eq!(*found[1].data(), TensorData::Bytes(vec!["2.000000:1".into()]));
        for (asked, want) in [
            (vec![ask("C", None)], "the model has no output \"C\""),
            (vec![ask("A", None), ask("A", Some(1))], "the output \"A\" is asked for twice"),
        ] {
            assert_eq!(selected(all(), &asked), Err(InferError::invalid(want)));
        }
    }
}
