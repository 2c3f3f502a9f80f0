//! What came of a chunk's candidates.

use super::rank_job::JobId;
use super::rank_plan::RankPlan;
use super::scored_row::ScoredRow;

#[derive(Clone, Debug, PartialEq)]
pub struct ChunkResult {
    pub job: JobId,
    /// Of a model that ranks: one candidate after the other.
    pub logits: Vec<f32>,
    /// Of a model that retrieves: the best first.
    pub found: Vec<ScoredRow>,
}

impl ChunkResult {
    /// Of the candidates of all chunks, one chunk after the other, with so many logits each.
    pub fn of_logits(plan: &RankPlan, logits: &[f32], outputs: usize) -> Vec<ChunkResult> {
        let mut first = 0;
        let mut scores = Vec::new();
        for chunk in plan.chunks.iter().filter(|chunk| !chunk.candidates.is_empty()) {
            let end = first + chunk.candidates.len() * outputs;
            let (job, logits) = (chunk.job, logits[first..end].to_vec());
            scores.push(ChunkResult { job, logits, found: Vec::new() });
            first = end;
        }
        scores
    }
}
