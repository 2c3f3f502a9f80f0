//! Every number of every route at its extremes: refused with its name, or answered; never a failure
//! of the server's own, and nothing is built from a number before it is checked.

use super::generating::Service;
use super::*;
use crate::docs::tests::{document, full_bodies, operations, schema_of};

const EXTREMES: [&str; 17] = [
    "0",
    "1",
    "-1",
    "2",
    "1000000000",
    "2147483647",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1e30",
    "1e400",
    "-1e400",
];

/// The paths of all numbers of an object, those of objects within included.
fn numbers(document: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    let schema = schema_of(document, schema);
    for part in ["allOf", "oneOf", "anyOf"].iter().filter_map(|key| schema[key].as_array()) {
        part.iter().for_each(|part| numbers(document, part, path, found));
    }
    let is = |kind: &str| match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|known| known == kind),
        known => known == kind,
    };
    if !path.is_empty() && (is("integer") || is("number")) {
        found.push(path.to_owned());
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        numbers(document, field, &path, found);
    }
}

/// The body with the number at the path; text, because JSON values cannot hold all of these.
fn with_number(body: &Value, path: &str, number: &str) -> String {
    const MARK: &str = "\"the number\"";
    let mut body = body.clone();
    let mut field = &mut body;
    for name in path.split('.') {
        field = &mut field[name];
    }
    *field = json!("the number");
    if path.starts_with("stream_options") {
        body["stream"] = json!(true);
    }
    body.to_string().replace(MARK, number)
}

#[tokio::test]
async fn every_number_is_checked_before_it_is_used() {
    let document = document().await;
    let service = Service::start(ServerConfig::default());
    let mut tried = 0;
    for (path, _, about) in operations(&document) {
        let schema = &about["requestBody"]["content"]["application/json"]["schema"];
        if schema.is_null() {
            continue;
        }
        let mut fields = Vec::new();
        numbers(&document, schema, "", &mut fields);
        for (field, extreme) in fields.iter().flat_map(|f| EXTREMES.map(|extreme| (f, extreme))) {
            let mut body = full_bodies(path).swap_remove(0);
            if field != "max_tokens" && fields.iter().any(|known| known == "max_tokens") {
                body["max_tokens"] = json!(2);
            }
            let request = json_request(path, with_number(&body, field, extreme));
            let response = service.send(request).await;
            let status = response.status();
            let text = text_of(response).await;
            assert!(
                [200, 201, 400, 404].contains(&status.as_u16()),
                "{path} {field} {extreme}: {status} {text}"
            );
            tried += 1;
        }
    }
    assert!(tried > 500, "only {tried} numbers were tried");
}
