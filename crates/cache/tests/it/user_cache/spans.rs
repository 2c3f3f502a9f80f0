//! A request that begins at a position must go on from what is cached.

use serde_json::Value;
use terrace_cache::users::check_start;
use terrace_testkit::golden_set;

#[test]
fn requests_go_on_where_the_cache_ends_or_are_refused_in_the_originals_words() {
    let text = std::fs::read_to_string(golden_set("hstu").join("kv_traces.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let cases = golden["append_contract"]["cases"].as_array().expect("a list");
    assert!(!cases.is_empty());
    for case in cases {
        let count = |key: &str| case[key].as_u64().expect("a count") as usize;
        let found =
            check_start(count("cached_start") + count("cached_length"), count("input_start"));
        let want = match case["result"].as_str().expect("a text") {
            "ok" => None,
            result => {
                let what = if result == "missing" { "missing" } else { "overlapping" };
                let (first, last) = (count("first"), count("last"));
                Some(format!(
                    "The input sequence has {what} tokens from {first} to {last} (both inclusive)."
                ))
            }
        };
        assert_eq!(found.err().map(|error| error.to_string()), want, "{case}");
    }
}
