//! Messages as gRPC's frames have them.
//!
//! Bytes that are no message are the client's fault, and its status says so; tonic's own codec
//! calls that an internal error.

use std::marker::PhantomData;

use prost::Message;
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
        Received::decode(buffer).map(Some).map_err(|error| {
            Status::invalid_argument(format!("the request is not the method's message: {error}"))
        })
    }
}
