//! Features of a batch as the original passes them: feature by feature, and in each the rows of all
//! users one after the other. The features are those of context, then items, then actions.

use super::token_layout::TokenLayout;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JaggedFeatures {
    pub values: Vec<i64>,
    /// `[features, users]`
    pub lengths: Vec<usize>,
    pub users: usize,
}

impl JaggedFeatures {
    /// What one user has of one feature.
    pub fn of(&self, feature: usize, user: usize) -> &[i64] {
        let at = feature * self.users + user;
        let start: usize = self.lengths[..at].iter().sum();
        &self.values[start..start + self.lengths[at]]
    }

    pub fn features(&self) -> usize {
        self.lengths.len() / self.users
    }

    /// Without the first tokens of each user, so many as are cached.
    #[must_use]
    pub fn strip_cached(&self, cached: &[usize]) -> JaggedFeatures {
        let context = self.features() - 2;
        let layout = TokenLayout { context, has_actions: true };
        let mut stripped =
            JaggedFeatures { values: Vec::new(), lengths: Vec::new(), users: self.users };
        for feature in 0..self.features() {
            for (user, cached) in cached.iter().enumerate() {
                let [of_context, items, actions] = layout.prefix(*cached);
                let gone = match feature.checked_sub(context) {
                    None => usize::from(feature < of_context),
                    Some(0) => items,
                    Some(_) => actions,
                };
                let values = self.of(feature, user);
                let left = &values[gone.min(values.len())..];
                stripped.values.extend(left);
                stripped.lengths.push(left.len());
            }
        }
        stripped
    }
}
