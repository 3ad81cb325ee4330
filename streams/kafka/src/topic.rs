//! Making the topics, and giving them their settings.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigEntry, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use tokio::time::Instant;
use tracing::info;
use weir_streams::LogError;

use crate::health::Listener;
use crate::server::{Server, Topic, discard, pause};

/// Between two looks at what is about to be there.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Sees to it that the log's topic is there, and says how many partitions it has.
pub(crate) async fn ensure(server: &Arc<Server>) -> Result<u32, LogError> {
    let options = &server.options;
    let settings = options.topic_settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    Ok(ensure_topic(server, &options.topic, options.partitions, &settings).await?.partitions)
}

/// Sees to it that the topic is there that remembers lives.
pub(crate) async fn ensure_meta(server: &Arc<Server>) -> Result<(), LogError> {
    // Each life has a key of its own, so nothing is ever given up.
    ensure_topic(server, &server.options.meta_topic(), 1, &[("cleanup.policy", "compact")]).await?;
    Ok(())
}

/// Makes a topic unless it is there, and waits until it can be used.
async fn ensure_topic(
    server: &Arc<Server>,
    name: &str,
    partitions: u32,
    settings: &[(&str, &str)],
) -> Result<Topic, LogError> {
    let timeout = server.options.request_timeout();
    let deadline = Instant::now() + timeout;
    loop {
        match server.describe(name).await? {
            Some(topic) if topic.ready => return Ok(topic),
            Some(_) => {}
            None if !server.options.create => return Err(not_found(server, name)),
            None => create(server, name, partitions, settings).await?,
        }
        if Instant::now() >= deadline {
            return Err(server.health().late(&format!("wait for leaders of topic {name}"), timeout));
        }
        pause(BETWEEN_LOOKS).await;
    }
}

/// There is no such log, and none is to be made.
pub(crate) fn not_found(server: &Server, topic: &str) -> LogError {
    LogError::NotFound { dir: format!("topic {topic} on {}", server.options.brokers).into() }
}

fn admin_options(server: &Server) -> AdminOptions {
    let timeout = server.options.request_timeout();
    AdminOptions::new().request_timeout(Some(timeout)).operation_timeout(Some(timeout))
}

async fn create(server: &Server, name: &str, partitions: u32, settings: &[(&str, &str)]) -> Result<(), LogError> {
    let action = format!("make topic {name}");
    let explain = |error: KafkaError| explain(server, &action, &error);
    let replication = server.options.replication_factor.map_or(-1, i32::from);
    let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replication));
    topic.config = settings.to_vec();
    let admin = server.admin().map_err(explain)?;
    let results = admin.create_topics([&topic], &admin_options(server)).await;
    discard(admin);
    for result in results.map_err(explain)? {
        match result {
            Ok(_) => info!(topic = name, partitions, "topic made"),
            // Another process was faster.
            Err((_, Code::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(explain(KafkaError::AdminOp(code))),
        }
    }
    Ok(())
}

/// Gives the log's topic the settings that it has to have, and leaves all others as they are.
pub(crate) async fn settle_settings(server: &Server) -> Result<(), LogError> {
    let action = format!("set up topic {}", server.options.topic);
    let admin = server.admin().map_err(|error| explain(server, &action, &error))?;
    let settled = settle_by(server, &admin, &action).await;
    discard(admin);
    settled
}

/// The client does not say that the server refuses to show settings or to change them: so they are looked at again.
async fn settle_by(server: &Server, admin: &AdminClient<Listener>, action: &str) -> Result<(), LogError> {
    let (topic, wanted) = (&server.options.topic, server.options.topic_settings());
    let denied = |cause: &str| {
        let (server, action, cause) = (server.health().server(), action.to_owned(), cause.to_owned());
        LogError::Denied { server, action, cause }
    };
    let deadline = Instant::now() + server.options.request_timeout();
    let mut changed = false;
    loop {
        let found = admin.describe_configs([&ResourceSpecifier::Topic(topic)], &admin_options(server)).await;
        let found = found.and_then(|found| found.into_iter().next().ok_or(KafkaError::NoMessageReceived));
        let found = found.and_then(|found| found.map_err(KafkaError::AdminOp));
        let entries = found.map_err(|error| explain(server, action, &error))?.entries;
        if entries.is_empty() {
            return Err(denied("the topic's settings are not shown: DescribeConfigs or AlterConfigs is missing"));
        }
        let Some(merged) = merge(&entries, &wanted) else { return Ok(()) };
        if !changed {
            let mut change = AlterConfig::new(ResourceSpecifier::Topic(topic));
            change.entries = merged;
            let altered = admin.alter_configs([&change], &admin_options(server)).await;
            altered.map_err(|error| explain(server, action, &error))?;
            info!(topic, "settings of the topic changed");
            changed = true;
        } else if Instant::now() >= deadline {
            return Err(denied("the topic's settings stay as they are: AlterConfigs is missing"));
        }
        pause(BETWEEN_LOOKS).await;
    }
}

fn explain(server: &Server, action: &str, error: &KafkaError) -> LogError {
    server.health().explain(action, error, server.options.request_timeout())
}

/// All settings of the topic, with ours among them; nothing if ours are there already. The server replaces the whole set, so
/// what an administrator set is repeated.
fn merge<'a>(found: &'a [ConfigEntry], wanted: &'a [(&'static str, String)]) -> Option<HashMap<&'a str, &'a str>> {
    let value_of = |name: &str| found.iter().find(|entry| entry.name == name).and_then(|entry| entry.value.as_deref());
    if wanted.iter().all(|(key, value)| value_of(key) == Some(value)) {
        return None;
    }
    let set_before = found.iter().filter(|entry| entry.source == ConfigSource::DynamicTopic);
    let mut merged: HashMap<&str, &str> =
        set_before.filter_map(|entry| Some((entry.name.as_str(), entry.value.as_deref()?))).collect();
    merged.extend(wanted.iter().map(|(key, value)| (*key, value.as_str())));
    Some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, value: &str, source: ConfigSource) -> ConfigEntry {
        let is_default = source != ConfigSource::DynamicTopic;
        let (name, value) = (name.to_owned(), Some(value.to_owned()));
        ConfigEntry { name, value, source, is_read_only: false, is_default, is_sensitive: false }
    }

    #[test]
    fn settings_of_others_are_kept() {
        let found = [
            entry("min.insync.replicas", "2", ConfigSource::DynamicTopic),
            entry("retention.ms", "1000", ConfigSource::DynamicTopic),
            entry("segment.bytes", "77", ConfigSource::StaticBroker),
        ];
        let wanted = [("retention.ms", "2000".to_owned())];
        let expected = HashMap::from([("min.insync.replicas", "2"), ("retention.ms", "2000")]);
        assert_eq!(merge(&found, &wanted), Some(expected));
        assert_eq!(merge(&found, &[("retention.ms", "1000".to_owned()), ("segment.bytes", "77".to_owned())]), None);
    }
}
