//! Cross entropy of a few classes.

/// The loss, and each class's share.
pub(super) fn cross_entropy(logits: &[f64], class: usize) -> (f64, Vec<f64>) {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
    let log_sum = most + sum.ln();
    let shares = logits.iter().map(|logit| (logit - log_sum).exp()).collect();
    (log_sum - logits[class], shares)
}

/// The class that a sequence has as its target, checked before.
pub(super) fn class_of(target: i32) -> usize {
    usize::try_from(target).expect("classes were checked")
}

/// What is wrong with a sequence's targets, where they should be one class.
pub(super) fn check_class(targets: &[i32], classes: usize) -> Result<(), String> {
    let is_class = |target: i32| usize::try_from(target).is_ok_and(|class| class < classes);
    match targets {
        [target] if is_class(*target) => Ok(()),
        [target] => Err(format!("the class is {target}, and there are {classes}")),
        _ => Err(format!("there are {} targets of a sequence that has one class", targets.len())),
    }
}
