//! Stop strings in and across pieces, by example and against the whole text.

use proptest::prelude::*;

use super::{Shown, StopStrings};
use crate::text::TokenInfo;
use terrace_cache::TokenId;

fn token(id: usize) -> TokenInfo {
    TokenInfo { id: id as TokenId, logprobs: None }
}

/// Pushes the pieces until a stop, then the rest; one `Shown` for each call.
fn shown(pieces: &[&str], stops: &[&str], shows_stop: bool) -> Vec<Shown> {
    let stops = stops.iter().map(|stop| stop.to_string()).collect();
    let mut held = StopStrings::new(stops, shows_stop);
    let mut all = Vec::new();
    for (id, piece) in pieces.iter().enumerate() {
        all.push(held.push(token(id), piece));
        if all[id].stop.is_some() {
            return all;
        }
    }
    all.push(held.finish(""));
    all
}

/// `want`: what each call shows, as "text ids", and after a bar the stop that ended it.
#[track_caller]
fn check(pieces: &[&str], stops: &[&str], want: &[&str]) {
    check_shown(shown(pieces, stops, false), want);
}

/// As `check`, where the stop string is part of the text.
#[track_caller]
fn check_with_stop(pieces: &[&str], stops: &[&str], want: &[&str]) {
    check_shown(shown(pieces, stops, true), want);
}

#[track_caller]
fn check_shown(shown: Vec<Shown>, want: &[&str]) {
    let line = |shown: &Shown| {
        let ids: Vec<String> = shown.tokens.iter().map(|token| token.id.to_string()).collect();
        let stop = shown.stop.as_ref().map_or(String::new(), |stop| format!("|{stop}"));
        format!("{} {}{stop}", shown.text, ids.join(","))
    };
    let got: Vec<String> = shown.iter().map(line).collect();
    assert_eq!(got, want);
}

#[test]
fn text_without_stops_passes() {
    check(&["he", "llo"], &[], &["he 0", "llo 1", " "]);
}

#[test]
fn a_stop_may_span_tokens() {
    check(&["one E", "N", "D two"], &["END"], &["one  0", " ", " |END"]);
}

#[test]
fn a_stop_may_lie_inside_a_token() {
    check(&["one END two"], &["END"], &["one  0|END"]);
}

#[test]
fn a_stop_is_shown_if_asked() {
    check_with_stop(&["one E", "N", "D two"], &["END"], &["one  0", " ", "END 1,2|END"]);
    check_with_stop(&["one END two"], &["END"], &["one END 0|END"]);
    check_with_stop(&["xab", "d"], &["ab", "xabc"], &[" ", "xab 0|ab"]);
    check_with_stop(&["xab"], &["ab", "xabc"], &[" ", "xab 0|ab"]);
    check_with_stop(&["1ab", "c"], &["abc", "ab"], &["1ab 0|ab"]);
    check_with_stop(&["a", "EN"], &["END"], &["a 0", " ", "EN 1"]);
}

#[test]
fn a_false_beginning_is_shown_when_it_is_known_to_be_one() {
    check(&["E", "N", "E", "x"], &["END"], &[" ", " ", "EN 0,1", "Ex 2,3", " "]);
}

#[test]
fn a_false_beginning_is_shown_at_the_end() {
    check(&["a", "EN"], &["END"], &["a 0", " ", "EN 1"]);
}

#[test]
fn the_stop_that_begins_first_wins_even_if_it_ends_last() {
    check(&["xab", "c"], &["ab", "xabc"], &[" ", " |xabc"]);
    check(&["xab", "d"], &["ab", "xabc"], &[" ", "x 0|ab"]);
    check(&["xab"], &["ab", "xabc"], &[" ", "x 0|ab"]);
}

#[test]
fn of_stops_at_one_place_the_shortest_is_named() {
    check(&["1abc"], &["abc", "ab"], &["1 0|ab"]);
    check(&["1ab", "c"], &["abc", "ab"], &["1 0|ab"]);
}

#[test]
fn tokens_without_text_go_with_the_text_after_them() {
    check(&["", "", "é", "", ""], &[], &[" ", " ", "é 0,1,2", " ", " ", " 3,4"]);
}

/// The whole text, cut before or after the first stop; the shortest stop there.
fn naive<'a>(pieces: &[&str], stops: &[&'a str], shows_stop: bool) -> (String, Option<&'a str>) {
    let text = pieces.concat();
    let cut = stops.iter().filter_map(|stop| text.find(stop)).min();
    let Some(cut) = cut else { return (text, None) };
    let here = stops.iter().filter(|stop| text[cut..].starts_with(**stop));
    let stop = here.min_by_key(|stop| stop.len()).copied();
    let shown = if shows_stop { stop.map_or(0, str::len) } else { 0 };
    (text[..cut + shown].to_owned(), stop)
}

proptest! {
    #[test]
    fn pieces_give_what_the_whole_text_gives(
        pieces in prop::collection::vec("[abé]{0,4}", 0..12),
        stops in prop::collection::vec("[abé]{1,5}", 0..4),
        shows_stop: bool,
    ) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let (want, stop) = naive(&pieces, &stops, shows_stop);
        let all = shown(&pieces, &stops, shows_stop);

        let mut text = String::new();
        let mut ids = Vec::new();
        for (pushed, shown) in all.iter().enumerate() {
            text.push_str(&shown.text);
            ids.extend(shown.tokens.iter().map(|token| token.id as usize));
            prop_assert!(want.starts_with(&text), "{text:?} shows more than {want:?}");
            if pushed < pieces.len() && shown.stop.is_none() {
                let whole = pieces[..=pushed].concat();
                let held = &whole[text.len()..];
                let begins = |stop: &&str| stop.len() > held.len() && stop.starts_with(held);
                prop_assert!(held.is_empty() || stops.iter().any(begins), "{held:?} is held");
            }
        }
        prop_assert_eq!(&text, &want);
        prop_assert_eq!(all.last().and_then(|last| last.stop.as_deref()), stop);

        let starts = pieces.iter().scan(0, |end, piece| {
            let start = *end;
            *end += piece.len();
            Some(start)
        });
        let visible = starts.take_while(|&start| stop.is_none() || start < want.len());
        let want_ids: Vec<usize> = (0..visible.count()).collect();
        prop_assert_eq!(ids, want_ids);
    }
}
