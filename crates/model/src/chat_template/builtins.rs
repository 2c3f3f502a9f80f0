//! The engine's filters, tests, functions and Python's methods, paying for what they are given.

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions, tests};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::work_limit::{Size, pay, pay_for, settled};

/// Widths in a format beyond this are no layout.
const MAX_WIDTH: usize = 1000;

macro_rules! named {
    ($($module:ident::$function:ident as $name:literal),* $(,)?) => {
        [$(($name, Value::from_function($module::$function))),*]
    };
}

type Values = Rest<ValueOrKwargs>;

pub fn add_to(environment: &mut Environment<'_>) {
    for (name, filter) in engine_filters() {
        environment.add_filter(name, move |state: &mut State<'_, '_>, values: Values| {
            let values = values.into_values();
            pay_for(state, &values, size_for(name))?;
            pay(state, growth(name, &values)?)?;
            settled(filter.call(state, &values)?)
        });
    }
    for (name, test) in engine_tests() {
        environment.add_test(name, move |state: &mut State<'_, '_>, values: Values| {
            let values = values.into_values();
            pay_for(state, &values, Size::Whole)?;
            test.call(state, &values).map(|result| result.is_true())
        });
    }
    for (name, function) in named![functions::dict as "dict", functions::namespace as "namespace"] {
        environment.add_function(name, move |state: &mut State<'_, '_>, values: Values| {
            let values = values.into_values();
            pay_for(state, &values, Size::Values)?;
            function.call(state, &values)
        });
    }
    environment.remove_global("debug");
    environment.set_unknown_method_callback(|state, value, name, arguments| {
        let values = [std::slice::from_ref(value), arguments].concat();
        pay_for(state, &values, size_for(name))?;
        let growth = match (name, arguments) {
            // A separator has the method here, and the list is the argument.
            ("join", [list, ..]) => growth(name, &[list.clone(), value.clone()])?,
            _ => growth(name, &values)?,
        };
        pay(state, growth)?;
        settled(unknown_method_callback(state, value, name, arguments)?)
    });
}

/// How filters and methods of this name read what they are given.
fn size_for(name: &str) -> Size {
    match name {
        "join" | "string" | "pprint" | "format" | "sort" | "unique" | "min" | "max" | "sum"
        | "groupby" | "dictsort" | "count" | "replace" | "urlencode" => Size::Whole,
        _ => Size::Outside,
    }
}

/// How much larger the result may be than what was given.
fn growth(name: &str, values: &[Value]) -> Result<usize, Error> {
    let Some((value, arguments)) = values.split_first() else { return Ok(0) };
    let text = value.as_str().unwrap_or_default();
    Ok(match name {
        "join" => value.len().unwrap_or(0).saturating_mul(longest(arguments)),
        "replace" => match arguments {
            [old, new, ..] => {
                let found = text.matches(old.as_str().unwrap_or_default()).count();
                found.saturating_mul(longest(std::slice::from_ref(new)))
            }
            _ => 0,
        },
        "indent" => text.lines().count().saturating_mul(largest(arguments)),
        "batch" | "slice" => largest(arguments).saturating_mul(size_of::<Value>()),
        "format" => {
            check_widths(text)?;
            let fields = text.matches(['%', '{']).count();
            fields.saturating_mul(MAX_WIDTH + longest(arguments))
        }
        _ => 0,
    })
}

/// Bytes of the longest text; a list counts as endless, as each of these filters writes it out.
fn longest(arguments: &[Value]) -> usize {
    let lengths = each(arguments).map(|value| match value.as_str() {
        Some(text) => text.len(),
        None if value.len().is_some() => usize::MAX,
        None => MAX_WIDTH,
    });
    lengths.max().unwrap_or(0)
}

fn largest(arguments: &[Value]) -> usize {
    each(arguments).filter_map(|value| value.as_usize()).max().unwrap_or(0)
}

/// Arguments, with or without a name.
fn each(arguments: &[Value]) -> impl Iterator<Item = Value> {
    arguments.iter().flat_map(|argument| {
        let named = argument.is_kwargs().then(|| argument.try_iter().ok()).flatten();
        match named {
            Some(names) => names.filter_map(|name| argument.get_item(&name).ok()).collect(),
            None => vec![argument.clone()],
        }
    })
}

/// A field of a format is padded to its width, so widths are held short.
fn check_widths(format: &str) -> Result<(), Error> {
    let mut numbers = format.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    if format.contains('*') || numbers.any(|n| n.parse().map_or(true, |n: usize| n > MAX_WIDTH)) {
        return Err(Error::new(ErrorKind::InvalidOperation, "such widths are not supported"));
    }
    Ok(())
}

/// All but those whose time does not depend on what they are given.
fn engine_filters() -> Vec<(&'static str, Value)> {
    named![
        filters::lower as "lower",
        filters::upper as "upper",
        filters::title as "title",
        filters::capitalize as "capitalize",
        filters::replace as "replace",
        filters::dictsort as "dictsort",
        filters::items as "items",
        filters::reverse as "reverse",
        filters::trim as "trim",
        filters::join as "join",
        filters::split as "split",
        filters::lines as "lines",
        filters::min as "min",
        filters::max as "max",
        filters::sort as "sort",
        filters::list as "list",
        filters::string as "string",
        filters::batch as "batch",
        filters::slice as "slice",
        filters::sum as "sum",
        filters::indent as "indent",
        filters::select as "select",
        filters::reject as "reject",
        filters::selectattr as "selectattr",
        filters::rejectattr as "rejectattr",
        filters::map as "map",
        filters::groupby as "groupby",
        filters::unique as "unique",
        filters::chain as "chain",
        filters::zip as "zip",
        filters::pprint as "pprint",
        filters::format as "format",
        filters::escape as "escape",
        filters::escape as "e",
    ]
    .into()
}

/// Those that look into values.
fn engine_tests() -> Vec<(&'static str, Value)> {
    named![
        tests::is_startingwith as "startingwith",
        tests::is_endingwith as "endingwith",
        tests::is_lower as "lower",
        tests::is_upper as "upper",
        tests::is_eq as "eq",
        tests::is_eq as "equalto",
        tests::is_eq as "==",
        tests::is_ne as "ne",
        tests::is_ne as "!=",
        tests::is_lt as "lt",
        tests::is_lt as "lessthan",
        tests::is_lt as "<",
        tests::is_le as "le",
        tests::is_le as "<=",
        tests::is_gt as "gt",
        tests::is_gt as "greaterthan",
        tests::is_gt as ">",
        tests::is_ge as "ge",
        tests::is_ge as ">=",
        tests::is_in as "in",
    ]
    .into()
}
