//! TensorBoard's event files.

mod event;
mod framed_record;
mod tensor_board_log;

#[cfg(test)]
mod tests;

pub use tensor_board_log::TensorBoardLog;
