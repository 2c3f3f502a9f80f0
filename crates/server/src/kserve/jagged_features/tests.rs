//! Users as they are given, and numbers that do not fit each other.

use super::*;
use crate::kserve::tensor::Tensor;
use crate::kserve::tensor_data::TensorData;

const LAYOUT: TokenLayout = TokenLayout { context: 2, has_actions: true };

/// Inputs in their order; an empty name is left out.
struct Given {
    values: Vec<i64>,
    lengths: Vec<i64>,
    candidates: Vec<i64>,
    users: Vec<i64>,
    totals: Option<Vec<i64>>,
}

fn read(given: Given, layout: TokenLayout) -> Result<Vec<RankRequest>, String> {
    let Given { values, lengths, candidates, users, totals } = given;
    let list = |names: [&str; 2], numbers| Tensor::list(names[1], TensorData::Int64(numbers));
    let mut tensors = vec![
        list(USERS, users),
        list(VALUES, values),
        Tensor::list(LENGTHS[0], TensorData::Int64(lengths)),
        list(CANDIDATES, candidates),
    ];
    tensors.extend(totals.map(|totals| list(TOTALS, totals)));
    let mut request = InferRequest { tensors, ..InferRequest::default() };
    let features = JaggedFeatures::take(&mut request).map_err(|error| error.message)?;
    features.users(layout, "tenant").map_err(|error| error.message)
}

/// Two users: contexts 1, 2 and 3, 4; histories of two items and of none; two candidates and one.
fn two_users(actions: [&[i64]; 2], totals: Option<Vec<i64>>) -> Given {
    let context = [1, 3, 2, 4];
    let items = [10, 11, 12, 13, 20];
    let values = [&context[..], &items, actions[0], actions[1]].concat();
    let lengths = [1, 1, 1, 1, 4, 1, actions[0].len() as i64, actions[1].len() as i64];
    Given { values, lengths: lengths.to_vec(), candidates: vec![2, 1], users: vec![7, -8], totals }
}

fn request(user: i64, context: &[i64], items: &[i64], actions: &[i64]) -> RankRequest {
    RankRequest {
        user: UserKey::new("tenant", &user.to_string()),
        context: context.to_vec(),
        items: items.to_vec(),
        actions: actions.to_vec(),
        candidates: Vec::new(),
        start: None,
        priority: 0,
        strict: false,
        timeout_ms: None,
    }
}

#[test]
fn users_are_taken_apart_feature_by_feature() {
    let want = [
        RankRequest { candidates: vec![12, 13], ..request(7, &[1, 2], &[10, 11], &[5, 6]) },
        RankRequest { candidates: vec![20], ..request(-8, &[3, 4], &[], &[]) },
    ];
    let with: [&[i64]; 2] = [&[5, 6, 9, 9], &[9]];
    let without: [&[i64]; 2] = [&[5, 6], &[]];
    for actions in [with, without] {
        for totals in [None, Some(vec![6, 2])] {
            let found = read(two_users(actions, totals), LAYOUT);
            assert_eq!(found.as_deref(), Ok(&want[..]));
        }
    }
}

#[test]
fn a_history_may_begin_where_the_cache_ends() {
    let given = |context: &[i64], items: &[i64], actions: &[i64], total| Given {
        values: [context, items, actions].concat(),
        lengths: vec![context.len() as i64, 0, items.len() as i64, actions.len() as i64],
        candidates: vec![1],
        users: vec![7],
        totals: Some(vec![total]),
    };
    // Behind two contextual features and three pairs of eight tokens.
    let found = read(given(&[], &[10, 20], &[5], 10), LAYOUT).expect("it begins with an item");
    let want = RankRequest { candidates: vec![20], start: Some(8), ..request(7, &[], &[10], &[5]) };
    assert_eq!(found, [want]);
    // Between an item and its action.
    let found = read(given(&[], &[10, 20], &[4, 5, 9], 10), LAYOUT);
    let between =
        RankRequest { candidates: vec![20], start: Some(7), ..request(7, &[], &[10], &[4, 5]) };
    assert_eq!(found, Ok(vec![between]));
    // Where both could be meant, the last actions are those of candidates.
    let found = read(given(&[], &[10, 20], &[4, 5], 10), LAYOUT);
    let behind =
        RankRequest { candidates: vec![20], start: Some(8), ..request(7, &[], &[10], &[4]) };
    assert_eq!(found, Ok(vec![behind]));
    let error = read(given(&[], &[10, 20], &[5], 2), LAYOUT).expect_err("less than is given");
    assert!(error.contains("no history of this model that ends at token 2"), "{error}");
}

#[test]
fn models_without_actions_have_one_feature_less() {
    let layout = TokenLayout { context: 0, has_actions: false };
    let given = Given {
        values: vec![1, 2, 3],
        lengths: vec![2, 1],
        candidates: vec![1, 0],
        users: vec![7, 8],
        totals: Some(vec![1, 1]),
    };
    let want = [
        RankRequest { candidates: vec![2], ..request(7, &[], &[1], &[]) },
        request(8, &[], &[3], &[]),
    ];
    assert_eq!(read(given, layout).as_deref(), Ok(&want[..]));
    let none = Given {
        values: Vec::new(),
        lengths: Vec::new(),
        candidates: Vec::new(),
        users: Vec::new(),
        totals: None,
    };
    assert_eq!(read(none, layout), Ok(Vec::new()));
}

#[test]
fn numbers_that_do_not_fit_are_refused_with_them() {
    let good = || two_users([&[5, 6], &[]], Some(vec![6, 2]));
    assert!(read(good(), LAYOUT).is_ok());
    let set = |change: fn(&mut Given)| {
        let mut given = good();
        change(&mut given);
        read(given, LAYOUT).expect_err("something does not fit")
    };
    for (change, part) in [
        (
            (|it| it.lengths.truncate(7)) as fn(&mut Given),
            "lengths has 7 numbers; num_candidates has 2 users, and the model 4 features, so it \
             must have 8",
        ),
        (|it| it.users.push(9), "user_ids has 3 numbers"),
        (|it| it.totals = Some(vec![6]), "total_history_lengths has 1 numbers"),
        (|it| it.lengths[0] = -1, "lengths[0] is -1, and 11 of the 11 values are left"),
        (|it| it.lengths[0] = i64::MAX, "lengths[0] is 9223372036854775807"),
        (|it| it.lengths[4] = 9, "lengths[4] is 9, and 7 of the 11 values are left"),
        (|it| it.values.push(1), "values has 12 ids, and lengths adds up to 1 fewer"),
        (|it| it.candidates[0] = 5, "user 0 (id 7): it has 4 items, and 5 of them"),
        (|it| it.candidates[1] = -1, "user 1 (id -8): it has 1 items, and -1 of them"),
        (|it| it.totals = Some(vec![5, 2]), "user 0 (id 7): 2 contextual ids, 2 items of history"),
        (|it| it.totals = Some(vec![6, -1]), "user 1 (id -8)"),
        (|it| it.candidates = vec![0; 1025], "1025 users, the limit is 1024"),
    ] {
        let error = set(change);
        assert!(error.contains(part), "{error}");
    }
}
