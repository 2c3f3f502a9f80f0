//! Who hears how far a pass has come.

use crate::error::Error;

pub trait PassEvents {
    /// The policy has decided, and what backward starts from is kept.
    fn forward_done(&mut self) -> Result<(), Error>;
    /// The loss is known, and its gradient by the last layer's outputs.
    fn head_done(&mut self) -> Result<(), Error>;
    /// A row of layers is walked back, the first of which has this number.
    fn row_done(&mut self, first_layer: usize) -> Result<(), Error>;
}

/// Tells nobody.
pub(crate) struct Unheard;

impl PassEvents for Unheard {
    fn forward_done(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn head_done(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn row_done(&mut self, _: usize) -> Result<(), Error> {
        Ok(())
    }
}
