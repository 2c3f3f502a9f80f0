//! The built program from the outside: started as a process, asked over HTTP.

mod anthropic_client;
mod certificate;
mod command_line;
#[cfg(target_os = "linux")]
mod hostile_grammar;
#[cfg(target_os = "linux")]
mod hostile_grammars;
mod hub;
mod hub_stand_in;
mod kv_cache_server;
#[cfg(target_os = "linux")]
mod memory;
mod ollama_client;
mod openai_client;
mod responses_client;
mod seed_curl;
mod server_process;
mod shutdown;
mod strangers;
mod welcome;
