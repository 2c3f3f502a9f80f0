//! A response, whole or as named events, and kept when it is complete.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};

use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::chat::{ChatDelta, ChatOutputs};
use crate::language::Usage;
use crate::language::sse::{Frame, Frames, Source};
use crate::middleware::Caller;
use crate::openai::responses::context::Context;
use crate::openai::responses::item::Item;
use crate::openai::responses::response_shape::{ResponseShape, ResponseStatus};
use crate::openai::responses::response_store::{StoredResponse, TooLarge};
use crate::openai::responses::response_writer::{ResponseWriter, response_event};
use crate::openai::responses::stream_event::{Event, StreamEvent};

/// Puts a response where it can be retrieved.
pub struct ResponseKeeper {
    pub state: Arc<AppState>,
    pub caller: Caller,
    /// What the response goes on from.
    pub context: Context,
}

impl ResponseKeeper {
    /// Keeps the response, if requested. Says in the response if that cannot be.
    fn keep(self, response: &mut ResponseShape) {
        if !response.echo.store {
            return;
        }
        let Context { mut items, carried } = self.context;
        let input = items.len();
        items.extend(response.output.iter().cloned().map(Item::without_logprobs));
        let json = serde_json::to_string(response).expect("responses have string keys only");
        let stored = StoredResponse { caller: self.caller, json, items, input, carried };
        if let Err(TooLarge { bytes, limit }) =
            self.state.responses.insert(response.id.clone(), stored)
        {
            response.echo.store = false;
            let warning =
                format!("the response was not stored: it has {bytes} bytes, the limit is {limit}");
            response.warnings.push(warning);
        }
    }
}

pub async fn whole(
    mut writer: ResponseWriter,
    keeper: ResponseKeeper,
    mut outputs: ChatOutputs,
) -> ApiResult<Response> {
    while let Some(delta) = outputs.next().await {
        writer.delta(delta?);
    }
    let (mut response, _) = writer.finish(outputs.usage());
    keeper.keep(&mut response);
    Ok(Json(response).into_response())
}

pub struct ResponseFrames {
    /// `None` when the response has ended.
    making: Option<(ResponseWriter, ResponseKeeper)>,
    /// Events so far.
    count: usize,
}

impl ResponseFrames {
    pub fn new(writer: ResponseWriter, keeper: ResponseKeeper) -> Self {
        Self { making: Some((writer, keeper)), count: 0 }
    }

    fn frames(&mut self, events: Vec<Event>) -> Vec<Frame> {
        let framed = events.into_iter().zip(self.count..).map(|(event, sequence_number)| {
            let Event { name, body } = event;
            Frame::named(name, &StreamEvent { r#type: name, sequence_number, body })
        });
        let framed: Vec<_> = framed.collect();
        self.count += framed.len();
        framed
    }
}

impl Frames<ChatDelta> for ResponseFrames {
    fn open(&mut self) -> Vec<Frame> {
        let events = self.making.as_ref().map(|(writer, _)| writer.begin());
        self.frames(events.unwrap_or_default())
    }

    fn delta(&mut self, delta: ChatDelta, _usage: Usage) -> Vec<Frame> {
        let events = self.making.as_mut().map(|(writer, _)| writer.delta(delta));
        self.frames(events.unwrap_or_default())
    }

    fn close(&mut self, usage: Usage) -> Vec<Frame> {
        let Some((writer, keeper)) = self.making.take() else { return Vec::new() };
        let (mut response, mut events) = writer.finish(usage);
        keeper.keep(&mut response);
        let name = match response.status {
            ResponseStatus::Incomplete => "response.incomplete",
            _ => "response.completed",
        };
        events.push(response_event(name, response));
        self.frames(events)
    }

    fn error(&mut self, error: &ApiError) -> Frame {
        let Some((mut writer, _)) = self.making.take() else {
            return Frame::from(error.to_json());
        };
        let frame = self.frames(vec![writer.fail(error)]).pop();
        frame.expect("an event is a frame")
    }
}
