//! What a configuration depends on and does not say itself.

use std::path::Path;

#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Where relative paths start; as they are without it.
    pub folder: Option<&'a Path>,
    /// What the model of a network with an `inference` block is called, which has no name in it.
    pub model_name: Option<&'a str>,
    /// CPU cores of this machine.
    pub cores: usize,
}
