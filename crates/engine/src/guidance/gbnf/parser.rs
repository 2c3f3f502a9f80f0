//! Reads GBNF.

use super::syntax::{Choices, Item, Repeat, Rule, SourcePosition, Symbol, is_name_char};

/// Groups inside groups.
const MAX_DEPTH: usize = 100;
/// Repetitions are written out by the compiler.
const MAX_REPEAT: u32 = 10_000;

pub(super) struct Parser<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    place: SourcePosition,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Self {
        let place = SourcePosition { line: 1, column: 1 };
        Parser { rest: text.chars().peekable(), place, depth: 0 }
    }

    pub fn rules(mut self) -> Result<Vec<Rule>, String> {
        let mut rules = Vec::new();
        self.skip_lines();
        while self.rest.peek().is_some() {
            rules.push(self.rule()?);
            self.skip_lines();
        }
        Ok(rules)
    }

    fn rule(&mut self) -> Result<Rule, String> {
        let place = self.place;
        let name = self.name();
        if name.is_empty() {
            return self.wrong("a rule's name is missing");
        }
        self.skip_blanks();
        for c in "::=".chars() {
            if !self.take(c) {
                return self.wrong(&format!("\"::=\" must follow the rule's name {name:?}"));
            }
        }
        self.skip_lines();
        let choices = self.choices()?;
        match self.rest.peek() {
            None | Some('\n' | '\r') => Ok(Rule { name, place, choices }),
            Some(c) => {
                let c = *c;
                self.wrong(&format!("{c:?} does not belong here"))
            }
        }
    }

    fn choices(&mut self) -> Result<Choices, String> {
        let mut choices = vec![self.sequence()?];
        loop {
            // An alternative may begin on a line of its own.
            let before = (self.rest.clone(), self.place);
            self.skip_lines();
            if !self.take('|') {
                if self.depth == 0 {
                    (self.rest, self.place) = before;
                }
                return Ok(choices);
            }
            self.skip_lines();
            choices.push(self.sequence()?);
        }
    }

    fn sequence(&mut self) -> Result<Vec<Item>, String> {
        let mut items = Vec::new();
        loop {
            match self.depth {
                0 => self.skip_blanks(),
                _ => self.skip_lines(),
            }
            match self.rest.peek().copied() {
                None | Some('|' | ')' | '\n' | '\r') => return Ok(items),
                Some(_) => items.push(self.item()?),
            }
        }
    }

    fn item(&mut self) -> Result<Item, String> {
        let place = self.place;
        let what = match self.rest.peek().copied() {
            Some('"') => self.text()?,
            Some('[') => self.class()?,
            Some('.') => {
                self.next();
                Symbol::AnyChar
            }
            Some('(') => self.group()?,
            Some(c) if is_name_char(c) => Symbol::Rule(self.name(), place),
            Some('<' | '!') => return self.wrong("tokens by name or id are not supported"),
            Some(c) => return self.wrong(&format!("{c:?} does not belong here")),
            None => return self.wrong("the grammar ends too early"),
        };
        let repeat = self.repeat()?;
        Ok(Item { what, repeat })
    }

    fn group(&mut self) -> Result<Symbol, String> {
        self.next();
        self.depth += 1;
        if MAX_DEPTH < self.depth {
            return self.wrong(&format!("groups are nested more than {MAX_DEPTH} deep, the limit"));
        }
        let choices = self.choices()?;
        if !self.take(')') {
            return self.wrong("\")\" is missing");
        }
        self.depth -= 1;
        Ok(Symbol::Group(choices))
    }

    fn text(&mut self) -> Result<Symbol, String> {
        self.next();
        let mut text = String::new();
        loop {
            match self.rest.peek().copied() {
                None | Some('\n') => return self.wrong("a quote is missing"),
                Some('"') => break,
                Some(_) => text.push(self.character()?),
            }
        }
        self.next();
        Ok(Symbol::Text(text))
    }

    fn class(&mut self) -> Result<Symbol, String> {
        self.next();
        let is_negated = self.take('^');
        let mut ranges = Vec::new();
        loop {
            match self.rest.peek().copied() {
                None | Some('\n') => return self.wrong("\"]\" is missing"),
                Some(']') => break,
                Some(_) => {}
            }
            let first = self.character()?;
            let is_range = self.rest.peek() == Some(&'-') && self.second() != Some(']');
            let last = match is_range {
                true => {
                    self.next();
                    self.character()?
                }
                false => first,
            };
            if last < first {
                return self.wrong(&format!("the range from {first:?} to {last:?} is empty"));
            }
            ranges.push((first, last));
        }
        self.next();
        match ranges.is_empty() && !is_negated {
            true => self.wrong("the class has no characters"),
            false => Ok(Symbol::Class { is_negated, ranges }),
        }
    }

    /// A character of a text or a class, which may be escaped.
    fn character(&mut self) -> Result<char, String> {
        match self.next() {
            Some('\\') => {}
            Some(c) => return Ok(c),
            None => return self.wrong("the grammar ends too early"),
        }
        match self.next() {
            Some('n') => Ok('\n'),
            Some('r') => Ok('\r'),
            Some('t') => Ok('\t'),
            Some('x') => self.hex(2),
            Some('u') => self.hex(4),
            Some('U') => self.hex(8),
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^' | '/')) => Ok(c),
            Some(c) => self.wrong(&format!("there is no escape \"\\{c}\"")),
            None => self.wrong("the grammar ends too early"),
        }
    }

    fn hex(&mut self, digits: usize) -> Result<char, String> {
        let mut code = 0_u32;
        for _ in 0..digits {
            match self.rest.peek().and_then(|c| c.to_digit(16)) {
                Some(digit) => code = (code << 4) | digit,
                None => return self.wrong(&format!("{digits} hexadecimal digits are missing")),
            }
            self.next();
        }
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => self.wrong(&format!("{code:#x} is no character")),
        }
    }

    fn repeat(&mut self) -> Result<Option<Repeat>, String> {
        let repeat = match self.rest.peek() {
            Some('*') => Repeat { min: 0, max: None },
            Some('+') => Repeat { min: 1, max: None },
            Some('?') => Repeat { min: 0, max: Some(1) },
            Some('{') => return self.counted().map(Some),
            _ => return Ok(None),
        };
        self.next();
        Ok(Some(repeat))
    }

    /// `{m}`, `{m,}`, `{,n}` and `{m,n}`
    fn counted(&mut self) -> Result<Repeat, String> {
        self.next();
        let min = self.number()?;
        let max = match self.take(',') {
            true => self.number()?,
            false => min,
        };
        let is_open = min.is_some() && max.is_none();
        if !self.take('}') || (min.is_none() && max.is_none()) {
            return self.wrong("a repetition must be {m}, {m,} or {m,n}");
        }
        let repeat = Repeat { min: min.unwrap_or(0), max: max.filter(|_| !is_open) };
        let largest = repeat.max.unwrap_or(repeat.min);
        if largest < repeat.min || MAX_REPEAT < largest {
            return self
                .wrong(&format!("a repetition's numbers must grow, and be at most {MAX_REPEAT}"));
        }
        Ok(repeat)
    }

    fn number(&mut self) -> Result<Option<u32>, String> {
        self.skip_blanks();
        let mut number = None;
        while let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(10)) {
            let more = number.unwrap_or(0_u32).checked_mul(10).and_then(|n| n.checked_add(digit));
            match more {
                Some(more) => number = Some(more),
                None => return self.wrong(&format!("the number is above {MAX_REPEAT}")),
            }
            self.next();
        }
        self.skip_blanks();
        Ok(number)
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.rest.peek().copied().filter(|&c| is_name_char(c)) {
            name.push(c);
            self.next();
        }
        name
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.rest.peek().copied() {
            match c {
                ' ' | '\t' => drop(self.next()),
                '#' => self.skip_comment(),
                _ => return,
            }
        }
    }

    /// Blanks, comments and ends of lines.
    fn skip_lines(&mut self) {
        self.skip_blanks();
        while let Some('\n' | '\r') = self.rest.peek() {
            self.next();
            self.skip_blanks();
        }
    }

    fn skip_comment(&mut self) {
        while self.rest.peek().is_some_and(|&c| c != '\n') {
            self.next();
        }
    }

    fn second(&self) -> Option<char> {
        self.rest.clone().nth(1)
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.rest.peek() == Some(&wanted);
        if is_there {
            self.next();
        }
        is_there
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.next()?;
        match c {
            '\n' => self.place = SourcePosition { line: self.place.line + 1, column: 1 },
            _ => self.place.column += 1,
        }
        Some(c)
    }

    fn wrong<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("{}: {what}", self.place))
    }
}
