//! Updates of rows and of dense weights over Kafka: their bytes, who publishes them, and who reads
//! them and gives them to the levels of the parameter server.

mod committer;
mod consumer_books;
mod consumer_config;
mod consumer_context;
mod consumer_counters;
mod consumer_loop;
mod consumer_watch;
mod delivery;
mod dense_assembler;
mod dense_message;
mod drop_reason;
mod end_mark;
mod feed_error;
mod folder_publication;
mod row_batch;
mod start_offsets;
mod topic_gate;
mod topic_queue;
mod update_batcher;
mod update_consumer;
mod update_message;
mod update_publisher;
mod update_sink;
mod whole_topics;

pub(crate) use consumer_config::topic_pattern;
pub use consumer_config::{PartitionsRead, StartAt, TopicStart, UpdateConsumerConfig};
pub use consumer_counters::{ConsumerCounters, TopicLag};
pub(crate) use consumer_watch::ConsumerWatch;
pub use dense_assembler::{DenseAssembler, DenseProgress, DenseWeights};
pub use dense_message::{DenseFault, DensePart, DenseWhole};
pub use drop_reason::DropReason;
pub use feed_error::{DeliveryFailure, FeedError};
pub use folder_publication::{FolderPublication, PublishError};
pub(crate) use topic_queue::Offsets;
pub use update_consumer::UpdateConsumer;
pub use update_message::{MessageFault, MessageRows, UpdateMessage};
pub use update_publisher::{UpdatePublisher, UpdatePublisherConfig};
pub use update_sink::{RowUpdates, TopicTable, UpdateSink};
