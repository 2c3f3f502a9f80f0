//! The arrays by which the original's kernels find a batch's pages, for who drives them so.

/// A user of a batch.
#[derive(Clone, Copy, Debug)]
pub struct MetadataUser<'a> {
    pub pages: &'a [i32],
    /// Tokens of the history that were there before.
    pub cached: usize,
    /// All tokens of the history.
    pub total: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvMetadata {
    pub kv_indices: Vec<i32>,
    /// `[users + 1]`
    pub kv_indptr: Vec<i32>,
    /// Tokens in the last page, 1 and more.
    pub kv_last_page_len: Vec<i32>,
    /// `[users + 1]`
    pub total_history_offsets: Vec<i32>,
    /// `[users + 1]`
    pub new_history_offsets: Vec<i32>,
    /// The user of each new token, and its position.
    pub batch_indices: Vec<i32>,
    pub position: Vec<i32>,
}

impl KvMetadata {
    pub fn of(page_tokens: usize, users: &[MetadataUser<'_>]) -> Self {
        let zero = || vec![0];
        let mut metadata = KvMetadata {
            kv_indptr: zero(),
            total_history_offsets: zero(),
            new_history_offsets: zero(),
            ..KvMetadata::default()
        };
        let after = |offsets: &mut Vec<i32>, count: usize| {
            offsets.push(offsets.last().expect("it begins with 0") + count as i32);
        };
        for (index, user) in users.iter().enumerate() {
            let MetadataUser { pages, cached, total } = *user;
            metadata.kv_indices.extend(pages);
            after(&mut metadata.kv_indptr, pages.len());
            let last = total.checked_sub(1).map_or(0, |before| before % page_tokens + 1);
            metadata.kv_last_page_len.push(last as i32);
            after(&mut metadata.total_history_offsets, total);
            after(&mut metadata.new_history_offsets, total - cached);
            metadata.batch_indices.extend((cached..total).map(|_| index as i32));
            metadata.position.extend((cached..total).map(|position| position as i32));
        }
        metadata
    }
}
