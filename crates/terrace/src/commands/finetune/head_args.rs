//! `head_model`: what is made of a model's outputs.

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use serde_json::Value;
use terrace_model::{AddSpecial, Tokenizer};
use terrace_tune::head::{Head, Pooling, SequenceClassification, SequenceClassificationOnLogits};

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Head model and loss")]
pub struct HeadArgs {
    /// What is learnt. next_token_prediction: the examples' own tokens.
    /// seq_classification_on_logits: which of the classes' tokens comes next. seq_classification:
    /// classes from the last layer's outputs, by weights of their own. Left out:
    /// next_token_prediction.
    #[arg(long, value_name = "NAME", default_value = "next_token_prediction")]
    head_model: HeadName,

    /// Arguments of the head model, as JSON; as --head-model-kwargs.pool-type.
    #[arg(long, value_name = "JSON", hide_short_help = true, value_parser = pool_type,
          conflicts_with = "pool_type")]
    head_model_kwargs: Option<String>,

    /// Of seq_classification: which outputs stand for a sequence.
    #[arg(long = "head-model-kwargs.pool-type", value_name = "OUTPUTS",
          value_parser = PossibleValuesParser::new(["last", "mean"]))]
    pool_type: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum HeadName {
    NextTokenPrediction,
    SeqClassificationOnLogits,
    SeqClassification,
}

/// The one argument that there is.
fn pool_type(text: &str) -> Result<String, String> {
    let wrong = || "give {\"pool_type\": \"last\"} or {\"pool_type\": \"mean\"}".to_owned();
    let value: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let fields = value.as_object().filter(|fields| fields.len() == 1).ok_or_else(wrong)?;
    let name = fields.get("pool_type").and_then(Value::as_str).ok_or_else(wrong)?;
    match Pooling::named(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(wrong()),
    }
}

impl HeadArgs {
    pub fn learns_classes(&self) -> bool {
        self.head_model != HeadName::NextTokenPrediction
    }

    /// `classes`: of the data, none where next tokens are learnt.
    pub fn head(
        &self,
        classes: &[String],
        tokenizer: &Tokenizer,
        hidden: usize,
        seed: u64,
    ) -> Result<Head> {
        let pooling = self.pool_type.as_ref().or(self.head_model_kwargs.as_ref());
        if pooling.is_some() && self.head_model != HeadName::SeqClassification {
            bail!("pool_type is an argument of seq_classification alone; leave it out");
        }
        Ok(match self.head_model {
            HeadName::NextTokenPrediction => Head::NextToken,
            HeadName::SeqClassificationOnLogits => {
                let tokens: Vec<u32> = classes
                    .iter()
                    .map(|class| class_token(class, tokenizer))
                    .collect::<Result<_>>()?;
                Head::Model(Box::new(SequenceClassificationOnLogits::new(&tokens)))
            }
            HeadName::SeqClassification => {
                let pooling =
                    pooling.and_then(|name| Pooling::named(name)).unwrap_or(Pooling::Last);
                let model = SequenceClassification::new(hidden, classes.len(), pooling, seed);
                Head::Model(Box::new(model))
            }
        })
    }
}

/// A label as one token: behind a space, as it follows a text, or by itself.
fn class_token(class: &str, tokenizer: &Tokenizer) -> Result<u32> {
    for text in [format!(" {class}"), class.to_owned()] {
        if let [token] = tokenizer.encode(&text, AddSpecial::No)?[..] {
            return Ok(token);
        }
    }
    bail!(
        "the label {class:?} is more than one token, and seq_classification_on_logits needs one; \
         give shorter labels, or --head_model seq_classification"
    )
}
