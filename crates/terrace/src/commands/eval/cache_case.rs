//! One cache that is measured: a policy with its arguments, a buffer, a length and a chunk size.

use std::fmt;

use serde::Serialize;
use terrace_engine::{KwArg, Lengths, RequestedKvCache};

/// A policy with arguments, as typed: `h2o:grace_period=25%:normalize_scores=true`.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyChoice {
    typed: String,
    name: String,
    arguments: Vec<(String, Argument)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Argument {
    Plain(KwArg),
    /// A share of the cache's length.
    OfSlots(f64),
}

/// How much of a text a cache keeps, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Share(pub f64);

/// `Display` is the name that a table shows.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheCase {
    pub policy: PolicyChoice,
    pub buffer: String,
    /// `None` where everything is kept.
    pub bounds: Option<Bounds>,
}

/// Which cache a row of a report is about.
#[derive(Clone, Debug, Serialize)]
pub struct CaseLabel {
    pub cache: String,
    #[serde(flatten)]
    pub bounds: Option<Bounds>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bounds {
    pub share: Share,
    /// At most a quarter of the slots are computed together, whatever this says.
    pub chunk_size: usize,
}

/// What every measurement is compared to.
pub const DENSE: &str = "dense";

impl CacheCase {
    /// Every combination, dense caches first. A dense cache has no length and no chunks.
    pub fn all(
        policies: &[PolicyChoice],
        buffers: &[String],
        shares: &[Share],
        chunk_sizes: &[usize],
    ) -> Vec<CacheCase> {
        let mut cases = Vec::new();
        let (dense, bounded): (Vec<_>, Vec<_>) =
            policies.iter().partition(|policy| policy.name == DENSE);
        for policy in dense {
            for buffer in buffers {
                let (policy, buffer) = (policy.clone(), buffer.clone());
                cases.push(CacheCase { policy, buffer, bounds: None });
            }
        }
        for policy in bounded {
            for buffer in buffers {
                for &chunk_size in chunk_sizes {
                    for &share in shares {
                        let bounds = Some(Bounds { share, chunk_size });
                        let (policy, buffer) = (policy.clone(), buffer.clone());
                        cases.push(CacheCase { policy, buffer, bounds });
                    }
                }
            }
        }
        cases
    }

    /// Everything kept as it is.
    pub fn dense() -> CacheCase {
        let policy = PolicyChoice::parse(DENSE).expect("a name alone is well formed");
        CacheCase { policy, buffer: "default".into(), bounds: None }
    }

    pub fn label(&self) -> CaseLabel {
        CaseLabel { cache: self.name(), bounds: self.bounds }
    }

    /// Tokens kept of a text of so many; all of them where the cache has no bounds.
    pub fn slots(&self, tokens: usize) -> usize {
        self.bounds.map_or(tokens, |bounds| bounds.share.of(tokens))
    }

    /// What a request for a text of `tokens` tokens asks of its cache.
    pub fn requested(&self, tokens: usize) -> RequestedKvCache {
        let slots = self.slots(tokens);
        let argument = |(name, value): &(String, Argument)| {
            let value = match value {
                Argument::Plain(value) => value.clone(),
                Argument::OfSlots(share) => KwArg::Number((share * slots as f64).floor()),
            };
            (name.clone(), value)
        };
        let chunk = |bounds: Bounds| bounds.chunk_size.min(slots / 4).max(1);
        RequestedKvCache {
            name: Some(format!("{}-{}", self.policy.name, self.buffer)),
            cache_length: self.bounds.map(|_| Lengths::One(slots)),
            chunk_size: self.bounds.map(chunk),
            cache_kwargs: self.policy.arguments.iter().map(argument).collect(),
            ..RequestedKvCache::default()
        }
    }

