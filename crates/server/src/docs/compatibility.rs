//! `docs/compatibility.md` against the code: every row is tried, and no field is missing.
//!
//! A row's example is sent with an otherwise good request to a model that is not there. What acts
//! or is accepted gets as far as the missing model; what is refused does not, and is named.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::tests::{document, full_bodies, is_all_right, names_its_model, operations, properties};
use crate::fields::tests::TAKEN;
use crate::router::tests::{json_request, send, text_of};
use crate::server_config::ServerConfig;

const PAGE: &str = include_str!("../../../../docs/compatibility.md");

/// What a row says about a field.
struct Row<'a> {
    field: &'a str,
    /// Fields to send, the row's own among them.
    example: Map<String, Value>,
    here: &'a str,
}

/// The rows of each route's table; a heading may name several routes.
fn tables() -> BTreeMap<&'static str, Vec<Row<'static>>> {
    let mut tables: BTreeMap<_, Vec<Row<'_>>> = BTreeMap::new();
    let mut routes = Vec::new();
    for line in PAGE.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            let named = heading.split('`').filter_map(|part| part.strip_prefix("POST "));
            routes = named.collect();
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        for &route in &routes {
            tables.entry(route).or_default().push(Row::parse(row));
        }
    }
    tables
}

impl<'a> Row<'a> {
    /// "field` | `example` | here | …"
    fn parse(line: &'a str) -> Self {
        let mut cells = line.split(" | ");
        let field = cells.next().expect("a field").trim_end_matches('`');
        let example = cells.next().expect("an example").trim_matches('`');
        let example = serde_json::from_str(&format!("{{{example}}}"))
            .unwrap_or_else(|error| panic!("{field}: {example}: {error}"));
        Row { field, example, here: cells.next().expect("a verdict") }
    }
}

/// What is wrong with a row.
async fn problem(route: &str, row: &Row<'_>) -> Option<String> {
    // A route may have several kinds of bodies, which the example tells apart.
    let mut bodies = full_bodies(route);
    let is_like = |body: &Value| row.example.keys().any(|name| body.get(name).is_some());
    let found = bodies.iter().position(is_like);
    let mut body = bodies.swap_remove(found.unwrap_or(0));
    for (name, value) in &row.example {
        body[name] = value.clone();
    }
    if row.field != "model" && names_its_model(route) {
        body["model"] = "none".into();
    }
    TAKEN.take();
    let response = send(ServerConfig::default(), json_request(route, body.to_string())).await;
    let is_right = is_all_right(route, response.status());
    let (status, text) = (response.status().as_u16(), text_of(response).await);
    let taken = TAKEN.take().contains(row.field);
    let is_so = match row.here {
        "acts" => is_right && taken,
        "accepted" => is_right && !taken,
        "refused" => status == 400 && text.contains(row.field),
        _ => false,
    };
    let (field, here) = (row.field, row.here);
    (!is_so).then(|| format!("{route}: {field} is not {here:?}: {status} {text}"))
}

#[tokio::test]
async fn every_row_of_the_compatibility_page_is_true() {
    let mut problems = Vec::new();
    for (route, rows) in tables() {
        for row in rows {
            problems.extend(problem(route, &row).await);
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test]
async fn routes_that_the_page_says_are_not_there_are_not() {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `/") && line.contains("| 404"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let routes: Vec<_> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(routes.len() > 5, "{routes:?}");
    for route in routes {
        let response = send(ServerConfig::default(), json_request(route, "{}")).await;
        assert!(text_of(response).await.contains("nothing is at"), "{route}");
    }
}

#[tokio::test]
async fn every_field_is_on_the_compatibility_page() {
    let document = document().await;
    let tables = tables();
    for (path, _, about) in operations(&document) {
        let schema = &about["requestBody"]["content"]["application/json"]["schema"];
        if schema.is_null() {
            assert!(PAGE.contains(path.split("/{").next().expect("a first part")), "{path}");
            continue;
        }
        let rows = tables.get(path).unwrap_or_else(|| panic!("{path} has no table"));
        for field in properties(&document, schema) {
            let acts = rows.iter().any(|row| row.field == field && row.here == "acts");
            assert!(acts, "{path}: {field} acts, and the page does not say so");
        }
    }
}
