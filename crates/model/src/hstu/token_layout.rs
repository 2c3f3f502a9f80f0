//! In which order the features of a user become tokens.
//!
//! First the context, one token a feature; then each item of the history, followed by the action
//! that was taken on it where the model looks at actions; then candidates, which are items alone.
//! A token's position says what it is, so what is cached of a history is a number of tokens, and
//! may end between an item and its action.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLayout {
    /// Features of context.
    pub context: usize,
    /// Whether an action follows each item.
    pub has_actions: bool,
}

/// What a position of the history holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryToken {
    Context(usize),
    Item(usize),
    Action(usize),
}

impl TokenLayout {
    /// Tokens of a history of so many items.
    pub fn history_tokens(&self, items: usize) -> usize {
        self.context + items * self.item_tokens()
    }

    /// Tokens of an item: itself, and its action.
    pub fn item_tokens(&self) -> usize {
        if self.has_actions { 2 } else { 1 }
    }

    pub fn token(&self, position: usize) -> HistoryToken {
        match position.checked_sub(self.context) {
            None => HistoryToken::Context(position),
            Some(after) if self.has_actions && after % 2 == 1 => HistoryToken::Action(after / 2),
            Some(after) => HistoryToken::Item(after >> u32::from(self.has_actions)),
        }
    }

    /// How much of each feature the first `tokens` are: context, items, actions.
    pub fn prefix(&self, tokens: usize) -> [usize; 3] {
        let context = tokens.min(self.context);
        let after = tokens - context;
        match self.has_actions {
            true => [context, after.div_ceil(2), after / 2],
            false => [context, after, 0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_tokens_and_prefixes_count_them() {
        for (context, has_actions) in [(0, true), (2, true), (3, false), (0, false)] {
            let layout = TokenLayout { context, has_actions };
            let mut counts = [0; 3];
            for position in 0..20 {
                assert_eq!(layout.prefix(position), counts);
                let (kind, number) = match layout.token(position) {
                    HistoryToken::Context(feature) => (0, feature),
                    HistoryToken::Item(item) => (1, item),
                    HistoryToken::Action(item) => (2, item),
                };
                assert_eq!(number, counts[kind], "position {position}");
                counts[kind] += 1;
            }
        }
    }
}
