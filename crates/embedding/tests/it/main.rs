//! The parameter server from outside: configurations as users have them, stores of rows, look-ups,
//! tables from object stores, and updates against brokers of librdkafka's own that speak TCP.

mod any_input;
mod audits;
mod fixtures;
mod kafka_broker;
mod kafka_delivery;
mod kafka_dense;
mod kafka_faults;
mod kafka_group;
mod kafka_outage;
mod kafka_publications;
mod kafka_restart;
mod kafka_time;
mod kafka_whole;
mod large_tables;
mod loading;
mod lookups;
mod object_proxy;
mod object_tables;
mod offset_proxy;
mod older_forms;
mod parameter_servers;
mod persistent_folders;
#[cfg(target_os = "linux")]
mod persistent_full;
mod persistent_histories;
mod persistent_killed;
mod persistent_migrate;
mod persistent_stores;
mod persistent_tables;
mod pitfalls;
mod ps_json;
mod ram;
mod recording_sink;
mod redis_faults;
mod redis_level;
mod redis_login;
mod redis_overflow;
mod redis_rows;
mod row_watch;
mod served;
mod served_child;
mod served_feed;
mod served_sets;
mod served_world;
mod server_faults;
#[cfg(target_os = "linux")]
mod server_full_disk;
mod server_histories;
mod server_killed;
mod server_real_broker;
mod server_schedules;
mod server_updates;
mod set_histories;
mod set_killed;
#[cfg(target_os = "linux")]
mod set_unloads;
mod set_world;
mod store_history;
mod warnings;
mod wrong_values;
