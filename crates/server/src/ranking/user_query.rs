//! What may stand behind the question mark of a route about users.

use crate::api_error::{ApiError, ApiResult};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct UserQuery {
    pub model: Option<String>,
    pub limit: Option<usize>,
}

impl UserQuery {
    pub fn parse(query: Option<&str>) -> ApiResult<Self> {
        let mut parsed = UserQuery::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "model" => parsed.model = Some(value.into_owned()),
                "limit" => {
                    let wrong = |_| {
                        let message = format!("limit is {value:?}: it must be a whole number");
                        ApiError::invalid("limit", message)
                    };
                    parsed.limit = Some(value.parse().map_err(wrong)?);
                }
                other => {
                    let message = format!("{other:?} is not known here; model and limit are");
                    return Err(ApiError::invalid(other, message));
                }
            }
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_numbers_whole() {
        let parsed = UserQuery::parse(Some("model=a%20b&limit=5")).unwrap();
        assert_eq!((parsed.model.as_deref(), parsed.limit), (Some("a b"), Some(5)));
        assert_eq!(UserQuery::parse(None).unwrap(), UserQuery::default());
        for wrong in ["limit=-1", "limit=", "most=5"] {
            assert!(UserQuery::parse(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
