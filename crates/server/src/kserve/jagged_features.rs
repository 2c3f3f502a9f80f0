//! The users of a request to a recommender, as NVIDIA's exported models take them.
//!
//! `lengths` has a number for each feature and user, feature by feature: first the contextual
//! features in the model's order, then items, then actions. `values` has the ids in the same order.
//! A user's last items are its candidates, as many as `num_candidates` says; actions of candidates
//! may stand behind the others, and are ignored.

use terrace_engine::rank::{RankRequest, UserKey};
use terrace_model::hstu::TokenLayout;

use super::infer_error::InferError;
use super::infer_request::InferRequest;

/// Users of one request.
const USERS_MOST: usize = 1024;

pub const VALUES: [&str; 2] = ["values", "INPUT__0"];
pub const LENGTHS: [&str; 2] = ["lengths", "INPUT__1"];
pub const CANDIDATES: [&str; 2] = ["num_candidates", "INPUT__2"];
pub const USERS: [&str; 2] = ["user_ids", "INPUT__3"];
pub const TOTALS: [&str; 2] = ["total_history_lengths", "INPUT__4"];

/// The inputs of a request, all of them lists of INT64.
pub struct JaggedFeatures {
    values: Vec<i64>,
    lengths: Vec<i64>,
    candidates: Vec<i64>,
    users: Vec<i64>,
    /// Tokens of each history in all; absent where whole histories are given.
    totals: Option<Vec<i64>>,
}

/// What one user has, in `values`.
#[derive(Default)]
struct UserFeatures {
    context: Vec<i64>,
    items: Vec<i64>,
    actions: Vec<i64>,
}

impl JaggedFeatures {
    pub fn take(request: &mut InferRequest) -> Result<Self, InferError> {
        let features = Self {
            values: request.require_input(&VALUES)?.into_int64()?,
            lengths: request.require_input(&LENGTHS)?.into_int64()?,
            candidates: request.require_input(&CANDIDATES)?.into_int64()?,
            users: request.require_input(&USERS)?.into_int64()?,
            totals: match request.take_input(&TOTALS) {
                Some(tensor) => Some(tensor.into_int64()?),
                None => None,
            },
        };
        let inputs = [VALUES, LENGTHS, CANDIDATES, USERS, TOTALS];
        request.finish(&inputs.concat())?;
        Ok(features)
    }

    /// A request for each user.
    pub fn users(self, layout: TokenLayout, tenant: &str) -> Result<Vec<RankRequest>, InferError> {
        self.check_counts(layout)?;
        let features = self.split(layout)?;
        let mut requests = Vec::with_capacity(features.len());
        for (index, features) in features.into_iter().enumerate() {
            let total = self.totals.as_ref().map(|totals| totals[index]);
            let given = GivenUser { features, candidates: self.candidates[index], total };
            let user = UserKey::new(tenant, &self.users[index].to_string());
            requests.push(given.request(layout, user).map_err(|why| {
                let id = self.users[index];
                InferError::invalid(format!("user {index} (id {id}): {why}"))
            })?);
        }
        Ok(requests)
    }

    fn check_counts(&self, layout: TokenLayout) -> Result<(), InferError> {
        let users = self.candidates.len();
        if users > USERS_MOST {
            return Err(InferError::invalid(format!(
                "num_candidates has {users} users, the limit is {USERS_MOST}"
            )));
        }
        let features = features_of(layout);
        let counts = [
            ("lengths", self.lengths.len(), features * users),
            ("user_ids", self.users.len(), users),
            ("total_history_lengths", self.totals.as_ref().map_or(users, Vec::len), users),
        ];
        for (name, found, wanted) in counts {
            if found != wanted {
                return Err(InferError::invalid(format!(
                    "{name} has {found} numbers; num_candidates has {users} users, and the model \
                     {features} features, so it must have {wanted}"
                )));
            }
        }
        Ok(())
    }

    /// The features of each user.
    fn split(&self, layout: TokenLayout) -> Result<Vec<UserFeatures>, InferError> {
        let users = self.users.len();
        let mut split: Vec<_> = (0..users).map(|_| UserFeatures::default()).collect();
        let mut left = self.values.as_slice();
        for (index, length) in self.lengths.iter().enumerate() {
            let Some((ids, rest)) =
                usize::try_from(*length).ok().and_then(|it| left.split_at_checked(it))
            else {
                let (given, left) = (self.values.len(), left.len());
                return Err(InferError::invalid(format!(
                    "lengths[{index}] is {length}, and {left} of the {given} values are left"
                )));
            };
            left = rest;
            let user = &mut split[index % users];
            let into = match index / users {
                feature if feature < layout.context => &mut user.context,
                feature if feature == layout.context => &mut user.items,
                _ => &mut user.actions,
            };
            into.extend_from_slice(ids);
        }
        match left.len() {
            0 => Ok(split),
            more => Err(InferError::invalid(format!(
                "values has {} ids, and lengths adds up to {more} fewer",
                self.values.len()
            ))),
        }
    }
}

/// Contextual ones, items, and actions where the model looks at them.
fn features_of(layout: TokenLayout) -> usize {
    layout.context + layout.item_tokens()
}

/// A user as it was given.
struct GivenUser {
    features: UserFeatures,
    candidates: i64,
    total: Option<i64>,
}

impl GivenUser {
    fn request(self, layout: TokenLayout, user: UserKey) -> Result<RankRequest, String> {
        let UserFeatures { context, mut items, mut actions } = self.features;
        let history = usize::try_from(self.candidates).ok();
        let history = history.and_then(|candidates| items.len().checked_sub(candidates));
        let history = history.ok_or_else(|| {
            let (candidates, items) = (self.candidates, items.len());
            format!("it has {items} items, and {candidates} of them are to be candidates")
        })?;
        let candidates = items.split_off(history);
        let of_history = actions_of_history(actions.len(), candidates.len());
        let mut forms = of_history.filter_map(|count| {
            let given = context.len() + items.len() + count;
            let start = start_of(self.total, given)?;
            let [in_context, in_items, in_actions] = layout.prefix(start);
            let is_whole = context.len() + in_context == layout.context;
            let has_pairs = !layout.has_actions || items.len() + in_items == count + in_actions;
            (is_whole && has_pairs).then_some((count, start))
        });
        let Some((count, start)) = forms.next() else {
            let (context, items, actions) = (context.len(), items.len(), actions.len());
            return Err(format!(
                "{context} contextual ids, {items} items of history and {actions} actions are no \
                 history of this model{}; it has {} contextual features, and an action for each \
                 item where it looks at actions",
                self.total.map(|it| format!(" that ends at token {it}")).unwrap_or_default(),
                layout.context,
            ));
        };
        actions.truncate(count);
        Ok(RankRequest {
            user,
            context,
            items,
            actions,
            candidates,
            start: (start > 0).then_some(start),
            priority: 0,
            strict: false,
            timeout_ms: None,
        })
    }
}

/// How many actions may be those of the history: all but those of candidates, or all.
fn actions_of_history(actions: usize, candidates: usize) -> impl Iterator<Item = usize> {
    let without = actions.checked_sub(candidates);
    without.into_iter().chain(Some(actions).filter(|_| candidates > 0))
}

/// Where tokens begin that end the history; all of it is given where its length is not.
fn start_of(total: Option<i64>, given: usize) -> Option<usize> {
    match total {
        None => Some(0),
        Some(total) => usize::try_from(total).ok()?.checked_sub(given),
    }
}

#[cfg(test)]
mod tests;
