//! A gin file as tokens: those of Python, as far as literals need them.
//!
//! Lines end a statement, except within brackets and behind a backslash.

/// With the line that it begins on, from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub kind: TokenKind,
    pub line: usize,
    /// Whether blanks stand between its line's start and it.
    pub is_indented: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TokenKind {
    /// A name with dots and slashes in it: `scope/module.Name.param`.
    Name(String),
    Int(i64),
    Float(f64),
    Text(String),
    /// One of `= ( ) [ ] { } , : @ % -` and `+`.
    Sign(char),
    LineEnd,
}

/// What is wrong, and on which line.
pub type Problem = (usize, String);

pub struct GinLexer<'a> {
    rest: &'a str,
    line: usize,
    /// The lines of those that are open.
    brackets: Vec<usize>,
    is_indented: bool,
    at_line_start: bool,
    tokens: Vec<Token>,
}

const SIGNS: &str = "=()[]{},:@%-+";

impl<'a> GinLexer<'a> {
    pub fn new(text: &'a str) -> Self {
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        GinLexer {
            rest,
            line: 1,
            brackets: Vec::new(),
            is_indented: false,
            at_line_start: true,
            tokens: Vec::new(),
        }
    }

    pub fn tokens(mut self) -> Result<Vec<Token>, Problem> {
        while let Some(char) = self.rest.chars().next() {
            match char {
                '\n' => self.end_line(),
                ' ' | '\t' | '\r' | '\u{c}' => {
                    self.is_indented |= self.at_line_start;
                    self.skip(1);
                }
                '#' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.skip(end);
                }
                '\\' => self.join_lines()?,
                '\'' | '"' => self.text(false, 0)?,
                '0'..='9' => self.number()?,
                '.' if self.rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number()?,
                char if char.is_alphabetic() || char == '_' => self.name()?,
                char if SIGNS.contains(char) => self.sign(char)?,
                char => return Err(self.problem(format!("{char:?} has no meaning here"))),
            }
        }
        self.end_line();
        match self.brackets.last() {
            None => Ok(self.tokens),
            Some(line) => Err((*line, "a bracket is not closed".to_owned())),
        }
    }

    fn end_line(&mut self) {
        if self.brackets.is_empty() && !self.at_line_start {
            self.push(TokenKind::LineEnd, self.line);
        }
        if self.brackets.is_empty() {
            (self.at_line_start, self.is_indented) = (true, false);
        }
        self.line += 1;
        self.skip(1.min(self.rest.len()));
    }

    fn join_lines(&mut self) -> Result<(), Problem> {
        let behind = &self.rest[1..];
        let blank = behind.strip_prefix("\r\n").or_else(|| behind.strip_prefix('\n'));
        let Some(next) = blank else {
            return Err(self.problem("a backslash that does not end its line".to_owned()));
        };
        self.rest = next;
        self.line += 1;
        Ok(())
    }

    fn name(&mut self) -> Result<(), Problem> {
        let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.' | '/');
        let end = self.rest.find(|char| !is_part(char)).unwrap_or(self.rest.len());
        let name = &self.rest[..end];
        let quote = self.rest[end..].starts_with(['\'', '"']);
        match name {
            "r" | "R" if quote => return self.text(true, 1),
            "u" | "U" if quote => return self.text(false, 1),
            "b" | "B" | "f" | "F" if quote => {
                return Err(self.problem(format!("a string with the prefix {name}")));
            }
            _ => {}
        }
        if name
            .split(['/', '.'])
            .any(|part| part.is_empty() || part.starts_with(|char: char| char.is_numeric()))
        {
            return Err(self.problem(format!("{name:?} is not a name")));
        }
        let name = name.to_owned();
        self.push(TokenKind::Name(name), self.line);
        self.skip(end);
        Ok(())
    }

    fn number(&mut self) -> Result<(), Problem> {
        let mut end = 0;
        let mut before = ' ';
        for char in self.rest.chars() {
            let is_exponent_sign = matches!(char, '+' | '-')
                && matches!(before, 'e' | 'E')
                && !self.rest.starts_with("0x")
                && !self.rest.starts_with("0X");
            if !(char.is_ascii_alphanumeric() || matches!(char, '.' | '_') || is_exponent_sign) {
                break;
            }
            (end, before) = (end + 1, char);
        }
        let written = &self.rest[..end];
        let kind = number(written).map_err(|problem| self.problem(problem))?;
        self.push(kind, self.line);
        self.skip(end);
        Ok(())
    }

    /// A string, whose quote is behind `prefix` bytes.
    fn text(&mut self, is_raw: bool, prefix: usize) -> Result<(), Problem> {
        let (start_line, quoted) = (self.line, &self.rest[prefix..]);
        let quote = &quoted[..1];
        let triple = quote.repeat(3);
        let mark = if quoted.starts_with(&triple) { triple } else { quote.to_owned() };
        let mut rest = &quoted[mark.len()..];
        let mut text = String::new();
        loop {
            if let Some(behind) = rest.strip_prefix(&mark) {
                rest = behind;
                break;
            }
            let Some(char) = rest.chars().next() else {
                return Err((start_line, "a string is not closed".to_owned()));
            };
            rest = &rest[char.len_utf8()..];
            match char {
                '\n' if mark.len() == 1 => {
                    return Err((start_line, "a string is not closed on its line".to_owned()));
                }
                '\\' if is_raw => {
                    text.push(char);
                    if let Some(next) = rest.chars().next() {
                        text.push(next);
                        self.line += usize::from(next == '\n');
                        rest = &rest[next.len_utf8()..];
                    }
                }
                '\\' => {
                    let (escaped, bytes) = escape(rest).map_err(|problem| self.problem(problem))?;
                    self.line += usize::from(rest.starts_with('\n'));
                    text.extend(escaped);
                    rest = &rest[bytes..];
                }
                char => {
                    self.line += usize::from(char == '\n');
                    text.push(char);
                }
            }
        }
        self.push(TokenKind::Text(text), start_line);
        self.rest = rest;
        Ok(())
    }

    fn sign(&mut self, char: char) -> Result<(), Problem> {
        match char {
            '(' | '[' | '{' => self.brackets.push(self.line),
            ')' | ']' | '}' if self.brackets.pop().is_none() => {
                return Err(self.problem(format!("{char:?} closes no bracket")));
            }
            _ => {}
        }
        self.push(TokenKind::Sign(char), self.line);
        self.skip(1);
        Ok(())
    }

    fn push(&mut self, kind: TokenKind, line: usize) {
        self.tokens.push(Token { kind, line, is_indented: self.is_indented });
        self.at_line_start = false;
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn problem(&self, problem: String) -> Problem {
        (self.line, problem)
    }
}

