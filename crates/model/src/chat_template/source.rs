//! A template's text before it is compiled.

/// Reads the escapes of a command line; a backslash before anything else stays.
pub fn unescape(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut characters = template.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.peek().copied() } else { None };
        let read = match escaped {
            Some('n') => '\n',
            Some('t') => '\t',
            Some(same @ ('\\' | '"' | '\'')) => same,
            _ => {
                out.push(character);
                continue;
            }
        };
        characters.next();
        out.push(read);
    }
    out
}

/// Replaces `{% generation %}`, which marks the output for training, by a block that does nothing
/// and handles white space the same way.
pub fn without_generation_tags(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{%") {
        let inside = &rest[start + 2..];
        let Some(end) = inside.find("%}") else { break };
        let inside = &inside[..end];
        let word = inside.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        out.push_str(&rest[..start + 2]);
        match word {
            "generation" => out.push_str(&inside.replacen(word, " if true ", 1)),
            "endgeneration" => out.push_str(&inside.replacen(word, " endif ", 1)),
            _ => out.push_str(inside),
        }
        rest = &rest[start + 2 + end..];
    }
    out + rest
}
