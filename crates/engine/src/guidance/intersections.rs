//! Where a schema holds one text to several expressions, and how much that could cost.
//!
//! `pattern`, `format` and lengths of one schema are intersected, and so is all that `allOf`,
//! `$ref` and their neighbours say about the same place. Options of one `anyOf` or `oneOf` are
//! alternatives: the worst of them counts.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::branch_count::{Branches, ByteSets};
use super::schema_walk::resolve;

/// Expressions that one text is held to: a pattern, a format, a length, and one more.
const MAX_EXPRESSIONS: usize = 4;
/// Combinations of their ways to go on with a byte. A pattern with a format needs up to some
/// dozen; from 250 on compiling takes seconds.
pub(super) const MAX_COMBINATIONS: u64 = 200;
/// Of the formats that are checked, `uri` has most sets with a digit.
const FORMAT_BRANCHES: u64 = 12;
/// Places of a text that are looked at. Each is looked at once, so only schemas that refer to
/// themselves in many ways at once come near it.
const MAX_PLACES: usize = 20_000;

pub(super) fn check_intersections(schema: &Value) -> Result<(), String> {
    let mut places = Places { document: schema, seen: HashSet::new(), left: MAX_PLACES };
    places.check(vec![schema])
}

struct Places<'a> {
    document: &'a Value,
    /// The sets of schemas that were looked at, by the addresses of the schemas.
    seen: HashSet<Vec<*const Value>>,
    left: usize,
}

/// What all schemas of a place say together.
struct Together<'a> {
    expressions: usize,
    branches: Branches,
    objects: Vec<&'a Map<String, Value>>,
    /// The choices that each `anyOf` or `oneOf` leaves.
    choices: Vec<&'a Vec<Value>>,
}

impl<'a> Places<'a> {
    /// `schemas`: all that is said about one place.
    fn check(&mut self, schemas: Vec<&'a Value>) -> Result<(), String> {
        let mut key: Vec<*const Value> = schemas.iter().map(|schema| *schema as *const _).collect();
        key.sort_unstable();
        key.dedup();
        if !self.seen.insert(key) {
            return Ok(());
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            format!("the schema's parts meet in more than {MAX_PLACES} ways, the limit")
        })?;
        let together = self.gather(&schemas);
        together.check()?;
        // One choice at a time; where there are several, all of the others are taken together.
        for (index, options) in together.choices.iter().enumerate() {
            for option in *options {
                let others = together.choices.iter().enumerate();
                let others = others.filter(|(other, _)| *other != index);
                let others = others.flat_map(|(_, options)| options.iter());
                let chosen: Vec<_> = others.chain([option]).collect();
                let all = [schemas.as_slice(), &chosen].concat();
                let all = self.gather(&all);
                all.check()?;
                self.check_inner(&all)?;
            }
        }
        self.check_inner(&together)
    }

    fn check_inner(&mut self, together: &Together<'a>) -> Result<(), String> {
        together.inner_places().into_iter().try_for_each(|schemas| self.check(schemas))
    }

    /// Follows `allOf` and `$ref`.
    fn gather(&self, schemas: &[&'a Value]) -> Together<'a> {
        let mut together = Together {
            expressions: 0,
            branches: [1; 256],
            objects: Vec::new(),
            choices: Vec::new(),
        };
        let (mut open, mut seen) = (schemas.to_vec(), Vec::new());
        while let Some(schema) = open.pop() {
            let Value::Object(fields) = schema else { continue };
            if seen.contains(&(schema as *const Value)) {
                continue;
            }
            seen.push(schema as *const Value);
            together.add(fields);
            let list = |key: &str| fields.get(key).and_then(Value::as_array);
            open.extend(list("allOf").into_iter().flatten());
            together.choices.extend(["anyOf", "oneOf"].iter().filter_map(|key| list(key)));
            let reference = fields.get("$ref").and_then(Value::as_str);
            open.extend(reference.and_then(|reference| resolve(self.document, reference)));
        }
        together
    }
}

impl<'a> Together<'a> {
    fn add(&mut self, fields: &'a Map<String, Value>) {
        if let Some(pattern) = fields.get("pattern").and_then(Value::as_str) {
            // A pattern may match anywhere in a text, so there is any text around it.
            let around =
                if pattern.starts_with('^') && pattern.ends_with('$') { "" } else { "(?s:.)" };
            let mut sets = ByteSets::of_regex(pattern);
            sets.extend(&ByteSets::of_regex(around));
            self.multiply(&sets.branches());
        }
        if fields.contains_key("format") {
            let mut branches = [1; 256];
            branches[b' ' as usize..0x7f].fill(FORMAT_BRANCHES);
            self.multiply(&branches);
        }
        if fields.contains_key("minLength") || fields.contains_key("maxLength") {
            self.expressions += 1;
        }
        self.objects.push(fields);
    }

    fn multiply(&mut self, branches: &Branches) {
        self.expressions += 1;
        for (product, count) in self.branches.iter_mut().zip(branches) {
            *product = product.saturating_mul(*count);
        }
    }

    fn check(&self) -> Result<(), String> {
        let (expressions, ways) = (self.expressions, self.branches.iter().max().unwrap_or(&1));
        if MAX_EXPRESSIONS < expressions {
            return Err(format!(
                "the schema holds one text to {expressions} expressions (patterns, formats and \
                 lengths), the limit is {MAX_EXPRESSIONS}"
            ));
        }
        if 1 < expressions && MAX_COMBINATIONS < *ways {
            return Err(format!(
                "the schema holds one text to expressions that combine in {ways} ways, the limit \
                 is {MAX_COMBINATIONS}; make its patterns simpler or fewer"
            ));
        }
        Ok(())
    }

    /// What is said about each place inside. A property's schemas meet across objects, never
    /// within one.
    fn inner_places(&self) -> Vec<Vec<&'a Value>> {
        let mut places: Vec<Vec<&Value>> = Vec::new();
        let names = self.objects.iter().filter_map(|object| object.get("properties")?.as_object());
        let names: HashSet<&String> = names.flat_map(|properties| properties.keys()).collect();
        for name in names {
            let said = self.objects.iter().flat_map(|object| match &object.get("properties") {
                Some(Value::Object(properties)) if properties.contains_key(name) => {
                    vec![&properties[name]]
                }
                _ => schemas_under(object, &OTHER_PROPERTIES),
            });
            places.push(said.collect());
        }
        for keys in [&OTHER_PROPERTIES[..], &ITEMS] {
            let said = self.objects.iter().map(|object| schemas_under(object, keys));
            let mut said: Vec<_> = said.filter(|schemas| !schemas.is_empty()).collect();
            match said.len() {
                1 => places.extend(said.remove(0).into_iter().map(|schema| vec![schema])),
                _ => places.push(said.concat()),
            }
        }
        places
    }
}

