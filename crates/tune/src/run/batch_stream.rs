//! The micro-batches of a run, one after the other, from any place on.

use super::progress::Progress;
use crate::data::BatchOrder;

pub(crate) struct BatchStream {
    order: BatchOrder,
    epochs: usize,
    /// The epoch that is laid out.
    batches: Option<(usize, Vec<Vec<usize>>)>,
}

impl BatchStream {
    pub fn new(order: BatchOrder, epochs: usize) -> Self {
        BatchStream { order, epochs, batches: None }
    }

    /// Steps of all epochs; the last of each takes what is left.
    pub fn steps(&self, micro_batches: usize) -> u64 {
        (self.order.len().div_ceil(micro_batches) * self.epochs) as u64
    }

    /// Epochs that are done, in parts.
    pub fn epochs_done(&self, at: &Progress) -> f64 {
        at.epoch as f64 + at.micro_batch as f64 / self.order.len().max(1) as f64
    }

    /// Cases of the next step's micro-batches, at most so many and of one epoch; moves on. None
    /// when the epochs are over.
    pub fn next_step(&mut self, at: &mut Progress, micro_batches: usize) -> Vec<Vec<usize>> {
        if self.epochs <= at.epoch || self.order.is_empty() {
            return Vec::new();
        }
        if self.batches.as_ref().is_none_or(|(epoch, _)| *epoch != at.epoch) {
            self.batches = Some((at.epoch, self.order.epoch(at.epoch)));
        }
        let (_, batches) = self.batches.as_ref().expect("laid out above");
        let end = batches.len().min(at.micro_batch + micro_batches);
        let step = batches[at.micro_batch..end].to_vec();
        at.micro_batch = end;
        if end == batches.len() {
            (at.epoch, at.micro_batch) = (at.epoch + 1, 0);
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::FirstBatches;

    fn stream() -> BatchStream {
        let cases: Vec<usize> = (0..10).collect();
        let order = BatchOrder::new(&cases, &cases, 2, FirstBatches::Any, 3);
        BatchStream::new(order, 2)
    }

    #[test]
    fn each_epoch_has_each_case_once() {
        let (mut stream, mut at) = (stream(), Progress::default());
        let mut steps = Vec::new();
        loop {
            let step = stream.next_step(&mut at, 2);
            if step.is_empty() {
                break;
            }
            steps.push(step);
        }
        assert_eq!(steps.len() as u64, stream.steps(2));
        assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1, 2, 2, 1]);
        for epoch in steps.chunks(3) {
            let mut cases = epoch.concat().concat();
            cases.sort_unstable();
            assert!(cases.into_iter().eq(0..10));
        }
    }

    #[test]
    fn it_goes_on_from_any_place() {
        let (mut whole, mut at) = (stream(), Progress::default());
        for _ in 0..6 {
            let (mut resumed, mut from) = (stream(), at);
            assert_eq!(resumed.next_step(&mut from, 2), whole.next_step(&mut at, 2));
            assert_eq!(from, at);
        }
    }
}
