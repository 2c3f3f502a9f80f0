//! What an error of an object store means, in words, and what to do.
//!
//! Nothing of an answer is repeated but its code: answers about wrong logins may have parts of what
//! was signed in them.

use std::error::Error as _;
use std::io::{self, ErrorKind};

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

/// `advice` is about logins.
pub(super) fn object_fault(error: &Error, advice: &str) -> io::Error {
    let text = error.to_string();
    let code = code_of(&text);
    let (kind, problem) = match error {
        Error::NotFound { .. } if code == Some("NoSuchBucket") => {
            let problem = "there is no such bucket; check the URL, AWS_ENDPOINT_URL and AWS_REGION";
            (ErrorKind::NotFound, problem.to_owned())
        }
        Error::NotFound { .. } => (ErrorKind::NotFound, "there is no such object".to_owned()),
        Error::Precondition { .. } => return changed(),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            let code = code.unwrap_or("without a reason");
            (ErrorKind::PermissionDenied, format!("access denied ({code}); {advice}"))
        }
        _ => match http_error(error) {
            Some(http) => unreached(http, advice),
            None => (ErrorKind::Other, refused(error, &text, code)),
        },
    };
    io::Error::new(kind, problem)
}

/// The object is another one than when it was opened.
pub(super) fn changed() -> io::Error {
    io::Error::other("it was changed since it was opened; load the table again")
}

/// Whether a server answered, so that it may say more about it.
pub(super) fn is_answer(error: &Error) -> bool {
    http_error(error).is_none()
}

fn unreached(error: &HttpError, advice: &str) -> (ErrorKind, String) {
    let cause = deepest(error);
    let what_to_do = format!("check AWS_ENDPOINT_URL, AWS_REGION and the network; {advice}");
    match error.kind() {
        HttpErrorKind::Timeout => {
            let problem = format!("the object store did not answer in time; {what_to_do}");
            (ErrorKind::TimedOut, problem)
        }
        HttpErrorKind::Connect => {
            let problem = format!("cannot connect to the object store: {cause}; {what_to_do}");
            (ErrorKind::NotConnected, problem)
        }
        _ => {
            let problem =
                format!("the connection to the object store broke: {cause}; {what_to_do}");
            (ErrorKind::ConnectionAborted, problem)
        }
    }
}

fn refused(error: &Error, text: &str, code: Option<&str>) -> String {
    match code.or_else(|| status_of(text)) {
        Some(code) => {
            format!("the object store answered {code}; check AWS_REGION and AWS_ENDPOINT_URL")
        }
        None => format!("{}; check AWS_REGION and AWS_ENDPOINT_URL", deepest(error)),
    }
}

fn http_error(error: &Error) -> Option<&HttpError> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

/// Of what an error was made of, the last: the system's own words for it.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// S3's word for what is wrong; a server cannot put anything else into it.
fn code_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let is_code =
        (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_code.then_some(code)
}

/// `object_store` does not give the status but in its text.
fn status_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3).filter(|status| status.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn only_codes_of_answers_are_repeated() {
        let check = |answer: &str, want: &str| {
            let text = format!("Server returned non-2xx status code: 400 Bad Request: {answer}");
            let found = object_fault(&generic(&text), "advice").to_string();
            assert_eq!(found, format!("{want}; check AWS_REGION and AWS_ENDPOINT_URL"));
        };
        let malformed =
            "<Error><Code>AuthorizationHeaderMalformed</Code><Region>x</Region></Error>";
        check(malformed, "the object store answered AuthorizationHeaderMalformed");
        check("<Code>a\nb</Code>", "the object store answered 400");
        check("<Code></Code>", "the object store answered 400");
        check("<AWSAccessKeyId>AKIA</AWSAccessKeyId>", "the object store answered 400");
    }

    #[test]
    fn what_no_server_said_is_in_words() {
        let found = object_fault(&generic("no region"), "advice").to_string();
        assert_eq!(found, "no region; check AWS_REGION and AWS_ENDPOINT_URL");
    }
}
