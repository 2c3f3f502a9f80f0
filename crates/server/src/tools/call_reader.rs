//! One call as it is written: `{"name": "f", "arguments": {..}}`, character by character.
//!
//! The arguments are given out as they come once the name is known, as the text they are: whether
//! that is good JSON is for the caller of the function to see.

use super::call_segment::CallSegment;

#[derive(Default)]
pub struct CallReader {
    /// From the first `{` on.
    text: String,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    string_start: usize,
    /// Of the object's own fields: whether a name comes next, and the last one read.
    expects_value: bool,
    key: String,
    name: Option<String>,
    /// Where the arguments begin and, when they are complete, end.
    arguments_start: Option<usize>,
    arguments_end: Option<usize>,
    /// Arguments that come as a text with JSON in it.
    arguments_text: Option<String>,
    /// How much of the arguments has been given out; `None` before the name has.
    given: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    Unfinished,
    Finished,
    /// The object is complete and is not a call.
    NoCall,
}

impl CallReader {
    /// Reads on to the end of the object; says how many bytes it took.
    pub fn read(&mut self, text: &str, segments: &mut Vec<CallSegment>) -> (usize, CallStatus) {
        for (at, character) in text.char_indices() {
            self.take(character);
            if self.depth == 0 {
                return (at + character.len_utf8(), self.end(segments));
            }
        }
        self.give(segments);
        (text.len(), CallStatus::Unfinished)
    }

    /// Whether anything has been given out, so that it cannot be taken for text any more.
    pub fn has_begun(&self) -> bool {
        self.given.is_some()
    }

    pub fn into_text(self) -> String {
        self.text
    }

    fn take(&mut self, character: char) {
        let at = self.text.len();
        self.text.push(character);
        if self.in_string {
            match character {
                _ if self.is_escaped => self.is_escaped = false,
                '\\' => self.is_escaped = true,
                '"' => self.end_string(),
                _ => {}
            }
            return;
        }
        match character {
            '"' => {
                self.in_string = true;
                self.string_start = at;
            }
            '{' | '[' => {
                if self.depth == 1 && self.is_argument() && character == '{' {
                    self.arguments_start.get_or_insert(at);
                }
                self.depth += 1;
            }
            '}' | ']' => {
                self.depth -= 1;
                if self.depth == 1 && self.is_argument() && self.arguments_start.is_some() {
                    self.arguments_end.get_or_insert(self.text.len());
                }
            }
            ':' if self.depth == 1 => self.expects_value = true,
            ',' if self.depth == 1 => self.expects_value = false,
            _ => {}
        }
    }

    fn end_string(&mut self) {
        self.in_string = false;
        if self.depth != 1 {
            return;
        }
        let text = serde_json::from_str(&self.text[self.string_start..]).unwrap_or_default();
        match (self.expects_value, self.key.as_str()) {
            (false, _) => self.key = text,
            (true, "name") => self.name = Some(text),
            (true, _) if self.is_argument() => self.arguments_text = Some(text),
            (true, _) => {}
        }
    }

    /// Models mix up the two names.
    fn is_argument(&self) -> bool {
        self.expects_value && matches!(self.key.as_str(), "arguments" | "parameters")
    }

    /// Gives out what there is of the arguments, after the name.
    fn give(&mut self, segments: &mut Vec<CallSegment>) {
        let (Some(name), Some(start)) = (&self.name, self.arguments_start) else { return };
        let given = *self.given.get_or_insert_with(|| {
            segments.push(CallSegment::Call { name: name.clone() });
            start
        });
        let end = self.arguments_end.unwrap_or(self.text.len());
        if given < end {
            segments.push(CallSegment::Arguments(self.text[given..end].to_owned()));
            self.given = Some(end);
        }
    }

    fn end(&mut self, segments: &mut Vec<CallSegment>) -> CallStatus {
        let Some(name) = &self.name else { return CallStatus::NoCall };
        if self.arguments_start.is_some() {
            self.give(segments);
        } else {
            let arguments = self.arguments_text.take().unwrap_or_else(|| "{}".to_owned());
            segments.extend([
                CallSegment::Call { name: name.clone() },
                CallSegment::Arguments(arguments),
            ]);
            self.given = Some(self.text.len());
        }
        CallStatus::Finished
    }
}
