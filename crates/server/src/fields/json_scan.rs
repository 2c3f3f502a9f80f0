//! What can be said about JSON text before anything is built from it.
//!
//! The text has been checked to be JSON, so brackets match and strings end.

/// What a JSON text is, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    pub fn of(json: &str) -> Self {
        match json.trim_start().as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number,
        }
    }

    /// With its article, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "a list",
            Self::Object => "an object",
        }
    }
}

/// How many items a list or an object has, and how many values there are in it at all depths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub items: usize,
    pub values: usize,
}

impl Counts {
    pub fn of(json: &str) -> Self {
        let mut counts = Self::default();
        let mut depth = 0_usize;
        let mut is_empty = false;
        let mut bytes = json.bytes();
        while let Some(byte) = bytes.next() {
            if byte.is_ascii_whitespace() {
                continue;
            }
            let was_empty = std::mem::take(&mut is_empty);
            match byte {
                b'"' => skip_string(&mut bytes),
                b'[' | b'{' => {
                    // What stands before the bracket was counted with the separator before it.
                    counts.first_item(was_empty, depth);
                    depth += 1;
                    is_empty = true;
                    continue;
                }
                b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    continue;
                }
                b',' => {
                    counts.values += 1;
                    counts.items += usize::from(depth == 1);
                    continue;
                }
                _ => {}
            }
            counts.first_item(was_empty, depth);
        }
        counts
    }

    /// The first item of a list or an object has no separator before it.
    fn first_item(&mut self, was_empty: bool, depth: usize) {
        if was_empty {
            self.values += 1;
            self.items += usize::from(depth == 1);
        }
    }
}

fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, items: usize, values: usize) {
        assert_eq!(Counts::of(json), Counts { items, values }, "{json}");
    }

    #[test]
    fn items_and_values_are_counted() {
        check("[]", 0, 0);
        check("{}", 0, 0);
        check("[ 1, 2 ,3 ]", 3, 3);
        check(r#"["a,[b", "c\"],"]"#, 2, 2);
        check(r#"{"a": 1, "b": [1, 2], "c": {}}"#, 3, 5);
        check("[[],[],[[]]]", 3, 4);
        check("7", 0, 0);
    }

    #[test]
    fn counts_are_those_of_a_parser() {
        let json = r#"{"a": [{"b": [1, [2, {}, []]]}, "x{y", null], "c": {"d": {"e": true}}}"#;
        let value: serde_json::Value = serde_json::from_str(json).expect("JSON");
        fn values(value: &serde_json::Value) -> usize {
            match value {
                serde_json::Value::Array(items) => items.iter().map(|item| 1 + values(item)).sum(),
                serde_json::Value::Object(fields) => {
                    fields.values().map(|item| 1 + values(item)).sum()
                }
                _ => 0,
            }
        }
        check(json, 2, values(&value));
    }

    #[test]
    fn the_first_byte_tells_the_kind() {
        for (json, kind) in [
            (" {}", Kind::Object),
            ("[]", Kind::Array),
            (r#""a""#, Kind::String),
            ("true", Kind::Bool),
            ("-1e9", Kind::Number),
            ("null", Kind::Null),
        ] {
            assert_eq!(Kind::of(json), kind, "{json}");
        }
    }
}
