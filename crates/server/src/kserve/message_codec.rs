//! Messages as gRPC's frames have them.
//!
//! Bytes that are no message are the client's fault, and its status says so; tonic's own codec
//! calls that an internal error.

use std::marker::PhantomData;

use bytes::Buf;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

pub struct MessageCodec<Sent, Received> {
    messages: PhantomData<(Sent, Received)>,
}

impl<Sent, Received> Default for MessageCodec<Sent, Received> {
    fn default() -> Self {
        Self { messages: PhantomData }
    }
}

impl<Sent, Received> Codec for MessageCodec<Sent, Received>
where
    Sent: Message + Send + 'static,
    Received: Message + Default + Send + 'static,
{
    type Encode = Sent;
    type Decode = Received;
    type Encoder = MessageEncoder<Sent>;
    type Decoder = MessageDecoder<Received>;

    fn encoder(&mut self) -> Self::Encoder {
        MessageEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        MessageDecoder(PhantomData)
    }
}

pub struct MessageEncoder<Sent>(PhantomData<Sent>);
pub struct MessageDecoder<Received>(PhantomData<Received>);

/// Fields of a message, each time that a repeated one is there: tensors, mostly. An empty tensor
/// has two bytes, and takes a hundred times as many in memory.
const FIELDS_MOST: usize = 8192;

impl<Sent: Message> Encoder for MessageEncoder<Sent> {
    type Item = Sent;
    type Error = Status;

    fn encode(&mut self, item: Sent, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

impl<Received: Message + Default> Decoder for MessageDecoder<Received> {
    type Item = Received;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Received>, Status> {
        let wrong = |error: DecodeError| {
            Status::invalid_argument(format!("the request is not the method's message: {error}"))
        };
        // All of it lies in one piece.
        if field_count(buffer.chunk()).map_err(wrong)? > FIELDS_MOST {
            let message = format!("the request has more than {FIELDS_MOST} fields, the limit");
            return Err(Status::invalid_argument(message));
        }
        Received::decode(buffer).map(Some).map_err(wrong)
    }
}

/// How many fields a message has, without those within; at most one more than the limit.
fn field_count(mut message: &[u8]) -> Result<usize, DecodeError> {
    let mut count = 0;
    while message.has_remaining() && count <= FIELDS_MOST {
        let (tag, wire_type) = decode_key(&mut message)?;
        skip_field(wire_type, tag, &mut message, DecodeContext::default())?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::super::messages::ModelInferRequest;
    use super::super::messages::model_infer_request::InferInputTensor;
    use super::*;

    fn fields(inputs: usize) -> Option<usize> {
        let inputs = vec![InferInputTensor::default(); inputs];
        let message = ModelInferRequest { inputs, ..ModelInferRequest::default() };
        field_count(&message.encode_to_vec()).ok()
    }

    #[test]
    fn fields_are_counted_up_to_the_limit() {
        assert_eq!(fields(0), Some(0));
        assert_eq!(fields(FIELDS_MOST), Some(FIELDS_MOST));
        assert_eq!(fields(4 * FIELDS_MOST), Some(FIELDS_MOST + 1));
        for wrong in [&[0x2a_u8, 5][..], &[0xff; 3], &[0], &[0x2b]] {
            assert!(field_count(wrong).is_err(), "{wrong:?}");
        }
    }
}
