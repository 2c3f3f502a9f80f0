//! What a server answers, in the second version of its protocol.

use std::io::{self, BufRead};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisReply {
    Nil,
    Int(i64),
    /// A status or a string.
    Bytes(Vec<u8>),
    List(Vec<RedisReply>),
    Error(String),
}

impl RedisReply {
    pub fn read(source: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        source.read_line(&mut line)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("answer {line:?}"));
        let text = line.trim_end();
        let (kind, rest) = text.split_at_checked(1).ok_or_else(wrong)?;
        let number = || rest.parse::<i64>().map_err(|_| wrong());
        Ok(match kind {
            "+" => RedisReply::Bytes(rest.into()),
            "-" => RedisReply::Error(rest.to_owned()),
            ":" => RedisReply::Int(number()?),
            "$" => match usize::try_from(number()?) {
                Err(_) => RedisReply::Nil,
                Ok(count) => {
                    let mut bytes = vec![0; count + 2];
                    source.read_exact(&mut bytes)?;
                    bytes.truncate(count);
                    RedisReply::Bytes(bytes)
                }
            },
            "*" => match usize::try_from(number()?) {
                Err(_) => RedisReply::Nil,
                Ok(count) => {
                    let items = (0..count).map(|_| RedisReply::read(source));
                    RedisReply::List(items.collect::<Result<_, _>>()?)
                }
            },
            _ => return Err(wrong()),
        })
    }

    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            RedisReply::Int(number) => *number,
            other => panic!("{other:?} is no number"),
        }
    }

    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match self {
            RedisReply::Bytes(bytes) => bytes,
            other => panic!("{other:?} is no string"),
        }
    }

    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).expect("a text")
    }

    #[track_caller]
    pub fn list(&self) -> &[RedisReply] {
        match self {
            RedisReply::List(items) => items,
            other => panic!("{other:?} is no list"),
        }
    }
}
