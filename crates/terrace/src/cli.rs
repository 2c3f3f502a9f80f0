//! What can be typed: the subcommands.

use clap::{Parser, Subcommand};

use crate::commands::bench::BenchArgs;
use crate::commands::cache::CacheArgs;
use crate::commands::chat::ChatArgs;
use crate::commands::compile_grammar;
use crate::commands::eval::EvalArgs;
use crate::commands::finetune::{
    FinetuneFullArgs, FinetuneLoraArgs, OffloadFullArgs, OffloadLoraArgs,
};
use crate::commands::generate::GenerateArgs;
use crate::commands::predict::PredictArgs;
use crate::commands::preprocess::PreprocessArgs;
use crate::commands::ps::PsArgs;
use crate::commands::pull::PullArgs;
use crate::commands::rank::RankArgs;
use crate::commands::selftest::SelftestArgs;
use crate::commands::serve::ServeArgs;

/// Serves language models on this machine, behind an OpenAI-shaped HTTP API.
#[derive(Parser, Debug)]
#[command(
    name = "terrace",
    version,
    after_help = "Start here:
  terrace serve                         # then talk to http://127.0.0.1:8000
  terrace chat                          # the same model in this terminal
Every option may be written with hyphens or underscores (--max-batch-size, --max_batch_size)."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Serve(Box<ServeArgs>),
    Chat(Box<ChatArgs>),
    Generate(Box<GenerateArgs>),
    #[command(name = "finetune_long_lora", alias = "finetune-long-lora")]
    FinetuneLongLora(Box<FinetuneLoraArgs>),
    #[command(name = "finetune_long_full", alias = "finetune-long-full")]
    FinetuneLongFull(Box<FinetuneFullArgs>),
    #[command(name = "finetune_offload_lora", alias = "finetune-offload-lora")]
    FinetuneOffloadLora(Box<OffloadLoraArgs>),
    #[command(name = "finetune_offload_full", alias = "finetune-offload-full")]
    FinetuneOffloadFull(Box<OffloadFullArgs>),
    Pull(PullArgs),
    Bench(BenchArgs),
    Eval(EvalArgs),
    Cache(CacheArgs),
    Rank(RankArgs),
    Predict(Box<PredictArgs>),
    Preprocess(PreprocessArgs),
    Ps(PsArgs),
    Selftest(SelftestArgs),
    /// Checks grammars for a server, which starts this itself.
    #[command(hide = true, name = compile_grammar::NAME)]
    CompileGrammar,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use terrace_cache::policy::{KvCacheOptions, KvCacheSpec, Policies, Rule};

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    const MANUAL: &str = include_str!("../../../docs/configuration.md");

    #[test]
    fn the_manual_names_every_option_of_the_server() {
        let mut command = Cli::command();
        let serve = command.find_subcommand_mut("serve").expect("there is a server");
        for option in serve.get_arguments().filter_map(|arg| arg.get_long()) {
            let named = option == "help" || MANUAL.contains(&format!("`--{option}`"));
            assert!(named, "docs/configuration.md does not name --{option}");
        }
    }

    /// The manual gave grace and normalisation other defaults than the program has.
    #[test]
    fn the_manual_gives_every_option_its_names_and_default() {
        let (tables, _) = MANUAL.split_once("## Flags of vLLM").expect("the section");
        let (_, idle) = MANUAL.split_once("## Not there yet").expect("the section");
        let rows = tables.lines().chain(idle.lines()).filter(|line| line.starts_with("| `-"));
        let rows: Vec<Vec<&str>> = rows.map(|row| row.split(" | ").collect()).collect();
        let mut wrong = Vec::new();
        let mut command = Cli::command();
        command.build();
        let serve = command.find_subcommand("serve").expect("there is a server");
        let is_option = |arg: &&clap::Arg| arg.get_long().is_some_and(|name| name != "help");
        let options: Vec<_> = serve.get_arguments().filter(is_option).collect();
        for arg in &options {
            let names = names(arg);
            let row = rows.iter().find(|row| row[0].trim_start_matches("| ") == names);
            let default =
                row.map(|row| if row.len() == 3 { row[1].replace('`', "") } else { none() });
            if default.as_ref() != Some(&default_of(arg)) {
                wrong.push(format!("| {names} | {} | (found: {default:?})", default_of(arg)));
            }
        }
        assert!(wrong.is_empty(), "docs/configuration.md must say:\n{}", wrong.join("\n"));
        assert_eq!(rows.len(), options.len(), "a row of the manual is no option");
    }

    fn names(arg: &clap::Arg) -> String {
        let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
        let longs = longs.into_iter().map(|name| format!("`--{name}`"));
        let short = arg.get_short().map(|letter| format!("`-{letter}`"));
        longs.chain(short).collect::<Vec<_>>().join(", ")
    }

    fn none() -> String {
        "none".to_owned()
    }

    /// What the parser fills in, or what the help says behind "Left out".
    fn default_of(arg: &clap::Arg) -> String {
        if !arg.get_action().takes_values() {
            return "off".to_owned();
        }
        if !arg.is_hide_default_value_set()
            && let [value] = arg.get_default_values()
        {
            return value.to_string_lossy().into_owned();
        }
        let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
        let help = help.unwrap_or_default().replace('\n', " ");
        let Some((_, rest)) = help.split_once("Left out") else { return none() };
        let (_, default) = rest.split_once(": ").expect("a default behind it");
        default.split(". ").next().unwrap_or(default).trim_end_matches('.').to_owned()
    }

    /// The words behind "Left out", against the policies themselves.
    #[test]
    fn what_is_left_out_of_a_policy_is_what_the_help_says() {
        let mut command = Cli::command();
        command.build();
        let serve = command.find_subcommand("serve").expect("there is a server");
        let said = |name: &str| {
            let option = format!("kv-cache.{name}");
            let arg = serve.get_opts().find(|arg| arg.get_long() == Some(&option));
            default_of(arg.expect("an option"))
        };
        let rule = |name: &str, slots: usize| {
            let options = KvCacheOptions { name: name.into(), ..KvCacheOptions::dense(slots) };
            let options = KvCacheOptions { chunk_size: 1, ..options };
            let spec = KvCacheSpec::new(&options, &Policies::built_in(), &[[16; 2]]);
            spec.expect("a known name").rule(slots).expect("a rule")
        };
        let protected = |name: &str, slots: usize| match rule(name, slots) {
            Rule::Keep => 0,
            Rule::Recent(rule) => rule.protected_tokens,
            Rule::Scored(rule) => rule.protected_tokens,
        };
        let words = "a slot in eight, 1 to 16; of streamingllm 4, of h2o-orig 0";
        assert_eq!(said("cache-kwargs.init-grace-tokens"), words);
        for name in ["lastrec-fp8", "h2o-fp8", "h2o-vlen-fp8", "qh2o-fp8", "qh2o-vlen-fp8"] {
            assert_eq!([4, 80, 1000].map(|slots| protected(name, slots)), [1, 10, 16], "{name}");
        }
        assert_eq!((protected("streamingllm-fp8", 80), protected("h2o-orig-fp8", 80)), (4, 0));

        let Rule::Scored(scored) = rule("h2o-default", 80) else { panic!("it has scores") };
        assert_eq!(said("cache-kwargs.grace-period"), "a quarter of the slots");
        assert_eq!(scored.grace_tokens, 80 / 4);
        assert_eq!(said("cache-kwargs.normalize-scores"), scored.per_age.to_string());
        let initial: f64 = said("cache-kwargs.keep-initial-fraction").parse().expect("a number");
        assert_eq!(scored.initial_slots, (initial * 80.0) as usize);
        assert_eq!(said("cache-kwargs.max-chunk-size"), "none");
        assert_eq!(scored.chunk_tokens_max, None);
        let Rule::Scored(with_errors) = rule("qh2o-fp8", 80) else { panic!("it has scores") };
        let share: f32 = said("cache-kwargs.combination-constant").parse().expect("a number");
        assert_eq!(with_errors.score_share, Some(share));
    }
}
