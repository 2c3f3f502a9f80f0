//! The text around calls, which differs between families of models.

/// What stands around the JSON of calls: as it is read, and as it is written.
pub struct CallMarkup {
    /// Comes before calls. Empty: an output whose first character is `{` is a call.
    pub open: &'static str,
    /// What may stand between `open`, calls and `close`, besides blanks.
    pub skipped: &'static [char],
    /// Ends the calls, so that text may follow; empty if nothing does.
    pub close: &'static str,
    pub arguments_key: &'static str,
    /// Written after `open`, unless `before_each` has it.
    pub before_all: &'static str,
    pub before_each: &'static str,
    pub between: &'static str,
    pub after_each: &'static str,
    pub after_all: &'static str,
}

impl CallMarkup {
    /// Nothing around the JSON.
    pub const NONE: Self = Self {
        open: "",
        skipped: &[],
        close: "",
        arguments_key: "arguments",
        before_all: "",
        before_each: "",
        between: "",
        after_each: "",
        after_all: "",
    };
}
