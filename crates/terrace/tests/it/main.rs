//! The built program from the outside: started as a process, asked over HTTP.

mod openai_client;
mod seed_curl;
mod server_process;
mod shutdown;
