//! Which optimiser, and its numbers; those that are left out are PyTorch's.

use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimiserKind {
    Adam,
    AdamW,
    Adamax,
    Adadelta,
    RmsProp,
    Sgd,
}

impl OptimiserKind {
    pub const ALL: [OptimiserKind; 6] = [
        OptimiserKind::Adam,
        OptimiserKind::AdamW,
        OptimiserKind::Adamax,
        OptimiserKind::Adadelta,
        OptimiserKind::RmsProp,
        OptimiserKind::Sgd,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            OptimiserKind::Adam => "Adam",
            OptimiserKind::AdamW => "AdamW",
            OptimiserKind::Adamax => "Adamax",
            OptimiserKind::Adadelta => "Adadelta",
            OptimiserKind::RmsProp => "RMSprop",
            OptimiserKind::Sgd => "SGD",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The arguments `optimizer.*`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimiserOptions {
    pub kind: OptimiserKind,
    pub learning_rate: Option<f64>,
    pub weight_decay: Option<f64>,
    pub eps: Option<f64>,
    /// Of RMSprop and SGD.
    pub momentum: Option<f64>,
    /// Of SGD.
    pub dampening: Option<f64>,
    /// Of Adam, AdamW and Adamax.
    pub adam_betas: Option<[f64; 2]>,
    /// Of Adadelta.
    pub adadelta_rho: Option<f64>,
    /// Of RMSprop, which keys_values spells `rmspprop_alpha`.
    pub rmsprop_alpha: Option<f64>,
}

impl OptimiserOptions {
    /// With PyTorch's numbers.
    pub fn new(kind: OptimiserKind) -> Self {
        OptimiserOptions {
            kind,
            learning_rate: None,
            weight_decay: None,
            eps: None,
            momentum: None,
            dampening: None,
            adam_betas: None,
            adadelta_rho: None,
            rmsprop_alpha: None,
        }
    }

    pub fn learning_rate(&self) -> f64 {
        self.learning_rate.unwrap_or(match self.kind {
            OptimiserKind::Adam | OptimiserKind::AdamW | OptimiserKind::Sgd => 1e-3,
            OptimiserKind::Adamax => 2e-3,
            OptimiserKind::Adadelta => 1.0,
            OptimiserKind::RmsProp => 1e-2,
        })
    }

    pub(super) fn weight_decay(&self) -> f64 {
        let default = if self.kind == OptimiserKind::AdamW { 1e-2 } else { 0.0 };
        self.weight_decay.unwrap_or(default)
    }

    pub(super) fn eps(&self) -> f64 {
        let default = if self.kind == OptimiserKind::Adadelta { 1e-6 } else { 1e-8 };
        self.eps.unwrap_or(default)
    }

    pub(super) fn betas(&self) -> [f64; 2] {
        self.adam_betas.unwrap_or([0.9, 0.999])
    }

    /// Refuses numbers that PyTorch refuses, and those that this optimiser has no use for.
    pub(super) fn check(&self) -> Result<(), Error> {
        use OptimiserKind::{Adadelta, Adam, AdamW, Adamax, RmsProp, Sgd};
        let [first, second] = self.adam_betas.map_or([None; 2], |betas| betas.map(Some));
        let adams: &[OptimiserKind] = &[Adam, AdamW, Adamax];
        let all: &[OptimiserKind] = &OptimiserKind::ALL;
        let not_sgd: &[OptimiserKind] = &[Adam, AdamW, Adamax, Adadelta, RmsProp];
        // The largest number is the first that is not allowed.
        let numbers = [
            ("optimizer.learning_rate", self.learning_rate, f64::INFINITY, all),
            ("optimizer.weight_decay", self.weight_decay, f64::INFINITY, all),
            ("optimizer.eps", self.eps, f64::INFINITY, not_sgd),
            ("optimizer.momentum", self.momentum, f64::INFINITY, &[RmsProp, Sgd]),
            ("optimizer.dampening", self.dampening, f64::INFINITY, &[Sgd]),
            ("optimizer.adam_betas", first, 1.0, adams),
            ("optimizer.adam_betas", second, 1.0, adams),
            ("optimizer.adadelta_rho", self.adadelta_rho, 1.0 + f64::EPSILON, &[Adadelta]),
            ("optimizer.rmspprop_alpha", self.rmsprop_alpha, f64::INFINITY, &[RmsProp]),
        ];
        for (argument, value, end, kinds) in numbers {
            let Some(value) = value else { continue };
            if !kinds.contains(&self.kind) {
                let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
                let wanted = format!(
                    "left out: {} has none, it is for {}",
                    self.kind.name(),
                    names.join(", ")
                );
                return Err(Error::BadArgument { argument, value: value.to_string(), wanted });
            }
            if !(0.0..end).contains(&value) {
                let wanted = match end {
                    f64::INFINITY => "0 or more".to_owned(),
                    _ => "from 0 to 1".to_owned(),
                };
                return Err(Error::BadArgument { argument, value: value.to_string(), wanted });
            }
        }
        Ok(())
    }
}
