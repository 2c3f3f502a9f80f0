//! What retrieval is measured by: from the rank of the item that came next, 1 being the best.

use anyhow::{Result, bail};
use terrace_model::hstu::metrics::{hit, hit_as_recsys_examples, ndcg, reciprocal_rank};

use super::metric_list::MetricList;

/// A metric as a gin file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMetric {
    pub name: String,
    pub metric: RankMetric,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankMetric {
    HitRate(usize),
    Ndcg(usize),
    ReciprocalRank,
}

/// Which ranks are hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitRule {
    /// 1 to k.
    Standard,
    /// 1 to k - 1.
    RecsysExamples,
}

impl NamedMetric {
    /// `HR@10`, `NDCG@10` or `MRR`, in any case.
    pub fn parse(name: &str) -> Result<Self> {
        let upper = name.to_uppercase();
        let cutoff = |text: &str| text.parse().ok().filter(|count| 0 < *count);
        let metric = match upper.split_once('@') {
            None if upper == "MRR" => Some(RankMetric::ReciprocalRank),
            Some(("HR", count)) => cutoff(count).map(RankMetric::HitRate),
            Some(("NDCG", count)) => cutoff(count).map(RankMetric::Ndcg),
            _ => None,
        };
        match metric {
            Some(metric) => Ok(NamedMetric { name: name.to_owned(), metric }),
            None => bail!("RetrievalArgs.eval_metrics: {name:?} is not HR@k, NDCG@k or MRR"),
        }
    }
}

impl RankMetric {
    /// The last rank that counts; `None` where all do.
    pub fn cutoff(self) -> Option<usize> {
        match self {
            RankMetric::HitRate(count) | RankMetric::Ndcg(count) => Some(count),
            RankMetric::ReciprocalRank => None,
        }
    }

    fn value(self, rank: usize, hits: HitRule) -> f64 {
        match (self, hits) {
            (RankMetric::HitRate(count), HitRule::Standard) => {
                f64::from(u8::from(hit(rank, count)))
            }
            (RankMetric::HitRate(count), HitRule::RecsysExamples) => {
                f64::from(u8::from(hit_as_recsys_examples(rank, count)))
            }
            (RankMetric::Ndcg(count), _) => f64::from(ndcg(rank, count)),
            (RankMetric::ReciprocalRank, _) => f64::from(reciprocal_rank(rank)),
        }
    }

    fn mean(self, ranks: &[usize], hits: HitRule) -> Option<f64> {
        let sum: f64 = ranks.iter().map(|rank| self.value(*rank, hits)).sum();
        (!ranks.is_empty()).then(|| sum / ranks.len() as f64)
    }
}

/// The metrics of ranks, with something before their names.
pub fn push_metrics(
    list: &mut MetricList,
    prefix: &str,
    metrics: &[NamedMetric],
    ranks: &[usize],
    hits: HitRule,
) {
    for NamedMetric { name, metric } in metrics {
        list.push(format!("{prefix}{name}"), metric.mean(ranks, hits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, hits: HitRule, want: f64) {
        let metric = NamedMetric::parse(name).expect(name).metric;
        let found = metric.mean(&[1, 2, 3, 40], hits).expect("four ranks");
        assert!((found - want).abs() < 1e-6, "{name}: {found}, not {want}");
    }

    #[test]
    fn means_of_ranks() {
        check("HR@2", HitRule::Standard, 0.5);
        check("HR@2", HitRule::RecsysExamples, 0.25);
        check("hr@40", HitRule::Standard, 1.0);
        check("NDCG@2", HitRule::RecsysExamples, (1.0 + 1.0 / 3f64.log2()) / 4.0);
        check("MRR", HitRule::Standard, (1.0 + 0.5 + 1.0 / 3.0 + 0.025) / 4.0);
        assert_eq!(RankMetric::ReciprocalRank.mean(&[], HitRule::Standard), None);
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["AUC", "HR", "HR@0", "HR@x", "NDCG@-1", "MRR@10", ""] {
            let error = NamedMetric::parse(name).expect_err(name).to_string();
            assert!(error.contains("is not HR@k, NDCG@k or MRR"), "{error}");
        }
    }
}
