//! The built program from the outside: started as a process, reached over HTTP.

mod anthropic_client;
mod certificate;
mod colossalai_curl;
mod command_line;
mod evaluated_users;
mod finetune;
#[cfg(target_os = "linux")]
mod hostile_clients;
mod hostile_grammar;
#[cfg(target_os = "linux")]
mod hostile_grammars;
mod hub;
mod hub_stand_in;
mod kserve_client;
mod kv_cache_server;
mod kv_handles;
#[cfg(target_os = "linux")]
mod kv_tiers;
#[cfg(target_os = "linux")]
mod memory;
mod ollama_client;
mod openai_client;
mod ps_commands;
mod ps_tables;
mod rank_convert;
mod rank_eval;
mod rank_eval_trained;
mod ranking_service;
mod responses_client;
mod server_process;
mod shutdown;
mod table_service;
mod welcome;
