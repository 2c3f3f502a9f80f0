//! Which models' updates a level takes.
//!
//! Each filter is a regular expression for a whole model name; `^` and `$` in it are the ends of
//! the name. The last release put the filter into the middle of a pattern for topics, where its
//! own default `^hps_.+$` could never match; here it means what was meant: all models.

use regex::{RegexSet, RegexSetBuilder};
use regex_syntax::ast::parse::Parser;
use regex_syntax::parse;

use super::fields::Fields;
use super::scalar::shown;

#[derive(Clone, Debug)]
pub struct UpdateFilters {
    /// Each as it was written.
    filters: Vec<String>,
    names: RegexSet,
}

impl UpdateFilters {
    pub fn matches(&self, model: &str) -> bool {
        self.names.is_match(model)
    }

    /// The filters as they were written.
    pub fn filters(&self) -> &[String] {
        &self.filters
    }

    /// All models unless the file says otherwise.
    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let texts = fields.texts("update_filters");
        let given = texts.and_then(|texts| Self::parse(&texts, fields));
        given.unwrap_or_else(UpdateFilters::of_all)
    }

    /// All filters are compiled at once: one by one, each would have the memory and the time that
    /// they have together.
    fn parse(texts: &[(String, &str)], fields: &Fields<'_>) -> Option<Self> {
        let path = fields.path_of("update_filters");
        let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
        if bytes > BYTES_MAX {
            let allowed = format_args!("at most {BYTES_MAX} altogether; .+ matches all models");
            fields.wrong(&path, format_args!("filters of {bytes} bytes"), allowed);
            return None;
        }
        // By itself too: `a)(b` is only right within other parentheses.
        let is_right = |(_, text): &(String, &str)| Parser::new().parse(text).is_ok();
        let mut names = RegexSetBuilder::new(texts.iter().map(|(_, text)| whole(text)));
        let names = names.size_limit(COMPILED_BYTES_MAX).build().ok();
        match names.filter(|_| texts.iter().all(is_right)) {
            Some(names) => {
                let filters = texts.iter().map(|(_, text)| (*text).to_owned()).collect();
                Some(UpdateFilters { filters, names })
            }
            None => {
                report_wrong(texts, &path, fields);
                None
            }
        }
    }

    fn of_all() -> Self {
        let names = RegexSet::new([whole(".+")]).expect("a fixed pattern that is right");
        UpdateFilters { filters: vec![".+".to_owned()], names }
    }
}

impl PartialEq for UpdateFilters {
    fn eq(&self, other: &Self) -> bool {
        self.filters == other.filters
    }
}

/// What the last release's documents give as the default, and users have copied.
const RELEASE_DEFAULT: &str = "^hps_.+$";

/// Of all filters of a level: some hundred names of models. The most hostile ones of that size are
/// compiled in about a second.
const BYTES_MAX: usize = 8 << 10;
const COMPILED_BYTES_MAX: usize = 4 << 20;

fn whole(filter: &str) -> String {
    let filter = if filter == RELEASE_DEFAULT { ".+" } else { filter };
    format!("^(?:{filter})$")
}

/// Names what is no regular expression, by itself or as one for whole names.
fn report_wrong(texts: &[(String, &str)], path: &str, fields: &Fields<'_>) {
    let is_wrong = |text: &str| [text, &whole(text)].iter().any(|text| parse(text).is_err());
    let mut are_right = true;
    for (path, text) in texts.iter().filter(|(_, text)| is_wrong(text)) {
        fields.wrong(path, shown(text), "a regular expression for model names");
        are_right = false;
    }
    if are_right {
        let allowed = "fewer of them, or such with fewer repetitions";
        fields.wrong(path, "filters that take too much memory", allowed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::report::Report;
    use super::*;

    fn read(filters: Value) -> Result<UpdateFilters, String> {
        let value = json!({ "update_filters": filters });
        let report = Report::default();
        let filters =
            UpdateFilters::read(&mut Fields::new("db", value.as_object().unwrap(), &report));
        report.finish().map(|_| filters).map_err(|error| error.to_string())
    }

    #[test]
    fn a_filter_matches_whole_model_names() {
        let check = |filters: Value, model: &str, want: bool| {
            assert_eq!(read(filters.clone()).unwrap().matches(model), want, "{filters} {model}");
        };
        check(json!(null), "dcn", true);
        check(json!([".+"]), "dcn", true);
        check(json!("dcn"), "dcn", true);
        check(json!("dcn"), "dcn2", false);
        check(json!(["dcn.*", "wdl"]), "dcn2", true);
        check(json!(["a|dcn"]), "dcn2", false);
        check(json!(["^hps_.+$"]), "hps_wdl", true);
        check(json!(["^hps_.+$"]), "wdl", true);
        check(json!(["^hps_.*$"]), "wdl", false);
        check(json!([]), "wdl", false);
    }

    #[test]
    fn a_filter_that_is_no_regular_expression_is_refused() {
        let check = |filters: Value, want: &str| assert_eq!(read(filters).unwrap_err(), want);
        check(
            json!(["ok", "(", ")"]),
            "db.update_filters[1]: found \"(\", allowed: a regular expression for model names\n\
             db.update_filters[2]: found \")\", allowed: a regular expression for model names",
        );
        check(
            json!(["a{1000}{1000}{1000}"]),
            "db.update_filters: found filters that take too much memory, allowed: fewer of them, \
             or such with fewer repetitions",
        );
        check(
            json!(["(?x)a#b", "[b-a]"]),
            "db.update_filters[0]: found \"(?x)a#b\", allowed: a regular expression for model \
             names\n\
             db.update_filters[1]: found \"[b-a]\", allowed: a regular expression for model names",
        );
        check(
            json!("a)(b"),
            "db.update_filters: found \"a)(b\", allowed: a regular expression for model names",
        );
        check(json!([1]), "db.update_filters[0]: found 1, allowed: a string");
    }

    #[test]
    fn filters_that_would_take_minutes_are_refused_as_a_whole() {
        let check = |filters: Vec<String>, want: &str| {
            let error = read(json!(filters)).unwrap_err();
            assert!(error.starts_with(&format!("db.update_filters: found {want}")), "{error}");
        };
        check(vec![r"\w{90}".to_owned(); 1_000], "filters that take too much memory");
        check(vec!["a".repeat(100); 100], "filters of 10000 bytes, allowed: at most 8192");
        let names: Vec<String> = (0..500).map(|number| format!("model_{number}")).collect();
        assert!(read(json!(names)).unwrap().matches("model_499"));
    }
}