const OTHER_PROPERTIES: [&str; 2] = ["patternProperties", "additionalProperties"];
const ITEMS: [&str; 3] = ["items", "prefixItems", "additionalItems"];

fn schemas_under<'a>(object: &'a Map<String, Value>, keys: &[&str]) -> Vec<&'a Value> {
    let schemas = keys.iter().filter_map(|key| Some((key, object.get(*key)?)));
    let schemas = schemas.flat_map(|(key, value)| match value {
        Value::Object(map) if *key == "patternProperties" => map.values().collect(),
        Value::Array(schemas) => schemas.iter().collect(),
        schema => vec![schema],
    });
    schemas.filter(|schema| schema.is_object()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patterns(count: usize) -> Value {
        let part = |n| json!({"type": "string", "pattern": format!(".*a.{{{}}}", 20 + n)});
        json!((0..count).map(part).collect::<Vec<_>>())
    }

    #[track_caller]
    fn check_refused(schema: Value, want: &str) {
        let error = check_intersections(&schema).expect_err("too many");
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn patterns_that_meet_are_counted() {
        check_refused(json!({"allOf": patterns(20)}), "20 expressions");
        check_refused(json!({"items": {"allOf": patterns(5)}}), "5 expressions");
        let part = |n: usize| json!({"properties": {"a": patterns(9)[n]}});
        check_refused(json!({"allOf": (0..5).map(part).collect::<Vec<_>>()}), "5 expressions");
        let other = json!({"additionalProperties": {"allOf": patterns(4)}});
        check_refused(json!({"allOf": [part(5), other]}), "5 expressions");
        let chain =
            |n: usize| json!({"pattern": format!("a{n}"), "$ref": format!("#/$defs/{}", n + 1)});
        let defs: Map<String, Value> = (0..9).map(|n| (n.to_string(), chain(n))).collect();
        check_refused(json!({"$ref": "#/$defs/0", "$defs": defs}), "9 expressions");
        let alike = "[ab][bc][a-d][a-e][a-f][b-x][b-y][b-z][a-z][a-y][a-w][a-v][a-u][b-u][b-t]";
        let both = json!({"pattern": alike, "allOf": [{"pattern": format!("x{alike}")}]});
        check_refused(both, "ways, the limit is 200");
    }

    #[test]
    fn ordinary_schemas_pass() {
        let text = |pattern: &str| json!({"type": "string", "pattern": pattern});
        let mail = r"^\w+([\.-]?\w+)*@\w+([\.-]?\w+)*(\.\w{2,})+$";
        let mail = json!({"pattern": mail, "format": "email", "minLength": 6, "maxLength": 80});
        let link = json!({"pattern": "^https?://[a-z0-9.-]+(:[0-9]+)?/.*", "format": "uri"});
        let names: Map<String, Value> =
            (0..30).map(|n| (format!("p{n}"), text(&format!("^[a-z]{{{n}}}[0-9]$")))).collect();
        let many: Vec<Value> = (0..30).map(|n| text(&format!("^[a-z]{{{n}}}[0-9]$"))).collect();
        for schema in [
            json!({"properties": {"mail": mail, "link": link}}),
            json!({"properties": names, "additionalProperties": text("^x+$")}),
            json!({"patternProperties": names, "additionalProperties": text("^x+$")}),
            json!({"anyOf": many}),
            json!({"prefixItems": many, "items": text("a")}),
            json!({"allOf": [{"properties": names}, {"properties": {"q": text("a")}}]}),
            json!({"anyOf": [{"properties": names}, {"properties": names}, {"$ref": "#"}]}),
            json!({"$ref": "#"}),
            json!(true),
        ] {
            assert_eq!(check_intersections(&schema), Ok(()), "{schema}");
        }
    }
}
