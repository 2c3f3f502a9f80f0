//! Rust text with its comments and literals blanked out, so that rules see code alone.
//!
//! Not a parser: it knows just enough of the lexical grammar to tell code from comments, strings
//! and characters. Invariant: the result has the same lines, and the same columns in them.

/// `text` with every character inside a comment, a string or a character literal made a space.
pub fn code_only(text: &str) -> String {
    let mut scanner = Scanner { chars: text.chars().collect(), at: 0, out: String::new() };
    while scanner.at < scanner.chars.len() {
        scanner.step();
    }
    scanner.out
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    out: String,
}

impl Scanner {
    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.blank_while(|s| s.peek(0) != '\n'),
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(),
            ('\'', _) if self.is_char_literal() => self.char_literal(),
            ('\'', _) => self.keep(),
            (c, _) if is_word(c) => self.word(),
            _ => self.keep(),
        }
    }

    /// An identifier, a keyword, a number, or the prefix of a literal such as `br#"…"#`.
    fn word(&mut self) {
        let start = self.at;
        while is_word(self.peek(0)) {
            self.keep();
        }
        let word: String = self.chars[start..self.at].iter().collect();
        if matches!(word.as_str(), "r" | "br" | "cr") {
            let hashes = (0..).take_while(|&ahead| self.peek(ahead) == '#').count();
            if self.peek(hashes) == '"' {
                self.raw_string(hashes);
            }
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        self.blank(hashes + 1);
        while self.at < self.chars.len() {
            let closes = self.peek(0) == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == '#');
            if closes {
                return self.blank(hashes + 1);
            }
            self.blank(1);
        }
    }

    fn string(&mut self) {
        self.blank(1);
        while self.at < self.chars.len() && self.peek(0) != '"' {
            self.blank(if self.peek(0) == '\\' { 2 } else { 1 });
        }
        self.blank(1);
    }

    /// `'a'` and `'\n'` are characters; `'a` in `&'a str` is a lifetime.
    fn is_char_literal(&self) -> bool {
        self.peek(1) == '\\' || self.peek(2) == '\''
    }

    fn char_literal(&mut self) {
        self.blank(if self.peek(1) == '\\' { 3 } else { 2 });
        self.blank_while(|s| s.peek(0) != '\'');
        self.blank(1);
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => {
                    depth += 1;
                    self.blank(2);
                }
                ('*', '/') => {
                    depth -= 1;
                    self.blank(2);
                }
                _ => self.blank(1),
            }
            if depth == 0 || self.at >= self.chars.len() {
                return;
            }
        }
    }

    fn blank_while(&mut self, goes_on: impl Fn(&Self) -> bool) {
        while self.at < self.chars.len() && goes_on(self) {
            self.blank(1);
        }
    }

    /// Replaces `count` characters by spaces; line ends stay.
    fn blank(&mut self, count: usize) {
        for _ in 0..count.min(self.chars.len() - self.at) {
            let keep_line = self.chars[self.at] == '\n';
            self.out.push(if keep_line { '\n' } else { ' ' });
            self.at += 1;
        }
    }

    fn keep(&mut self) {
        self.out.push(self.chars[self.at]);
        self.at += 1;
    }

    /// The character `ahead` of the next one, NUL past the end.
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}
