//! The built program from the outside: started as a process, asked over HTTP.

mod command_line;
mod openai_client;
mod seed_curl;
mod server_process;
mod shutdown;
