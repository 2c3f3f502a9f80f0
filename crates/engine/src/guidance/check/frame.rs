//! What goes through the pipes: frames of bytes, each after its length in four bytes.

use std::io::{self, Read, Write};

use super::super::token_texts::TokenTexts;

/// A vocabulary of a million tokens has fewer; more is no frame.
const MAX_FRAME_BYTES: usize = 256 << 20;

/// The whole frame.
pub(super) fn framed(payload: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(payload.len()).expect("a frame is far below 4 GiB");
    [&bytes.to_le_bytes(), payload].concat()
}

/// How long a frame is that begins with these bytes.
pub(super) fn frame_bytes(head: [u8; 4]) -> io::Result<usize> {
    let bytes = u32::from_le_bytes(head) as usize;
    match bytes <= MAX_FRAME_BYTES {
        true => Ok(bytes),
        false => Err(io::Error::other(format!("a frame of {bytes} bytes"))),
    }
}

pub(super) fn read_frame(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = [0; 4];
    input.read_exact(&mut head)?;
    let mut payload = vec![0; frame_bytes(head)?];
    input.read_exact(&mut payload)?;
    Ok(payload)
}

pub(super) fn write_frame(output: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    output.write_all(&framed(payload))?;
    output.flush()
}

/// The vocabulary as a payload: the ids that end an output, then the bytes of each token.
pub(super) fn encode_texts(texts: &TokenTexts) -> Vec<u8> {
    let mut payload = framed(&texts.eos.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>());
    texts.texts.iter().for_each(|text| payload.extend(framed(text)));
    payload
}

pub(super) fn decode_texts(mut payload: &[u8]) -> io::Result<TokenTexts> {
    let eos = read_frame(&mut payload)?;
    let eos: Vec<_> = eos.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    let mut texts = Vec::new();
    while !payload.is_empty() {
        texts.push(read_frame(&mut payload)?);
    }
    match eos.is_empty() {
        true => Err(io::Error::other("a vocabulary without an end")),
        false => Ok(TokenTexts { texts, eos }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vocabulary_comes_as_it_went() {
        let texts =
            TokenTexts { texts: vec![b"a".into(), Vec::new(), vec![0xff; 300]], eos: vec![1, 2] };
        assert_eq!(decode_texts(&encode_texts(&texts)).expect("it was encoded"), texts);
    }

    #[test]
    fn damaged_frames_are_errors() {
        let texts = TokenTexts { texts: vec![b"abc".into()], eos: vec![0] };
        let whole = encode_texts(&texts);
        for end in (0..whole.len()).filter(|&end| end != 8) {
            assert!(decode_texts(&whole[..end]).is_err(), "{end}");
        }
        assert!(read_frame(&mut [0xff; 8].as_slice()).is_err());
    }
}
