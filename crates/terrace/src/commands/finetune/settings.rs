//! The arguments of a run by their names, those that were left out with their defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::CommandFactory;

use crate::argv;
use crate::cli::Cli;

/// Arguments that change nothing of what is computed.
const FREE: [&str; 12] = [
    "dry-run",
    "gpu-memory",
    "logger-name",
    "out-dir",
    "record-gpu-memory-kind",
    "record-gpu-memory-period",
    "record-gpu-memory-snapshots",
    "resume",
    "threads",
    "train.save-interval",
    "training-state-num",
    "verbose",
];

/// Of a command line that was parsed before. Arguments that a run may change when it goes on are
/// not among them.
pub fn settings(args: impl IntoIterator<Item = OsString>) -> BTreeMap<String, String> {
    let root = Cli::command();
    let settled = argv::settle(args).expect("it was parsed before");
    let matches = root.clone().try_get_matches_from(settled).expect("it was parsed before");
    let (name, matches) = matches.subcommand().expect("a command was given");
    let command = root.find_subcommand(name).expect("it is one of ours");
    let value = |arg: &clap::Arg| {
        let values = matches.get_raw(arg.get_id().as_str())?;
        let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
        Some((arg.get_long()?.to_owned(), values.join(",")))
    };
    let all = command.get_arguments().filter_map(value);
    all.filter(|(name, _)| !FREE.contains(&name.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_one_name_and_their_defaults() {
        let line = "terrace finetune_long_lora tiny --lora.r 4 --train.micro_batch_size 3 \
                    --verbose all --kv_cache.name h2o-default";
        let settings = settings(line.split_whitespace().map(Into::into));
        let value = |name: &str| settings.get(name).map(String::as_str);
        assert_eq!(value("lora.r"), Some("4"));
        assert_eq!(value("train.micro-batch-size"), Some("3"));
        assert_eq!(value("kv-cache.name"), Some("h2o-default"));
        assert_eq!(value("train.epochs"), Some("5"));
        assert_eq!(value("verbose"), None);
        assert_eq!(value("train.max-steps"), None);
    }
}
