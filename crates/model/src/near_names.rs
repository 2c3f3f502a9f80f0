//! Names that a mistyped one may have meant: a slip of a letter or two, or a name that was typed
//! in part. A name of another meaning is worse than none.

/// How many letters a name may differ from another to be taken for a slip of it.
const SLIP_LETTERS: usize = 2;
/// In shorter names one letter is much.
const SHORT_NAME: usize = 4;

/// Those of the known names that `name` may have meant, the nearest first.
pub fn near_names<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let slip = |known: &str| match name.len().min(known.len()) < SHORT_NAME {
        true => 1,
        false => SLIP_LETTERS,
    };
    let near = |known: &'a str| match edits(name, known) {
        edits if edits <= slip(known) => Some((edits, known)),
        edits if is_part(name, known) => Some((edits, known)),
        _ => None,
    };
    let mut near: Vec<(usize, &str)> = known.into_iter().filter_map(near).collect();
    near.sort_unstable();
    near.into_iter().map(|(_, known)| known).collect()
}

/// Whether `name` is the first or the last words of `known`.
fn is_part(name: &str, known: &str) -> bool {
    let ends = |c: char| matches!(c, '-' | '.' | '_');
    known.strip_prefix(name).is_some_and(|rest| rest.starts_with(ends))
        || known.strip_suffix(name).is_some_and(|rest| rest.ends_with(ends))
}

/// Letters to insert, drop, change or swap with the next to make `b` of `a`.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let change = rows[i][j] + usize::from(a[i] != b[j]);
            let mut least = change.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, want: &[&str]) {
        let known = [
            "port",
            "model",
            "model-name",
            "seed",
            "log-level",
            "log-format",
            "top-k",
            "keep_alive",
        ];
        assert_eq!(near_names(name, known), want);
    }

    #[test]
    fn slips_and_parts_of_names_are_near() {
        check("prot", &["port"]);
        check("modle", &["model"]);
        check("model_name", &["model-name"]);
        check("log", &["log-level", "log-format"]);
        check("level", &["log-level"]);
        check("topk", &["top-k"]);
        check("alive", &["keep_alive"]);
    }

    #[test]
    fn other_meanings_are_not_near() {
        for name in ["max-model-len", "served-model-name", "speed-up", "colour", "mod", "p"] {
            check(name, &[]);
        }
    }
}
