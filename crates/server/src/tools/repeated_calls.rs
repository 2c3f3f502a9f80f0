//! Leaves out a call that says again what the call before it said.
//!
//! Small models at temperature 0 tend to write the same call until their tokens run out. A call is
//! held back while it is a beginning of the one before it, so a call of its own is still streamed.

use super::call_segment::CallSegment;

/// So many repeats in a row are a loop that will not end by itself.
const LOOP: usize = 3;

#[derive(Default)]
pub struct RepeatedCalls {
    last: Option<Call>,
    current: Option<Call>,
    /// Parts of the current call that are not given yet.
    held: Vec<CallSegment>,
    repeats: usize,
}

#[derive(Default, PartialEq)]
struct Call {
    name: String,
    arguments: String,
}

impl RepeatedCalls {
    /// The segments without repeated calls. What is held comes out when the call turns out
    /// different.
    pub fn filter(&mut self, segments: Vec<CallSegment>) -> Vec<CallSegment> {
        let mut given = Vec::with_capacity(segments.len());
        for segment in segments {
            match segment {
                CallSegment::Call { name } => {
                    self.end_call();
                    self.current = Some(Call { name: name.clone(), arguments: String::new() });
                    self.give(CallSegment::Call { name }, &mut given);
                }
                CallSegment::Arguments(text) => {
                    if let Some(call) = &mut self.current {
                        call.arguments.push_str(&text);
                    }
                    self.give(CallSegment::Arguments(text), &mut given);
                }
                CallSegment::Text(_) => {
                    self.end_call();
                    given.push(segment);
                }
            }
        }
        given
    }

    /// What is held of a call that was cut; nothing where a loop was, whose next round it began.
    pub fn finish(&mut self) -> Vec<CallSegment> {
        if self.current == self.last || self.is_loop() {
            self.held.clear();
        }
        std::mem::take(&mut self.held)
    }

    /// Whether the same call has come again and again.
    pub fn is_loop(&self) -> bool {
        self.repeats >= LOOP
    }

    fn give(&mut self, segment: CallSegment, given: &mut Vec<CallSegment>) {
        self.held.push(segment);
        if !self.may_be_repeat() {
            self.repeats = 0;
            given.append(&mut self.held);
        }
    }

    fn may_be_repeat(&self) -> bool {
        match (&self.last, &self.current) {
            (Some(last), Some(call)) => {
                last.name == call.name && last.arguments.starts_with(&call.arguments)
            }
            _ => false,
        }
    }

    /// The call before is complete: the next is compared with it.
    fn end_call(&mut self) {
        let Some(call) = self.current.take() else { return };
        if self.last.as_ref() == Some(&call) {
            self.repeats += 1;
            self.held.clear();
        }
        self.last = Some(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> CallSegment {
        CallSegment::Call { name: name.to_owned() }
    }

    fn arguments(text: &str) -> CallSegment {
        CallSegment::Arguments(text.to_owned())
    }

    #[track_caller]
    fn check(deltas: Vec<Vec<CallSegment>>, want: Vec<CallSegment>) {
        let mut filter = RepeatedCalls::default();
        let mut given: Vec<_> =
            deltas.into_iter().flat_map(|segments| filter.filter(segments)).collect();
        given.extend(filter.finish());
        assert_eq!(given, want);
    }

    #[test]
    fn identical_consecutive_calls_are_not_sent_twice() {
        let one = || vec![call("f"), arguments("{\"a\""), arguments(": 1}")];
        check(vec![one(), one(), one()], one());
        let other = || vec![call("g"), arguments("{}")];
        check(vec![one(), other(), one()], [one(), other(), one()].concat());
    }

    #[test]
    fn a_call_that_turns_out_different_is_given_whole() {
        let first = || vec![call("f"), arguments("{\"a\": 1}")];
        let second = || vec![call("f"), arguments("{\"a\": "), arguments("2}")];
        check(vec![first(), second()], [first(), second()].concat());
        // A beginning of the call before it, cut by the end of the output, is a call of its own.
        let begun = || vec![call("f"), arguments("{\"a\"")];
        check(vec![first(), begun()], [first(), begun()].concat());
    }

    #[test]
    fn a_loop_is_seen() {
        let mut filter = RepeatedCalls::default();
        for _ in 0..LOOP + 1 {
            assert!(!filter.is_loop());
            filter.filter(vec![call("f"), arguments("{}")]);
        }
        filter.filter(vec![call("f")]);
        assert!(filter.is_loop());
    }

    #[test]
    fn the_next_round_of_a_loop_is_not_given_as_a_cut_call() {
        let one = || vec![call("f"), arguments("{\"a\": 1}")];
        let begun = vec![call("f"), arguments("{\"")];
        let mut deltas = vec![one(); LOOP + 1];
        deltas.push(begun);
        check(deltas, one());
    }
}
