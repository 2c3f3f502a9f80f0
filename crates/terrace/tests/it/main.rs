//! The built program from the outside: started as a process, asked over HTTP.

mod certificate;
mod command_line;
#[cfg(target_os = "linux")]
mod hostile_grammar;
#[cfg(target_os = "linux")]
mod hostile_grammars;
mod hub;
mod hub_stand_in;
mod openai_client;
mod seed_curl;
mod server_process;
mod shutdown;
