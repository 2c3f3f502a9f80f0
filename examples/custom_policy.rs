//! A rule of your own about which tokens a cache keeps, without forking Terrace.
//!
//!     cargo run --example custom_policy
//!
//! The rule here forgets: what was attended to long ago counts less with every chunk. It writes its
//! score and nothing else. Protected first tokens, a grace period, any buffer and the replay log
//! come with the rule's plain data.

use std::sync::Arc;

use terrace_cache::policy::{
    ArgValue, HeadSlots, KvCacheOptions, KvCacheSpec, KvPolicy, Policies, PolicyArgs, PolicyEntry,
    PolicyError, ReplayLog, Rule, ScoredOptions, ScoredRule, SlotExtras, SlotTable, TableShape,
    Weighting,
};

#[derive(Debug)]
struct Fading {
    options: ScoredOptions,
    /// What is left of a score after a chunk.
    kept_share: f32,
}

const FADING: PolicyEntry = PolicyEntry {
    name: "fading",
    build: |args| {
        let kept_share = args.share("kept_share")?.unwrap_or(0.9) as f32;
        Ok(Arc::new(Fading { options: ScoredOptions::take(args)?, kept_share }))
    },
};

impl KvPolicy for Fading {
    fn name(&self) -> &str {
        FADING.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let weighting = Weighting::Custom { value_norms: false, errors: false };
        Ok(Rule::Scored(ScoredRule { weighting, ..self.options.rule(slots) }))
    }

    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        for (score, weight) in scores.iter_mut().zip(head.weights) {
            *score = *score * self.kept_share + weight;
        }
    }
}

fn main() -> Result<(), PolicyError> {
    let args = [
        ("kept_share".to_owned(), ArgValue::Number(0.5)),
        ("grace_period".to_owned(), ArgValue::Number(4.0)),
    ];
    let options = KvCacheOptions {
        name: "fading-torch-quantized8".into(),
        cache_length: vec![16],
        chunk_size: 4,
        randomize_chunk_sizes: false,
        cache_kwargs: PolicyArgs::new(args),
        compat: None,
    };
    let policies = Policies::built_in().with(FADING);
    let spec = KvCacheSpec::new(&options, &policies, 1, [64, 64])?;

    let shape = TableShape { kv_heads: 1, slots: spec.slots(0) };
    let rule = spec.rule(shape.slots)?;
    let mut table = SlotTable::new(Arc::clone(&spec.policy), rule, shape)?;
    let mut log = ReplayLog::new(&[shape]);
    for tokens in spec.chunk_plan(40, 0) {
        let placement = table.choose(tokens)?;
        log.begin_chunk(tokens);
        log.record(0, &placement);
        table.commit(&placement, SlotExtras::default());
        // A model's attention stands here; this one looks at every fifth token.
        let weights: Vec<f32> =
            table.positions(0).iter().map(|at| (at % 5 == 0) as u8 as f32).collect();
        table.add_weights(tokens, &weights);
        println!("after {:2} tokens: {:?}", table.seen_tokens(), sorted(table.positions(0)));
    }
    println!("the log takes {} bytes", log.to_bytes().len());
    Ok(())
}

fn sorted(positions: &[i32]) -> Vec<i32> {
    let mut positions = positions.to_vec();
    positions.sort_unstable();
    positions
}
