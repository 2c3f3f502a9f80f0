//! A file of samples, read a part at a time.

use anyhow::Result;

use super::sample_builder::SampleBuilder;

pub trait SampleFile {
    /// Adds samples until there are `most`, or the file ends. How many bytes or rows it has read
    /// is its progress.
    fn fill(&mut self, builder: &mut SampleBuilder, most: usize) -> Result<()>;

    /// How far it has come, of how much.
    fn progress(&self) -> (u64, u64);
}
