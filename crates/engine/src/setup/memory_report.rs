//! Where an engine's memory went, for the user to see at start.

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// `cpu`, or the GPU's number and name.
    pub device: String,
    pub weight_bytes: usize,
    /// What each step reads of them.
    pub step_weight_bytes: usize,
    pub kv_bytes: usize,
    pub kv_pages: usize,
    /// Tokens of a page, in each group of layers.
    pub page_tokens: Vec<usize>,
    /// Pages of host memory for those that leave the device.
    pub store_pages: usize,
    /// Pages that a sequence with the server's own cache holds at most, however long it gets;
    /// absent where everything is kept.
    pub seq_pages: Option<usize>,
    /// Tokens of the longest request that the options and the model allow, prompt and output
    /// together, whether or not the pages hold them.
    pub longest_tokens: usize,
    pub scratch_bytes: usize,
    pub threads: usize,
}

impl MemoryReport {
    /// Pages that a sequence of so many tokens holds at most.
    pub fn pages_for(&self, tokens: usize) -> usize {
        self.seq_pages.unwrap_or_else(|| self.dense_pages(tokens))
    }

    /// Tokens of the longest sequence that is allowed and fits into the pages, where everything is
    /// kept.
    pub fn held_tokens(&self) -> usize {
        let (mut held, mut beyond) = (0, self.longest_tokens.saturating_add(1));
        while 1 < beyond - held {
            let middle = held + (beyond - held) / 2;
            match self.dense_pages(middle) <= self.kv_pages {
                true => held = middle,
                false => beyond = middle,
            }
        }
        held
    }

    /// Tokens of a page, as a text for people.
    pub fn page_tokens_text(&self) -> String {
        let groups: Vec<String> = self.page_tokens.iter().map(usize::to_string).collect();
        groups.join(" or ")
    }

    fn dense_pages(&self, tokens: usize) -> usize {
        self.page_tokens.iter().map(|of_page| tokens.div_ceil(*of_page)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kv_pages: usize, page_tokens: &[usize], longest_tokens: usize) -> MemoryReport {
        MemoryReport {
            device: "cpu".into(),
            weight_bytes: 0,
            step_weight_bytes: 0,
            kv_bytes: 0,
            kv_pages,
            store_pages: 0,
            page_tokens: page_tokens.to_vec(),
            seq_pages: None,
            longest_tokens,
            scratch_bytes: 0,
            threads: 1,
        }
    }

    #[test]
    fn a_sequence_has_pages_in_every_group() {
        let report = report(10, &[16, 64], 1000);
        assert_eq!(report.page_tokens_text(), "16 or 64");
        assert_eq!([1, 16, 17, 64, 65].map(|tokens| report.pages_for(tokens)), [2, 2, 3, 5, 7]);
        let bounded = MemoryReport { seq_pages: Some(3), ..report };
        assert_eq!(bounded.pages_for(1000), 3);
    }

    #[test]
    fn what_the_pages_hold_is_the_longest_sequence_that_fits() {
        for (pages, page_tokens, longest) in
            [(10, &[16][..], 1000), (10, &[16, 64], 1000), (9, &[16, 16], 1000), (10, &[16], 40)]
        {
            let report = report(pages, page_tokens, longest);
            let held = report.held_tokens();
            assert!(held <= longest && report.pages_for(held) <= pages, "{held}: {report:?}");
            let is_longest = held == longest || pages < report.pages_for(held + 1);
            assert!(is_longest, "{held}: {report:?}");
        }
    }
}
