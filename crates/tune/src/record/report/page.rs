//! The page of a report.

use std::fmt::{self, Display, Formatter};

use super::chart::Figure;
use super::charts::charts;
use super::escaped::escaped;
use super::summary::summary;
use crate::record::step_record::StepRecord;
use crate::record::validation_record::ValidationRecord;

pub struct Page<'a> {
    pub title: String,
    pub settings: &'a [(String, String)],
    pub steps: &'a [StepRecord],
    pub validations: &'a [ValidationRecord],
}

const STYLE: &str = include_str!("page.css");

impl Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let title = escaped(&self.title);
        write!(
            f,
            r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
"#
        )?;
        table(f, "Settings", self.settings)?;
        table(f, "Results", &summary(self.steps, self.validations))?;
        let charts = charts(self.steps, self.validations);
        if charts.is_empty() {
            writeln!(f, "<p>No step is done yet.</p>")?;
        }
        writeln!(f, "<main>")?;
        for (number, chart) in (1..).zip(&charts) {
            write!(f, "{}", Figure { chart, number })?;
        }
        writeln!(f, "</main>\n</body>\n</html>")
    }
}

/// An empty one is left out.
fn table<N: AsRef<str>>(f: &mut Formatter<'_>, caption: &str, rows: &[(N, String)]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "<table>\n<caption>{caption}</caption>")?;
    for (name, value) in rows {
        let (name, value) = (escaped(name.as_ref()), escaped(value));
        writeln!(f, r#"<tr><th scope="row">{name}</th><td>{value}</td></tr>"#)?;
    }
    writeln!(f, "</table>")
}
