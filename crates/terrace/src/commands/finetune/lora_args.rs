//! `lora.*`: which products have a branch, and of what kind.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};
use terrace_tune::{LoraKind, LoraOptions, LoraTargets};

use crate::options::{at_least_one, flag, part};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "LoRA")]
pub struct LoraArgs {
    /// Rank of the branches.
    #[arg(long = "lora.r", value_name = "RANK", default_value_t = 8,
          value_parser = at_least_one::<usize>)]
    r: usize,

    /// A branch counts alpha / r.
    #[arg(long = "lora.alpha", value_name = "NUMBER", default_value_t = 16.0)]
    alpha: f32,

    /// Share of a branch's inputs that are left out at random in training.
    #[arg(long = "lora.dropout", value_name = "SHARE", default_value_t = 0.0,
          value_parser = part)]
    dropout: f64,

    /// A branch beside queries.
    #[arg(long = "lora.query", value_name = "BOOL", default_value_t = true,
          value_parser = flag, action = ArgAction::Set)]
    query: bool,

    /// Beside keys.
    #[arg(long = "lora.key", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set)]
    key: bool,

    /// Beside values.
    #[arg(long = "lora.value", value_name = "BOOL", default_value_t = true,
          value_parser = flag, action = ArgAction::Set)]
    value: bool,

    /// Beside attention's output.
    #[arg(long = "lora.projection", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set)]
    projection: bool,

    /// Beside the feed-forward unit's three products.
    #[arg(long = "lora.mlp", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set)]
    mlp: bool,

    /// Beside the head.
    #[arg(long = "lora.head", value_name = "BOOL", default_value_t = false,
          value_parser = flag, action = ArgAction::Set)]
    head: bool,

    /// default adds a branch; rms_norm adds it through a norm; dora gives each row of the sum a
    /// trained length.
    #[arg(long = "lora.kind", value_name = "KIND", default_value = "default",
          value_parser = PossibleValuesParser::new(KINDS.map(|(name, _)| name))
              .map(|name| kind_named(&name)))]
    kind: LoraKind,
}

const KINDS: [(&str, LoraKind); 3] =
    [("default", LoraKind::Default), ("rms_norm", LoraKind::RmsNorm), ("dora", LoraKind::Dora)];

fn kind_named(name: &str) -> LoraKind {
    let found = KINDS.iter().find(|(known, _)| *known == name);
    found.expect("one of them").1
}

impl LoraArgs {
    pub fn options(&self, seed: u64) -> LoraOptions {
        let LoraArgs { query, key, value, projection, mlp, head, .. } = *self;
        LoraOptions {
            rank: self.r,
            alpha: self.alpha,
            kind: self.kind,
            targets: LoraTargets { query, key, value, projection, mlp, head },
            dropout: self.dropout as f32,
            seed,
        }
    }
}
