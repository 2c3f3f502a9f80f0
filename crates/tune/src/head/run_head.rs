//! The head's part of a batch's passes, by what the head is.

use super::head_model::Head;
use super::head_pass::{HeadGradients, HeadPass};
use super::model_pass::ModelPass;
use super::next_token::NextTokenPass;
use crate::checkpoints::StoredRows;
use crate::error::Error;

impl HeadPass<'_> {
    /// outputs: of [`Head::positions`]. Gives the loss.
    pub fn run(
        &self,
        outputs: &StoredRows,
        gradients: Option<HeadGradients<'_>>,
    ) -> Result<f64, Error> {
        match &self.model.head_model {
            Head::NextToken => NextTokenPass { pass: *self }.run(outputs, gradients),
            Head::Model(head) => ModelPass { pass: *self, head: &**head }.run(outputs, gradients),
        }
    }
}
