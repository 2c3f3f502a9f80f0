//! Which models' updates a level takes.
//!
//! Each filter is a regular expression for a whole model name; `^` and `$` in it are the ends of
//! the name. The last release put the filter into the middle of a pattern for topics, where its
//! own default `^hps_.+$` could never match; here it means what was meant: all models.

use regex::{Regex, RegexSet};

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
        let given = fields.texts("update_filters").and_then(|texts| {
            let is_right = |(path, text): &(String, &str)| {
                // By itself too: `a)(b` is only right within other parentheses.
                let is_right = [*text, &whole(text)].iter().all(|text| Regex::new(text).is_ok());
                if !is_right {
                    fields.wrong(path, shown(text), "a regular expression for model names");
                }
                is_right
            };
            let filters = texts.iter().filter(|text| is_right(text)).map(|(_, text)| *text);
            let filters: Vec<String> = filters.map(str::to_owned).collect();
            let names = RegexSet::new(filters.iter().map(|filter| whole(filter))).ok();
            if names.is_none() {
                let path = fields.path_of("update_filters");
                fields.wrong(&path, format_args!("{} filters", filters.len()), "fewer, shorter");
            }
            Some(UpdateFilters { filters, names: names? })
        });
        given.unwrap_or_else(UpdateFilters::of_all)
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

fn whole(filter: &str) -> String {
    let filter = if filter == RELEASE_DEFAULT { ".+" } else { filter };
    format!("^(?:{filter})$")
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
            "db.update_filters[0]: found \"a{1000}{1000}{1000}\", allowed: a regular expression \
             for model names",
        );
        check(
            json!("a)(b"),
            "db.update_filters: found \"a)(b\", allowed: a regular expression for model names",
        );
        check(json!([1]), "db.update_filters[0]: found 1, allowed: a string");
    }
}
