//! The items that a response goes on from: those of the response before it, and the request's.

use std::collections::HashSet;

use crate::api_error::{ApiError, ApiResult};
use crate::middleware::Caller;
use crate::openai::responses::input::InputEntry;
use crate::openai::responses::item::{Item, ItemStatus};
use crate::openai::responses::response_store::{FORGETS, ResponseStore};

#[derive(Debug, PartialEq)]
pub struct Context {
    pub items: Vec<Item>,
    /// How many of them an earlier response has brought.
    pub carried: usize,
}

impl Context {
    /// `max_bytes`: what all items may say together. A short request can name much that is stored.
    pub fn gather(
        store: &ResponseStore,
        caller: Caller,
        previous: Option<&str>,
        input: Vec<InputEntry>,
        max_bytes: usize,
    ) -> ApiResult<Self> {
        let items = match previous {
            Some(id) => match store.get(caller, id) {
                Some(stored) => stored.items.clone(),
                None => return Err(unknown_response(id)),
            },
            None => Vec::new(),
        };
        let carried = items.len();
        let mut context = Self { items, carried };
        let mut bytes: usize = context.items.iter().map(Item::text_bytes).sum();
        for (index, entry) in input.into_iter().enumerate() {
            let item = match entry {
                InputEntry::New(item) => item,
                InputEntry::Reference(id) => {
                    store.item(caller, &id).ok_or_else(|| unknown_item(index, &id))?
                }
            };
            bytes += item.text_bytes();
            if max_bytes < bytes {
                let message = format!(
                    "input and the stored items that it goes on from have more than {max_bytes} \
                     bytes, the server's limit (--max-body)"
                );
                return Err(ApiError::invalid("input", message));
            }
            context.items.push(item);
        }
        context.check_results()?;
        Ok(context)
    }

    /// Every result has a call before it.
    fn check_results(&self) -> ApiResult<()> {
        let mut calls = HashSet::new();
        for (index, item) in self.items.iter().enumerate() {
            match item {
                Item::FunctionCall(call) if call.status != ItemStatus::Incomplete => {
                    calls.insert(call.call_id.as_str());
                }
                Item::FunctionCallOutput(result) if !calls.contains(result.call_id.as_str()) => {
                    let path = format!("input[{}].call_id", index.saturating_sub(self.carried));
                    let id = &result.call_id;
                    let message = format!("{path} is {id:?}: no function_call before it has it");
                    return Err(ApiError::invalid(&path, message));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn unknown_response(id: &str) -> ApiError {
    let message = format!("previous_response_id: no response {id:?} is stored here; {FORGETS}");
    ApiError::invalid("previous_response_id", message).with_code("previous_response_not_found")
}

fn unknown_item(index: usize, id: &str) -> ApiError {
    let path = format!("input[{index}].id");
    let message = format!("{path}: no item {id:?} is stored here; {FORGETS}");
    ApiError::invalid(&path, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai::responses::item::{CallItem, CallOutputItem};
    use crate::openai::responses::response_store::StoredResponse;

    const ANYONE: Caller = Caller(None);

    fn said(id: &str) -> Item {
        Item::user(id.to_owned(), "hello".to_owned())
    }

    fn store() -> ResponseStore {
        let store = ResponseStore::default();
        let items = vec![said("msg_1"), said("msg_2")];
        let stored =
            StoredResponse { caller: ANYONE, json: String::new(), items, input: 1, carried: 0 };
        store.insert("resp_1".to_owned(), stored).expect("it fits");
        store
    }

    fn gather(previous: Option<&str>, input: Vec<InputEntry>, max: usize) -> ApiResult<Context> {
        Context::gather(&store(), ANYONE, previous, input, max)
    }

    fn reference(id: &str) -> InputEntry {
        InputEntry::Reference(id.to_owned())
    }

    #[test]
    fn stored_items_come_first() {
        let context = gather(Some("resp_1"), vec![InputEntry::New(said("msg_3"))], 10_000).unwrap();
        let ids: Vec<_> = context.items.iter().map(Item::id).collect();
        assert_eq!((ids.as_slice(), context.carried), (&["msg_1", "msg_2", "msg_3"][..], 2));
        let context = gather(None, vec![reference("msg_2")], 10_000).unwrap();
        assert_eq!(context, Context { items: vec![said("msg_2")], carried: 0 });
    }

    #[test]
    fn what_is_not_stored_is_named() {
        let error = gather(Some("resp_2"), Vec::new(), 10_000).unwrap_err().to_json();
        assert!(
            error.contains("previous_response_not_found") && error.contains(FORGETS),
            "{error}"
        );
        let error = gather(None, vec![reference("msg_9")], 10_000).unwrap_err().to_json();
        assert!(error.contains("input[0].id: no item"), "{error}");
    }

    #[test]
    fn many_references_to_a_large_item_are_bounded() {
        let input = (0..100).map(|_| reference("msg_1")).collect();
        let error = gather(None, input, 499).unwrap_err().to_json();
        assert!(error.contains("more than 499 bytes"), "{error}");
    }

    #[test]
    fn a_result_needs_its_call() {
        let status = ItemStatus::Completed;
        let text = str::to_owned;
        let result = || {
            let (id, call_id, output) = (text("fco_1"), text("c"), text("1"));
            InputEntry::New(Item::FunctionCallOutput(CallOutputItem {
                id,
                call_id,
                output,
                status,
            }))
        };
        let call = |status| {
            let (id, call_id, name, arguments) = (text("fc_1"), text("c"), text("f"), text("{}"));
            let call = CallItem { id, call_id, name, arguments, status };
            InputEntry::New(Item::FunctionCall(call))
        };
        assert!(gather(None, vec![call(ItemStatus::Completed), result()], 10_000).is_ok());
        let cut = vec![call(ItemStatus::Incomplete), result()];
        let error = gather(Some("resp_1"), cut, 10_000).unwrap_err().to_json();
        assert!(error.contains("input[1].call_id is \\\"c\\\": no function_call"), "{error}");
    }
}
