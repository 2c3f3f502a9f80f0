//! The table that a name means.

use anyhow::{Result, bail};
use terrace_embedding::{TableName, TablePlan};
use terrace_model::near_names;

/// By `model.table`, or by the table's name where only one has it.
pub fn find_table<'a>(plans: &'a [TablePlan], name: &str) -> Result<&'a TablePlan> {
    let is_named = |plan: &&TablePlan| plan.names.iter().any(|it| is_meant(it, name));
    let mut found = plans.iter().filter(is_named);
    match (found.next(), found.next()) {
        (Some(plan), None) => Ok(plan),
        (Some(_), Some(_)) => {
            let meant = names(plans).filter(|(it, _)| is_meant(it, name)).map(|(_, full)| full);
            let meant: Vec<String> = meant.collect();
            bail!("{name} may be {}; name the model, too", meant.join(" or "))
        }
        (None, _) => bail!("there is no table {name}; {}", advice(plans, name)),
    }
}

/// As in "m.t", the first of its names.
pub fn full_name(plan: &TablePlan) -> String {
    plan.names.first().map(shown).unwrap_or_default()
}

fn is_meant(name: &TableName, text: &str) -> bool {
    shown(name) == text || name.table == text
}

fn shown(name: &TableName) -> String {
    format!("{}.{}", name.model, name.table)
}

fn names(plans: &[TablePlan]) -> impl Iterator<Item = (&TableName, String)> {
    plans.iter().flat_map(|plan| &plan.names).map(|name| (name, shown(name)))
}

fn advice(plans: &[TablePlan], name: &str) -> String {
    let all: Vec<String> = names(plans).map(|(_, full)| full).collect();
    match near_names(name, all.iter().map(String::as_str)).first() {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", all.join(", ")),
    }
}
