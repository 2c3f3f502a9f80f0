//! What a user says about a handle when it is made.

use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandleLabels {
    /// 1 to 128 characters, none of them a control character. Absent: one is made of the id. A
    /// handle of the owner that has the name already is replaced.
    pub name: Option<String>,
    /// Whose it is; nobody else finds it.
    pub owner: Option<String>,
    /// How long it is kept at least; absent keeps it until it is removed.
    pub ttl: Option<Duration>,
    /// It stays in memory, within the budget of pins.
    pub pin: bool,
}
