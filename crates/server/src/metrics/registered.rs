//! A new metric, under its name in a registry.

use prometheus::Registry;
use prometheus::core::Collector;

pub fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: Result<C, prometheus::Error>,
) -> C {
    let collector = collector.expect("names are constants and well formed");
    registry.register(Box::new(collector.clone())).expect("each name is registered once");
    collector
}
