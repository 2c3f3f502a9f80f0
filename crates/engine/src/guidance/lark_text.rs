//! What can be seen in a Lark grammar without compiling it: intersections, and schemas inside.

use std::collections::HashMap;

use serde_json::Value;

use super::branch_count::ByteSets;
use super::intersections::MAX_COMBINATIONS;

/// Intersections whose operands are looked at.
const MAX_EXPRESSIONS: usize = 4;

/// Refuses intersections (`&`) that could grow beyond any fuel.
pub(super) fn check_lark(text: &str) -> Result<(), String> {
    let definitions = definitions(text);
    let mut costs = HashMap::new();
    let intersect = |(_, tokens): &(&String, &Vec<Token>)| tokens.contains(&Token::And);
    let mut names: Vec<_> = definitions.iter().filter(intersect).map(|(name, _)| name).collect();
    names.sort_unstable();
    for name in names {
        let Cost { expressions, ways, .. } = cost(name, &definitions, &mut costs, 0);
        if MAX_EXPRESSIONS < expressions {
            return Err(format!(
                "{name} intersects {expressions} expressions (&), the limit is {MAX_EXPRESSIONS}"
            ));
        }
        if 1 < expressions && MAX_COMBINATIONS < ways {
            return Err(format!(
                "{name} intersects expressions (&) that combine in {ways} ways, the limit is \
                 {MAX_COMBINATIONS}"
            ));
        }
    }
    Ok(())
}

/// The schemas that follow `%json`.
pub(super) fn schemas_in_lark(text: &str) -> Vec<Value> {
    let schemas = tokens(text).into_iter().filter_map(|token| match token {
        Token::Json(schema) => Some(schema),
        _ => None,
    });
    schemas.collect()
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Regex(String),
    Json(Value),
    And,
    Colon,
    Other(char),
}

#[derive(Clone, Default)]
struct Cost {
    /// Operands that meet, those of operands included.
    expressions: usize,
    /// Combinations of their ways to go on with a byte.
    ways: u64,
    sets: ByteSets,
}

/// Names lead to one another at most so deep; the compiler refuses words that turn in circles.
const MAX_DEPTH: usize = 64;

fn cost(
    name: &str,
    definitions: &HashMap<String, Vec<Token>>,
    known: &mut HashMap<String, Cost>,
    depth: usize,
) -> Cost {
    if let Some(cost) = known.get(name) {
        return cost.clone();
    }
    let none = Vec::new();
    let tokens = definitions.get(name).filter(|_| depth < MAX_DEPTH).unwrap_or(&none);
    let mut whole = Cost { expressions: 0, ways: 1, sets: ByteSets::default() };
    let operands = tokens.split(|token| *token == Token::And);
    for operand in operands {
        let (mut expressions, mut ways, mut sets) = (1, 1, ByteSets::default());
        for token in operand {
            match token {
                Token::Text(text) => sets.extend(&ByteSets::of_text(text)),
                Token::Regex(regex) => sets.extend(&ByteSets::of_regex(regex)),
                Token::Name(inner) => {
                    let inner = cost(inner, definitions, known, depth + 1);
                    expressions = expressions.max(inner.expressions);
                    ways = ways.max(inner.ways);
                    sets.extend(&inner.sets);
                }
                _ => {}
            }
        }
        let own = sets.branches().into_iter().max().unwrap_or(1);
        whole.expressions += expressions;
        whole.ways = whole.ways.saturating_mul(ways.max(own));
        whole.sets.extend(&sets);
    }
    known.insert(name.to_owned(), whole.clone());
    whole
}

/// The tokens of each rule and word, by its name; names that are defined twice are one.
fn definitions(text: &str) -> HashMap<String, Vec<Token>> {
    let tokens = tokens(text);
    let mut definitions: HashMap<String, Vec<Token>> = HashMap::new();
    let mut current = String::new();
    for (index, token) in tokens.iter().enumerate() {
        match (token, tokens.get(index + 1)) {
            (Token::Name(name), Some(Token::Colon)) => current.clone_from(name),
            (Token::Name(name), Some(Token::Other('['))) if defines(&tokens[index + 1..]) => {
                current.clone_from(name);
            }
            (token, _) => definitions.entry(current.clone()).or_default().push(token.clone()),
        }
    }
    definitions
}

/// Whether attributes in brackets and a colon follow, as in `name[lazy]: …`.
fn defines(rest: &[Token]) -> bool {
    let end = rest.iter().position(|token| *token == Token::Other(']'));
    end.is_some_and(|end| rest.get(end + 1) == Some(&Token::Colon))
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, bytes) = token(rest, first);
        tokens.extend(token);
        rest = &rest[bytes..];
    }
    tokens
}

/// The token at the beginning of `rest`, if it is one, and how many bytes it takes.
fn token(rest: &str, first: char) -> (Option<Token>, usize) {
    let is_comment = rest.starts_with("//") || first == '#';
    match first {
        _ if is_comment => (None, rest.find('\n').unwrap_or(rest.len())),
        c if c.is_whitespace() => (None, c.len_utf8()),
        '"' => {
            let bytes = quoted(rest, '"');
            let text: Option<String> = serde_json::from_str(&rest[..bytes]).ok();
            (Some(Token::Text(text.unwrap_or_else(|| rest[..bytes].to_owned()))), bytes)
        }
        '/' => {
            let bytes = quoted(rest, '/');
            let regex = rest[..bytes].trim_matches('/').replace("\\/", "/");
            (Some(Token::Regex(regex)), bytes)
        }
        '%' if rest.starts_with("%json") => {
            let after = &rest["%json".len()..];
            let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
            match values.next() {
                Some(Ok(schema)) => {
                    (Some(Token::Json(schema)), "%json".len() + values.byte_offset())
                }
                _ => (None, "%json".len()),
            }
        }
        '&' => (Some(Token::And), 1),
        ':' => (Some(Token::Colon), 1),
        c if c.is_alphabetic() || c == '_' => {
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
            let bytes = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            (Some(Token::Name(rest[..bytes].to_owned())), bytes)
        }
        c => (Some(Token::Other(c)), c.len_utf8()),
    }
}

/// Bytes up to the closing quote, which a backslash takes its meaning.
fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_refused(text: &str, want: &str) {
        let error = check_lark(text).expect_err("too many");
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn intersections_are_counted_through_names() {
        let operands: Vec<_> = (20..40).map(|n| format!("/.*a.{{{n}}}/")).collect();
        check_refused(&format!("start: A\nA: {}", operands.join(" & ")), "A intersects 20");
        let chain = "start: C\nA: /a/ & /b/\nB: A \"x\" & A \"y\"\nC: B \"x\" & B \"y\"";
        check_refused(chain, "C intersects 8");
        let nested = "start: A\nA[lazy]: (B & /x+/) | C\nB: /a/ & /b/ & /c/\nC: /d/ & /e/";
        check_refused(nested, "A intersects 5");
    }

    #[test]
    fn ordinary_grammars_pass() {
        for text in [
            "start: A\nA: /[a-z]+/ & ~/if|else/ // not & a & word & of & its & own",
            "start: A B C\nA: \"&&&&&&&\"\nB: /&&&&&&/\nC: B | A",
            "start: start start | \"a\"",
            "",
        ] {
            assert_eq!(check_lark(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn schemas_are_found() {
        let text = r#"start: %json {"type": "null"} "%json {}" a
            a: %json {"enum": ["}"]} %json"#;
        assert_eq!(schemas_in_lark(text), [json!({"type": "null"}), json!({"enum": ["}"]})]);
    }
}