/// A number of Python, without its sign.
fn number(written: &str) -> Result<TokenKind, String> {
    let wrong = || format!("{written:?} is not a number");
    let digits = written.replace('_', "");
    let badly_joined = written.contains("__")
        || written.ends_with('_')
        || written.contains("._")
        || written.contains("_.");
    if badly_joined {
        return Err(wrong());
    }
    let lower = digits.to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = lower.strip_prefix(prefix) {
            return match i64::from_str_radix(digits, radix) {
                Ok(value) if !digits.starts_with(['+', '-']) => Ok(TokenKind::Int(value)),
                _ => Err(wrong()),
            };
        }
    }
    if lower.chars().all(|char| char.is_ascii_digit()) {
        let is_octal_of_old =
            lower.len() > 1 && lower.starts_with('0') && lower.contains(|c| c != '0');
        return match lower.parse() {
            Ok(value) if !is_octal_of_old => Ok(TokenKind::Int(value)),
            _ => Err(wrong()),
        };
    }
    let is_plain = lower.chars().all(|char| char.is_ascii_digit() || "e.+-".contains(char));
    match lower.parse() {
        Ok(value) if is_plain => Ok(TokenKind::Float(value)),
        _ => Err(wrong()),
    }
}

/// What stands behind a backslash: the character, if it is one, and the bytes that are read.
fn escape(rest: &str) -> Result<(Option<char>, usize), String> {
    let char = rest.chars().next().ok_or("a string is not closed")?;
    let coded = |digits: usize| {
        let code = rest.get(1..1 + digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let decoded = code.and_then(char::from_u32);
        decoded.map(|char| (Some(char), 1 + digits)).ok_or_else(|| {
            let shown: String = rest.chars().take(1 + digits).collect();
            format!("\\{shown} is not a character")
        })
    };
    let plain = |char| Ok((Some(char), 1));
    match char {
        '\n' => Ok((None, 1)),
        '\\' | '\'' | '"' => plain(char),
        'n' => plain('\n'),
        'r' => plain('\r'),
        't' => plain('\t'),
        '0' => plain('\0'),
        'x' => coded(2),
        'u' => coded(4),
        'U' => coded(8),
        other => Err(format!("\\{other} is not known in a string")),
    }
}
