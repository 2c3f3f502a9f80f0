//! The known name that a misspelt one is most like.

/// Shorter ones are like many, and longer ones are no slips of the hand.
const NAME_CHARS_MIN: usize = 3;
const NAME_CHARS_MAX: usize = 64;

/// The closest of `known`, if it is close: one slip in four characters, at most three.
pub fn nearest_name(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let name: Vec<char> = name.chars().take(NAME_CHARS_MAX + 1).collect();
    if !(NAME_CHARS_MIN..=NAME_CHARS_MAX).contains(&name.len()) {
        return None;
    }
    let slips_max = (name.len() / 4).clamp(1, 3);
    let slips = known.iter().map(|&known| (slips(&name, known), known));
    slips.filter(|(slips, _)| *slips <= slips_max).min_by_key(|(slips, _)| *slips).map(|(_, n)| n)
}

/// How many letters were changed, added, left out or swapped with the next.
fn slips(name: &[char], known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=known.len()).collect();
    for (row, letter) in name.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, wanted) in known.iter().enumerate() {
            let changed = above[column] + usize::from(letter != wanted);
            let mut fewest = changed.min(above[column + 1] + 1).min(current[column] + 1);
            let is_swapped =
                row > 0 && column > 0 && *letter == known[column - 1] && name[row - 1] == *wanted;
            if is_swapped {
                fewest = fewest.min(before[column - 1] + 1);
            }
            current.push(fewest);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[known.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_are_found() {
        let known = ["gpucache", "gpucacheper", "persistent_db", "path", "type"];
        let check = |name: &str, want: Option<&str>| {
            assert_eq!(nearest_name(name, &known), want, "{name}");
        };
        check("gpucacheperr", Some("gpucacheper"));
        check("gpu_cache", Some("gpucache"));
        check("persistantdb", Some("persistent_db"));
        check("apth", Some("path"));
        check("tyep", Some("type"));
        check("comment", None);
        check("x", None);
        check("", None);
        check(&"x".repeat(100_000), None);
    }
}
