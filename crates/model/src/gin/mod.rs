//! Files of gin-config, with which recommenders of the originals are configured.
//!
//! A file binds parameters of functions and classes: `NetworkArgs.num_layers = 3`. Here a binding
//! is data: nothing is imported or called. What the bindings mean is their reader's business.

mod gin_args;
mod gin_config;
mod gin_error;
mod gin_lexer;
mod gin_parser;
mod gin_value;

pub use self::gin_args::{Called, FromGin, GinArgs, GinClass, UnknownKey};
pub use self::gin_config::{GinBinding, GinConfig};
pub use self::gin_error::GinError;
pub use self::gin_value::GinValue;
