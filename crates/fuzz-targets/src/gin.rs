//! A gin file of recsys-examples, and the model that it describes.

use terrace_model::gin::{GinConfig, GinValue};
use terrace_model::hstu::UvqkOrder;
use terrace_model::hstu::recsys_args::{RecsysArgs, UnknownKeys};

const ERROR_MOST: usize = 1 << 20;

pub fn run(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else { return false };
    let config = match GinConfig::from_text("fuzz.gin", text) {
        Ok(config) => config,
        Err(error) => {
            assert!((1..ERROR_MOST).contains(&error.to_string().len()));
            return false;
        }
    };
    let values: Vec<GinValue> =
        config.bindings().filter_map(|(.., binding)| config.resolved(binding).ok()).collect();
    values.iter().for_each(check_written);
    if let Ok((args, _)) = RecsysArgs::read(&config, UnknownKeys::Skip) {
        drop((args.hstu_config(UvqkOrder::Blocked), args.inference_notes(), args.features()));
    }
    true
}

/// A file of the value alone has the same value, unless it is a number that no number equals.
fn check_written(value: &GinValue) {
    let line = format!("A.x = {value}");
    let Ok(again) = GinConfig::from_text("again.gin", &line) else {
        assert!(line.contains("inf") || line.contains("nan"), "{line}");
        return;
    };
    assert_eq!(again.binding("", "A", "x").map(|binding| &binding.value), Some(value));
}