    /// Policy and buffer, without the length.
    pub fn name(&self) -> String {
        match self.buffer.as_str() {
            "default" => self.policy.typed.clone(),
            buffer => format!("{} {buffer}", self.policy.typed),
        }
    }
}

impl PolicyChoice {
    pub fn parse(typed: &str) -> Result<Self, String> {
        let mut parts = typed.split(':');
        let name = parts.next().unwrap_or_default().to_owned();
        let argument = |part: &str| {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                format!("{part:?} is no argument; write NAME=VALUE, as in h2o:grace_period=64")
            })?;
            Ok((name.to_owned(), Argument::parse(value)?))
        };
        let arguments = parts.map(argument).collect::<Result<_, String>>()?;
        Ok(PolicyChoice { typed: typed.to_owned(), name, arguments })
    }
}

impl Argument {
    fn parse(value: &str) -> Result<Self, String> {
        if value.ends_with('%') {
            return Share::parse(value).map(|share| Argument::OfSlots(share.0));
        }
        Ok(Argument::Plain(match (value.parse::<bool>(), value.parse::<f64>()) {
            (Ok(flag), _) => KwArg::Flag(flag),
            (_, Ok(number)) => KwArg::Number(number),
            _ => KwArg::Text(value.to_owned()),
        }))
    }
}

impl Share {
    pub fn parse(typed: &str) -> Result<Self, String> {
        let percent = typed.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        match percent {
            Some(percent) if 0.0 < percent && percent <= 100.0 => Ok(Share(percent / 100.0)),
            _ => Err("write a share above 0% and up to 100%, such as 12.5%".into()),
        }
    }

    pub fn of(self, tokens: usize) -> usize {
        (self.0 * tokens as f64).round() as usize
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}%", (self.0 * 1000.0).round() / 10.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(policy: &str, bounds: Option<Bounds>) -> CacheCase {
        let policy = PolicyChoice::parse(policy).expect("well formed");
        CacheCase { policy, buffer: "default".into(), bounds }
    }

    #[test]
    fn shares_of_arguments_follow_the_cache_length() {
        let bounds = Bounds { share: Share(0.25), chunk_size: 64 };
        let case = case("h2o:grace_period=25%:normalize_scores=true", Some(bounds));
        let requested = case.requested(800);
        assert_eq!(requested.name.as_deref(), Some("h2o-default"));
        assert_eq!(requested.cache_length, Some(Lengths::One(200)));
        assert_eq!(requested.cache_kwargs["grace_period"], KwArg::Number(50.0));
        assert_eq!(requested.cache_kwargs["normalize_scores"], KwArg::Flag(true));
        assert_eq!(requested.chunk_size, Some(50), "a quarter of the slots at most");
        assert_eq!(case.requested(1600).chunk_size, Some(64));
    }

    #[test]
    fn dense_caches_have_no_bounds_and_come_first() {
        let policies = ["lastrec", "dense"].map(|name| PolicyChoice::parse(name).expect("a name"));
        let buffers = ["default".to_owned(), "fp8".to_owned()];
        let cases = CacheCase::all(&policies, &buffers, &[Share(0.25), Share(0.5)], &[1, 64]);
        let names: Vec<_> = cases.iter().map(CacheCase::name).collect();
        assert_eq!(names[..3], ["dense", "dense fp8", "lastrec"]);
        assert_eq!(cases.len(), 2 + 2 * 2 * 2);
        assert_eq!(case("dense", None), CacheCase::dense());
        assert_eq!(cases[0].requested(100).cache_length, None);
    }

    #[test]
    fn wrong_words_are_reported() {
        assert!(PolicyChoice::parse("h2o:grace").is_err());
        assert!(PolicyChoice::parse("h2o:grace_period=200%").is_err());
        for typed in ["25", "0%", "101%", "x%"] {
            assert!(Share::parse(typed).is_err(), "{typed}");
        }
        assert_eq!(Share::parse("12.5%").map(|share| share.to_string()), Ok("12.5%".into()));
    }
}
