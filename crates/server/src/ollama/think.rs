//! `think`: whether a thinking model shall think, and how much.

use terrace_model::RenderOptions;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::{Fields, Kind, wrong_type};
use crate::language::ServedModel;

/// Whether a thinking model shall think, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Think {
    /// As the model's template has it.
    #[default]
    Unsaid,
    No,
    Yes,
    /// `low`, `medium` or `high`.
    Effort(String),
}

impl Think {
    pub fn take(fields: &mut Fields) -> ApiResult<Self> {
        const LEVELS: [&str; 3] = ["low", "medium", "high"];
        let Some(json) = fields.take_raw("think") else { return Ok(Self::Unsaid) };
        match Kind::of(json.get()) {
            Kind::Bool => Ok(if json.get() == "true" { Self::Yes } else { Self::No }),
            Kind::String => match json.get().trim_matches('"') {
                level if LEVELS.contains(&level) => Ok(Self::Effort(level.to_owned())),
                _ => {
                    Err(wrong_type(&json, "think", "true, false, \"low\", \"medium\" or \"high\""))
                }
            },
            _ => Err(wrong_type(&json, "think", "true, false, \"low\", \"medium\" or \"high\"")),
        }
    }

    pub fn asks(&self) -> bool {
        matches!(self, Self::Yes | Self::Effort(_))
    }

    /// A model whose template does not think cannot be asked to.
    pub fn check(&self, model: &ServedModel) -> ApiResult<()> {
        if self.asks() && !model.thinks() {
            let message = format!(
                "think is not supported by {:?}: its chat template knows no reasoning",
                model.name()
            );
            return Err(ApiError::invalid("think", message));
        }
        Ok(())
    }

    /// Hands it to the template under the names that templates look for.
    pub fn apply(&self, render: &mut RenderOptions) {
        let thinks = match self {
            Self::Unsaid => return,
            Self::No => false,
            Self::Yes | Self::Effort(_) => true,
        };
        render.extra.insert("enable_thinking".to_owned(), thinks.into());
        if let Self::Effort(level) = self {
            render.extra.insert("reasoning_effort".to_owned(), level.as_str().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fields::tests::fields;

    #[test]
    fn thinking_goes_to_the_template() {
        let extra = |think: Value| {
            let mut render = RenderOptions::next_message();
            Think::take(&mut fields(json!({ "think": think }))).unwrap().apply(&mut render);
            Value::Object(render.extra)
        };
        assert_eq!(extra(Value::Null), json!({}));
        assert_eq!(extra(json!(false)), json!({"enable_thinking": false}));
        assert_eq!(extra(json!(true)), json!({"enable_thinking": true}));
        let low = json!({"enable_thinking": true, "reasoning_effort": "low"});
        assert_eq!(extra(json!("low")), low);
        let error = Think::take(&mut fields(json!({"think": "much"}))).unwrap_err();
        let want = "think must be true, false, \"low\", \"medium\" or \"high\", not a string \
                    (\"much\")";
        assert_eq!(error.message(), want);
    }
}
