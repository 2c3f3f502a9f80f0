//! The statements of one gin file, in their order.

use super::gin_lexer::{GinLexer, Problem, Token, TokenKind};
use super::gin_value::GinValue;

/// With the line that it begins on.
#[derive(Debug, PartialEq)]
pub struct Statement {
    pub line: usize,
    pub kind: StatementKind,
}

#[derive(Debug, PartialEq)]
pub enum StatementKind {
    /// `scope/name.param = value`; the name may have its modules in front.
    Binding {
        scope: String,
        name: String,
        param: String,
        value: GinValue,
    },
    /// `NAME = value`
    Macro {
        name: String,
        value: GinValue,
    },
    Include {
        file: String,
    },
    /// Of a module of Python, which is not needed here.
    Import,
}

pub struct GinParser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// Of the last token.
    line: usize,
}

/// Lists in lists.
const DEPTH_MOST: usize = 32;

impl GinParser {
    pub fn statements(text: &str) -> Result<Vec<Statement>, Problem> {
        let tokens = GinLexer::new(text).tokens()?;
        let mut parser = GinParser { tokens: tokens.into_iter().peekable(), line: 1 };
        let mut statements = Vec::new();
        while let Some(token) = parser.next() {
            parser.statement(token, &mut statements)?;
        }
        Ok(statements)
    }

    fn statement(&mut self, first: Token, to: &mut Vec<Statement>) -> Result<(), Problem> {
        let line = first.line;
        let TokenKind::Name(name) = first.kind else {
            return Err((line, "a line begins with a name".to_owned()));
        };
        if first.is_indented {
            return Err((line, format!("{name} is indented, and nothing above it is open")));
        }
        let kind = match name.as_str() {
            "include" if !self.next_is('=') => {
                let TokenKind::Text(file) = self.expect("the name of a file")?.kind else {
                    return Err((line, "include needs the name of a file in quotes".to_owned()));
                };
                StatementKind::Include { file }
            }
            "import" | "from" if !self.next_is('=') => {
                self.skip_line();
                to.push(Statement { line, kind: StatementKind::Import });
                return Ok(());
            }
            _ if self.next_is(':') => return self.block(&name, line, to),
            _ => self.binding(&name, line)?,
        };
        self.line_end()?;
        to.push(Statement { line, kind });
        Ok(())
    }

    fn binding(&mut self, name: &str, line: usize) -> Result<StatementKind, Problem> {
        if !self.take('=') {
            return Err((line, format!("= is missing behind {name}")));
        }
        let value = self.value(DEPTH_MOST)?;
        let (scope, selector) = split_scope(name);
        match selector.rsplit_once('.') {
            Some((name, param)) => Ok(StatementKind::Binding {
                scope: scope.to_owned(),
                name: name.to_owned(),
                param: param.to_owned(),
                value,
            }),
            None => Ok(StatementKind::Macro { name: name.to_owned(), value }),
        }
    }

    /// `scope/name:` and indented lines `param = value` below it.
    fn block(&mut self, name: &str, line: usize, to: &mut Vec<Statement>) -> Result<(), Problem> {
        self.next();
        self.line_end()?;
        let before = to.len();
        while self.tokens.peek().is_some_and(|token| token.is_indented) {
            let token = self.expect("a parameter")?;
            let line = token.line;
            let TokenKind::Name(param) = token.kind else {
                return Err((line, "a line begins with a name".to_owned()));
            };
            if param.contains(['.', '/']) {
                return Err((line, format!("{param} is not the name of a parameter")));
            }
            let kind = self.binding(&format!("{name}.{param}"), line)?;
            self.line_end()?;
            to.push(Statement { line, kind });
        }
        match to.len() > before {
            true => Ok(()),
            false => Err((line, format!("there are no parameters below {name}"))),
        }
    }

