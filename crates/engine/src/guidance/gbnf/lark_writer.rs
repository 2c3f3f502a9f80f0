//! Writes GBNF's rules in Lark.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use super::syntax::{Choices, Item, Repeat, Rule, Symbol};

pub(super) fn write(rules: &[Rule]) -> Result<String, String> {
    let names = names(rules)?;
    let Some(root) = names.get("root") else {
        return Err("there is no rule \"root\", where every text begins".into());
    };
    let mut lark = format!("start: {root}\n");
    for rule in rules {
        let _ = writeln!(lark, "{}: {}", names[rule.name.as_str()], choices(&rule.choices, &names));
    }
    Ok(lark)
}

/// How Lark calls each rule: words have capital letters.
fn names(rules: &[Rule]) -> Result<HashMap<&str, String>, String> {
    let mut uses: HashMap<&str, HashSet<&str>> = HashMap::new();
    for rule in rules {
        if uses.contains_key(rule.name.as_str()) {
            return Err(format!("{}: the rule {:?} is defined twice", rule.place, rule.name));
        }
        uses.insert(&rule.name, HashSet::new());
    }
    for rule in rules {
        let mut used = HashSet::new();
        collect_uses(&rule.choices, &uses, &mut used)?;
        uses.insert(&rule.name, used);
    }
    let words = words(&uses);
    let mut taken = HashSet::new();
    let name = |rule: &'_ Rule| {
        let plain = rule.name.replace('-', "_");
        let mut name = match words.contains(rule.name.as_str()) {
            true => format!("W_{}", plain.to_ascii_uppercase()),
            false => format!("r_{}", plain.to_ascii_lowercase()),
        };
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        name
    };
    Ok(rules.iter().map(|rule| rule.name.as_str()).zip(rules.iter().map(name)).collect())
}

fn collect_uses<'a>(
    choices: &'a Choices,
    known: &HashMap<&str, HashSet<&str>>,
    used: &mut HashSet<&'a str>,
) -> Result<(), String> {
    for item in choices.iter().flatten() {
        match &item.what {
            Symbol::Rule(name, place) if !known.contains_key(name.as_str()) => {
                return Err(format!("{place}: there is no rule {name:?}"));
            }
            Symbol::Rule(name, _) => drop(used.insert(name)),
            Symbol::Group(choices) => collect_uses(choices, known, used)?,
            Symbol::Text(_) | Symbol::Class { .. } | Symbol::AnyChar => {}
        }
    }
    Ok(())
}

/// The rules that lead to words only, from the innermost outwards; what is left turns in circles,
/// or leads to what does.
fn words<'a>(uses: &HashMap<&'a str, HashSet<&'a str>>) -> HashSet<&'a str> {
    let mut words = HashSet::new();
    loop {
        let more = uses.iter().filter(|(name, _)| !words.contains(*name));
        let more = more.filter(|(_, used)| used.is_subset(&words)).map(|(name, _)| *name);
        let more: Vec<&str> = more.collect();
        if more.is_empty() {
            return words;
        }
        words.extend(more);
    }
}

fn choices(choices: &Choices, names: &HashMap<&str, String>) -> String {
    let written: Vec<_> = choices.iter().map(|items| sequence(items, names)).collect();
    written.join(" | ")
}

fn sequence(items: &[Item], names: &HashMap<&str, String>) -> String {
    let written: Vec<_> = items.iter().map(|item| written(item, names)).collect();
    match written.is_empty() {
        true => "\"\"".to_owned(),
        false => written.join(" "),
    }
}

fn written(item: &Item, names: &HashMap<&str, String>) -> String {
    let what = match &item.what {
        Symbol::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        Symbol::AnyChar => "/(?s:.)/".to_owned(),
        Symbol::Class { is_negated, ranges } if ranges.is_empty() => {
            debug_assert!(is_negated, "an empty class is refused");
            "/(?s:.)/".to_owned()
        }
        Symbol::Class { is_negated, ranges } => {
            let range = |(first, last): &(char, char)| format!("{}-{}", code(*first), code(*last));
            let ranges: String = ranges.iter().map(range).collect();
            format!("/[{}{ranges}]/", if *is_negated { "^" } else { "" })
        }
        Symbol::Rule(name, _) => names[name.as_str()].clone(),
        Symbol::Group(inner) => format!("({})", choices(inner, names)),
    };
    match item.repeat {
        None => what,
        Some(Repeat { min: 0, max: None }) => format!("{what}*"),
        Some(Repeat { min: 1, max: None }) => format!("{what}+"),
        Some(Repeat { min: 0, max: Some(1) }) => format!("{what}?"),
        Some(Repeat { min, max: None }) => format!("{what}{{{min},}}"),
        Some(Repeat { min, max: Some(max) }) => format!("{what}{{{min},{max}}}"),
    }
}

/// A character inside a class, which no delimiter of either notation can be taken for.
fn code(c: char) -> String {
    match c.is_ascii_alphanumeric() {
        true => c.to_string(),
        false => format!("\\u{{{:x}}}", c as u32),
    }
}
