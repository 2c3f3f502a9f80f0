//! How a token is sampled from a row of scores.

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// The best token, on ties the one with the lowest id.
    Greedy,
    Draw(Draw),
}

/// What is drawn from, and with which random number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Above 0.
    pub temperature: f32,
    /// Keep this many tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the best tokens that hold this much of the probability; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens with at least this share of the best one's probability; 0 keeps all.
    pub min_p: f32,
    /// Keep the tokens whose surprisal is nearest to the entropy, as many as hold this much of the
    /// probability; 1 keeps all. As in transformers it comes last, after top-k, top-p and min-p.
    pub typical_p: f32,
    pub seed: u64,
    /// Which of the request's outputs this is.
    pub choice: u32,
    /// Position of the token to be sampled. It picks the random number, so the same token must come
    /// with the same position however the request is scheduled.
    pub position: u64,
}
