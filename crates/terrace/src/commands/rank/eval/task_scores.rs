//! Scores of candidates and what users did with them, until the metrics are computed.

use terrace_engine::rank::RankOutput;
use terrace_model::hstu::metrics::{auc, class_auc, sigmoid, softmax};

use super::metric_list::MetricList;

/// Probabilities `[samples, outputs]` and labels `[samples]`.
pub struct TaskScores {
    tasks: usize,
    outputs: usize,
    probabilities: Vec<f32>,
    labels: Vec<i64>,
}

impl TaskScores {
    pub fn new(tasks: usize) -> Self {
        TaskScores { tasks, outputs: 0, probabilities: Vec::new(), labels: Vec::new() }
    }

    /// `labels` has the action of each candidate.
    pub fn push(&mut self, output: &RankOutput, labels: &[i64]) {
        assert_eq!(output.candidates().len(), labels.len(), "each candidate has a label");
        if labels.is_empty() {
            return;
        }
        self.outputs = output.outputs;
        self.labels.extend(labels);
        for logits in output.candidates() {
            match self.tasks == 1 && 1 < logits.len() {
                true => self.probabilities.extend(softmax(logits)),
                false => self.probabilities.extend(logits.iter().map(|logit| sigmoid(*logit))),
            }
        }
    }

    pub fn samples(&self) -> usize {
        self.labels.len()
    }

    /// The AUC of each task, which is a bit of the action; of a single task with several outputs
    /// the mean of its classes, which are actions.
    pub fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        if self.tasks == 1 && 1 < self.outputs {
            let auc = class_auc(&self.probabilities, self.outputs, &self.labels);
            metrics.push("task0.AUC".to_owned(), auc);
            return metrics;
        }
        for task in 0..self.tasks {
            let of_task = self.probabilities.iter().skip(task).step_by(self.outputs.max(1));
            let scores: Vec<f32> = of_task.copied().collect();
            let bit = |sample: usize| self.labels[sample].checked_shr(task as u32).unwrap_or(0);
            let auc = auc(&scores, |sample| bit(sample) & 1 == 1);
            metrics.push(format!("task{task}.AUC"), auc);
        }
        metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(tasks: usize, samples: &[(&[f32], i64)]) -> String {
        let mut scores = TaskScores::new(tasks);
        // As two requests, of different lengths.
        for part in [&samples[..1], &samples[1..]] {
            let logits = part.iter().flat_map(|(logits, _)| logits.to_vec()).collect();
            let output = RankOutput { logits, outputs: samples[0].0.len(), ..Default::default() };
            let labels: Vec<i64> = part.iter().map(|(_, label)| *label).collect();
            scores.push(&output, &labels);
        }
        assert_eq!(scores.samples(), samples.len());
        scores.metrics().to_string()
    }

    #[test]
    fn a_task_is_a_bit_of_the_action() {
        let samples: [(&[f32], i64); 4] =
            [(&[0.1, 3.0], 0), (&[0.9, 2.0], 1), (&[0.2, 2.0], 2), (&[0.8, 1.0], 3)];
        let want = "    Metrics.task0.AUC:1.000000\n    Metrics.task1.AUC:0.125000";
        assert_eq!(metrics(2, &samples), want);
    }

    #[test]
    fn one_task_of_several_outputs_is_a_class() {
        let samples: [(&[f32], i64); 3] =
            [(&[2.0, 0.0, 0.0], 0), (&[0.0, 2.0, 0.0], 1), (&[2.0, 0.0, 0.0], 1)];
        // Of either class one of two pairs is in order, the other is a tie; none is of class 2.
        assert_eq!(metrics(1, &samples), "    Metrics.task0.AUC:0.750000");
    }

    #[test]
    fn a_task_without_both_labels_has_no_area() {
        let samples: [(&[f32], i64); 2] = [(&[0.3], 1), (&[0.4], 1)];
        assert_eq!(metrics(1, &samples), "    Metrics.task0.AUC:NaN");
    }
}
