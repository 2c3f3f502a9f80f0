//! What a client asks a model, whatever the protocol that it came by.

use std::time::Duration;

use super::infer_error::InferError;
use super::parameter::Parameters;
use super::tensor::Tensor;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct InferRequest {
    /// The client's, which its response repeats; empty where it has none.
    pub id: String,
    /// The model's own; those of the protocol are taken out.
    pub parameters: Parameters,
    pub tensors: Vec<Tensor>,
    /// Empty: all that the model has.
    pub outputs: Vec<RequestedOutput>,
    /// Of the whole request.
    pub timeout: Option<Duration>,
    /// 1 is the highest; 0 is that of requests that say nothing.
    pub priority: u64,
    /// Whose it is what the request leaves behind, as its API key says; empty where the server has
    /// no keys.
    pub tenant: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    pub name: String,
    /// The best so many classes of each row, as texts, instead of the tensor.
    pub classes: Option<usize>,
}

impl InferRequest {
    /// The input of any of these names, which mean the same.
    pub fn take_input(&mut self, names: &[&str]) -> Option<Tensor> {
        let index = self.tensors.iter().position(|tensor| names.contains(&tensor.name()))?;
        Some(self.tensors.remove(index))
    }

    /// The same, of one that must be there.
    pub fn require_input(&mut self, names: &[&str]) -> Result<Tensor, InferError> {
        let missing = || InferError::invalid(format!("the input {:?} is missing", names[0]));
        self.take_input(names).ok_or_else(missing)
    }

    /// Refuses inputs and parameters that nobody took; `known` are the model's inputs.
    pub fn finish(&self, known: &[&str]) -> Result<(), InferError> {
        if let Some(tensor) = self.tensors.first() {
            let (name, known) = (tensor.name(), known.join(", "));
            let message = match known.split(", ").any(|it| it == name) {
                true => format!("the input {name:?} is given twice"),
                false => format!("the model has no input {name:?}; it takes {known}"),
            };
            return Err(InferError::invalid(message));
        }
        match self.parameters.keys().next() {
            Some(name) => {
                let message = format!("the model has no parameter {name:?}; leave it out");
                Err(InferError::invalid(message))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameter::Parameter;
    use super::super::tensor_data::TensorData;
    use super::*;

    #[test]
    fn inputs_are_taken_once_and_the_rest_is_refused() {
        let tensor = |name: &str| Tensor::list(name, TensorData::Int32(vec![1]));
        let tensors = vec![tensor("A"), tensor("C"), tensor("A")];
        let mut request = InferRequest { tensors, ..InferRequest::default() };
        assert_eq!(request.require_input(&["B", "A"]), Ok(tensor("A")));
        let error = request.require_input(&["B"]).expect_err("it is not there");
        assert_eq!(error.message, "the input \"B\" is missing");
        let known = ["A", "B"];
        let error = request.finish(&known).expect_err("C is not known");
        assert_eq!(error.message, "the model has no input \"C\"; it takes A, B");
        assert_eq!(request.take_input(&["C"]), Some(tensor("C")));
        let error = request.finish(&known).expect_err("A is there again");
        assert_eq!(error.message, "the input \"A\" is given twice");
        request.tensors.clear();
        assert_eq!(request.finish(&known), Ok(()));
        request.parameters.insert("p".to_owned(), Parameter::Bool(true));
        let error = request.finish(&known).expect_err("no parameter is known");
        assert_eq!(error.message, "the model has no parameter \"p\"; leave it out");
    }
}