    fn value(&mut self, depth_left: usize) -> Result<GinValue, Problem> {
        let token = self.expect("a value")?;
        let Some(inner) = depth_left.checked_sub(1) else {
            let problem = format!("more than {DEPTH_MOST} brackets in each other");
            return Err((token.line, problem));
        };
        match token.kind {
            TokenKind::Int(value) => Ok(GinValue::Int(value)),
            TokenKind::Float(value) => Ok(GinValue::Float(value)),
            TokenKind::Text(text) => Ok(GinValue::Text(self.joined(text))),
            TokenKind::Name(name) => match name.as_str() {
                "None" => Ok(GinValue::None),
                "True" => Ok(GinValue::Bool(true)),
                "False" => Ok(GinValue::Bool(false)),
                _ => Err((token.line, format!("{name} is not a value; texts stand in quotes"))),
            },
            TokenKind::Sign('-') => self.signed(-1),
            TokenKind::Sign('+') => self.signed(1),
            TokenKind::Sign('(') => self.tuple(inner),
            TokenKind::Sign('[') => {
                let (items, _) = self.items(']', inner)?;
                Ok(GinValue::List(items))
            }
            TokenKind::Sign('{') => self.dict(inner),
            TokenKind::Sign('@') => self.reference(),
            TokenKind::Sign('%') => Ok(GinValue::Macro(self.name("a macro")?)),
            TokenKind::Sign(sign) => Err((token.line, format!("{sign:?} where a value should be"))),
            TokenKind::LineEnd => Err((token.line, "a value is missing".to_owned())),
        }
    }

    fn signed(&mut self, sign: i64) -> Result<GinValue, Problem> {
        let token = self.expect("a number")?;
        match token.kind {
            TokenKind::Int(value) => Ok(GinValue::Int(sign * value)),
            TokenKind::Float(value) => Ok(GinValue::Float(sign as f64 * value)),
            _ => Err((token.line, "a sign without a number".to_owned())),
        }
    }

    /// Strings behind each other are one.
    fn joined(&mut self, mut text: String) -> String {
        while let Some(Token { kind: TokenKind::Text(more), .. }) = self.tokens.peek() {
            text.push_str(more);
            self.next();
        }
        text
    }

    /// In brackets stands one value, or a tuple if there is a comma.
    fn tuple(&mut self, depth: usize) -> Result<GinValue, Problem> {
        let (mut items, has_comma) = self.items(')', depth)?;
        match (items.len(), has_comma) {
            (1, false) => Ok(items.remove(0)),
            _ => Ok(GinValue::Tuple(items)),
        }
    }

    /// Up to the closing bracket; and whether there was a comma.
    fn items(&mut self, close: char, depth: usize) -> Result<(Vec<GinValue>, bool), Problem> {
        let (mut items, mut has_comma) = (Vec::new(), false);
        while !self.take(close) {
            items.push(self.value(depth)?);
            if !self.take(',') {
                self.close(close)?;
                break;
            }
            has_comma = true;
        }
        Ok((items, has_comma))
    }

    fn dict(&mut self, depth: usize) -> Result<GinValue, Problem> {
        let mut entries = Vec::new();
        while !self.take('}') {
            let key = self.value(depth)?;
            if !self.take(':') {
                return Err((self.line, "an entry of a dict is KEY: VALUE".to_owned()));
            }
            entries.push((key, self.value(depth)?));
            if !self.take(',') {
                self.close('}')?;
                break;
            }
        }
        Ok(GinValue::Dict(entries))
    }

    fn reference(&mut self) -> Result<GinValue, Problem> {
        let whole = self.name("a reference")?;
        let (scope, name) = split_scope(&whole);
        let is_called = self.take('(');
        if is_called {
            self.close(')')?;
        }
        Ok(GinValue::Reference { scope: scope.to_owned(), name: name.to_owned(), is_called })
    }

    fn name(&mut self, what: &str) -> Result<String, Problem> {
        let token = self.expect("a name")?;
        match token.kind {
            TokenKind::Name(name) => Ok(name),
            _ => Err((token.line, format!("{what} without a name"))),
        }
    }

    fn close(&mut self, sign: char) -> Result<(), Problem> {
        match self.take(sign) {
            true => Ok(()),
            false => Err((self.line, format!("{sign:?} is missing"))),
        }
    }

    fn line_end(&mut self) -> Result<(), Problem> {
        match self.next() {
            None | Some(Token { kind: TokenKind::LineEnd, .. }) => Ok(()),
            Some(token) => Err((token.line, "there is more on the line".to_owned())),
        }
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|token| token.kind != TokenKind::LineEnd) {}
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.next()?;
        self.line = token.line;
        Some(token)
    }

    fn expect(&mut self, what: &str) -> Result<Token, Problem> {
        let line = self.line;
        self.next().ok_or_else(|| (line, format!("the file ends where {what} should be")))
    }

    fn next_is(&mut self, sign: char) -> bool {
        self.tokens.peek().is_some_and(|token| token.kind == TokenKind::Sign(sign))
    }

    fn take(&mut self, sign: char) -> bool {
        let is_next = self.next_is(sign);
        if is_next {
            self.next();
        }
        is_next
    }
}

/// Scopes end at the last slash.
fn split_scope(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}
