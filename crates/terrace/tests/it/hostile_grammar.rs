//! Grammars written to be slow or large, from a seed.

use serde_json::{Map, Value, json};
use terrace_testkit::Rng;

/// The fields of a request that ask for one.
pub fn hostile_grammar(rng: &mut Rng) -> Value {
    match rng.below(12) {
        0 => json!({"guided_regex": nested_counts(rng)}),
        1 => json!({"guided_regex": look_back(rng)}),
        2 => json!({"guided_json": all_of_any_of(rng)}),
        3 => json!({"guided_json": patterns_together(rng)}),
        4 => json!({"guided_json": references(rng)}),
        5 => json!({"guided_json": deep(rng)}),
        6 => json!({"guided_json": {"enum": (0..rng.below(6_000)).collect::<Vec<_>>()}}),
        7 => json!({"guided_json": {"type": "array", "minItems": rng.below(1 << 40)}}),
        8 => json!({"guided_grammar": intersection(rng)}),
        9 => json!({"guided_grammar": negation(rng)}),
        10 => json!({"guided_grammar": ambiguous(rng)}),
        _ => json!({"guided_grammar": long_alternation(rng)}),
    }
}

/// The schema that took minutes and 9 GB.
pub fn twenty_patterns() -> Value {
    let pattern = |n| json!({"type": "string", "pattern": format!(".*a.{{{n}}}")});
    json!({"allOf": (20..40).map(pattern).collect::<Vec<_>>()})
}

/// The fields of a request whose grammar takes longer to compile than it may, and that nothing but
/// its time gives away.
pub fn endless() -> Value {
    let operands: Vec<_> = (40..44).map(|n| format!("/(z|.*a.{{{n}}})/")).collect();
    json!({"guided_grammar": format!("start: A\nA: {}", operands.join(" & "))})
}

fn nested_counts(rng: &mut Rng) -> String {
    let mut regex = (*rng.pick(&["a", "[a-z]", "(a|b|ab)", "."])).to_owned();
    for _ in 0..1 + rng.below(4) {
        regex = format!("({regex}){{{},{}}}", rng.below(3), 3 + rng.below(1_000));
    }
    regex
}

fn look_back(rng: &mut Rng) -> String {
    let part = |letter: char, rng: &mut Rng| format!(".*{letter}.{{{}}}", 5 + rng.below(300));
    let parts: Vec<_> = ('a'..='f').map(|letter| part(letter, rng)).collect();
    parts[..1 + rng.below(6)].join("|")
}

fn multiplied_options(options: usize, factors: usize) -> Value {
    let option = |factor: usize, n: usize| {
        let name = format!("p{factor}_{n}");
        json!({"properties": {&name: {"type": "string"}}, "required": [name]})
    };
    let factor = |factor: usize| {
        let options: Vec<_> = (0..options).map(|n| option(factor, n)).collect();
        json!({"anyOf": options})
    };
    json!({"allOf": (0..factors).map(factor).collect::<Vec<_>>()})
}

fn all_of_any_of(rng: &mut Rng) -> Value {
    multiplied_options(2 + rng.below(20), 2 + rng.below(4))
}

fn patterns_together(rng: &mut Rng) -> Value {
    let letters = ["a", "b", "[a-c]", "[b-d]"];
    let pattern = |rng: &mut Rng| {
        let pattern = format!("(z|.*{}.{{{}}})", rng.pick(&letters), 1 + rng.below(60));
        json!({"type": "string", "pattern": pattern, "minLength": rng.below(2_000)})
    };
    let parts = 2 + rng.below(3);
    json!({"allOf": (0..parts).map(|_| pattern(rng)).collect::<Vec<_>>()})
}

fn references(rng: &mut Rng) -> Value {
    let count = 2 + rng.below(60);
    let mut definitions = Map::new();
    for index in 0..count {
        let one = format!("#/$defs/n{}", (index + 1) % count);
        let other = format!("#/$defs/n{}", rng.below(count));
        let kind = *rng.pick(&["allOf", "anyOf", "oneOf"]);
        let schema = json!({kind: [{"$ref": one}, {"$ref": other}, {"type": "object"}]});
        definitions.insert(format!("n{index}"), schema);
    }
    json!({"$ref": "#/$defs/n0", "$defs": definitions})
}

fn deep(rng: &mut Rng) -> Value {
    let mut schema = json!({"type": "null"});
    for _ in 0..rng.below(40) {
        schema = match rng.below(3) {
            0 => json!({"type": "array", "items": schema, "maxItems": rng.below(50)}),
            1 => json!({"type": "object", "properties": {"a": schema}}),
            _ => json!({"anyOf": [schema, {"type": "string", "maxLength": rng.below(1 << 20)}]}),
        };
    }
    schema
}

fn intersection(rng: &mut Rng) -> String {
    let operand = |rng: &mut Rng| format!("/(z|.*[a-c].{{{}}})/", 1 + rng.below(80));
    let operands: Vec<_> = (0..2 + rng.below(6)).map(|_| operand(rng)).collect();
    format!("start: A B?\nA: {}\nB: A \"x\" & A \"y\"", operands.join(" & "))
}

fn negation(rng: &mut Rng) -> String {
    let (first, second) = (1 + rng.below(40), 1 + rng.below(40));
    format!("start: A\nA: /[a-z ]*/ & ~/(.*a.{{{first}}})|(.*b.{{{second}}})/")
}

fn ambiguous(rng: &mut Rng) -> String {
    let word = rng.pick(&["\"a\"", "/[a-z]+/", "/.*/"]);
    let body = "start ".repeat(2 + rng.below(6));
    format!("start: {body}| \"\" | {word} | start {word} start")
}

fn long_alternation(rng: &mut Rng) -> String {
    let words: Vec<_> = (0..rng.below(1_500)).map(|n| format!("/{n}+/")).collect();
    format!("start: \"x\" | {} \"y\"", words.join("|"))
}
