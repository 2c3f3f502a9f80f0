//! Where a run begins, and with it its logs.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStart {
    /// In a folder without logs.
    New,
    /// From a checkpoint made after `step`. What the logs have of later steps is dropped, as the
    /// run takes these steps again; `step: 0` begins over.
    Resumed { step: u64 },
}
