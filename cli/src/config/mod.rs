//! The configuration: one TOML file, then the environment (`WEIR__SECTION__KEY`), then flags. All that is wrong is told at once.

mod environment;
mod kafka;
mod logs;
#[cfg(feature = "pravega")]
mod pravega;
mod sections;
mod tables;
mod unreadable;

use std::path::{Path, PathBuf};

use thiserror::Error;
use weir_schemas::control::{PolicyBook, PolicyEntry};
use weir_schemas::policy::Policy;
use weir_store::{Address, Store};

pub use environment::{Written, overlay};
pub use logs::{Kafka, LogChoice, Mechanism, Pravega, PravegaAuth, Sasl, Tls};
pub use sections::{Cluster, Http, Instance};
use tables::Findings;

/// The whole configuration, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Folder of the embedded log and of the control database, where these are not on servers.
    pub data: PathBuf,
    /// The control database on a server, as `postgres://...`; absent: a file in the folder of data.
    pub database: Option<Address>,
    /// This process among others.
    pub instance: Instance,
    /// Clusters to watch.
    pub clusters: Vec<Cluster>,
    /// Which policy a job has.
    pub book: PolicyBook,
    /// The collector.
    pub collector: weir_ingest::Options,
    /// The analyzer.
    pub analyzer: weir_analyzer::Options,
    /// The actuator.
    pub actuator: weir_actuator::Options,
    /// The logs.
    pub log: LogChoice,
    /// Metrics and health.
    pub http: Http,
    /// What is kept in the control database, and how long.
    pub retention: weir_store::Retention,
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Error)]
#[error("WR0650: the configuration has {} problem{}:\n  - {}", problems.len(), if problems.len() == 1 { "" } else { "s" }, problems.join("\n  - "))]
pub struct ConfigError {
    /// One sentence each.
    pub problems: Vec<String>,
}

impl ConfigError {
    fn one(problem: String) -> Self {
        Self { problems: vec![problem] }
    }
}

/// Where clusters live when a URL is given without a name.
pub const DEFAULT_CLUSTER: &str = "flink";
/// Folder of the data when none is given.
pub const DEFAULT_DATA: &str = "./weir-data";

impl Default for Config {
    fn default() -> Self {
        Self {
            data: PathBuf::from(DEFAULT_DATA),
            database: None,
            instance: Instance::default(),
            clusters: Vec::new(),
            book: PolicyBook::default(),
            collector: weir_ingest::Options::default(),
            analyzer: weir_analyzer::Options::default(),
            actuator: weir_actuator::Options::default(),
            log: LogChoice::default(),
            http: Http::default(),
            retention: weir_store::Retention::default(),
        }
    }
}

impl Config {
    /// Reads the file, if there is one, and lays `environment` over it.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load(file: Option<&Path>, environment: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let text = match file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|why| ConfigError::one(format!("{} cannot be read: {why}", path.display())))?,
            None => String::new(),
        };
        let table: toml::Table = text.parse().map_err(|why: toml::de::Error| {
            let name = file.map_or_else(String::new, |path| path.display().to_string());
            // Not the line itself: it may hold a secret.
            let line =
                why.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.matches('\n').count() + 1);
            ConfigError::one(format!("{name}, line {line} is not TOML: {}", why.message()))
        })?;
        let written = overlay(table, environment);
        if written.misplaced.is_empty() {
            Self::from_written(written)
        } else {
            Err(ConfigError { problems: written.misplaced })
        }
    }

    /// Checks a configuration that is parsed already.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn from_written(written: Written) -> Result<Self, ConfigError> {
        let Written { mut table, texts, .. } = written;
        let mut found = Findings { texts, ..Findings::default() };
        let mut config = Self::default();
        if let Some(data) = found.take(&mut table, "data", "the configuration") {
            config.data = data;
        }
        config.database = database(&mut table, &mut found);
        if let Some(instance) = found.section::<Instance>(&mut table, "instance") {
            found.all("[instance]", instance.problems());
            config.instance = instance;
        }
        config.clusters = sections::clusters(&mut table, &mut found);
        config.book = policies(&mut table, &mut found);
        if let Some(options) = found.section::<weir_ingest::Options>(&mut table, "collector") {
            found.all("[collector]", options.problems());
            config.collector = options;
        }
        if let Some(options) = found.section::<weir_analyzer::Options>(&mut table, "analyzer") {
            found.all("[analyzer]", options.problems());
            config.analyzer = options;
        }
        if let Some(options) = found.section::<weir_actuator::Options>(&mut table, "actuator") {
            found.all("[actuator]", options.problems());
            config.actuator = options;
        }
        config.log = logs::choice(&mut table, &mut found);
        config.collector.part_bytes = config.collector.part_bytes.min(config.log.room_in_a_record());
        config.http = found.section(&mut table, "http").unwrap_or_default();
        found.all("[http]", config.http.problem());
        if let Some(retention) = found.section::<weir_store::Retention>(&mut table, "retention") {
            found.all("[retention]", sections::retention_problems(retention));
            config.retention = retention;
        }
        let known = [
            "data",
            "database",
            "instance",
            "cluster",
            "default",
            "policy",
            "collector",
            "analyzer",
            "actuator",
            "log",
            "kafka",
            "pravega",
            "http",
            "retention",
        ];
        for key in table.keys() {
            found.unknown("the configuration", key, &known);
        }
        if found.problems.is_empty() { Ok(config) } else { Err(ConfigError { problems: found.problems }) }
    }

    /// Where the control database is.
    #[must_use]
    pub fn address(&self) -> Address {
        self.database.clone().unwrap_or_else(|| Address::file(&self.data.join(Store::FILE)))
    }

    /// Adds a cluster that was given as `[name=]URL`.
    ///
    /// # Errors
    /// Refuses a name that is taken, or none.
    pub fn add_cluster(&mut self, given: &str) -> Result<(), ConfigError> {
        let (name, url) = match given.split_once('=') {
            Some((name, url)) if !name.contains("://") => (name, url),
            _ => (DEFAULT_CLUSTER, given),
        };
        let cluster = Cluster::at(name, url);
        let taken = self.clusters.iter().any(|other| other.name == cluster.name);
        if name.is_empty() || taken {
            let problem = format!("--flink {given}: give each cluster a name of its own, as in --flink prod={url}");
            return Err(ConfigError::one(problem));
        }
        self.clusters.push(cluster);
        Ok(())
    }
}

/// Takes the address of the control database out of the file.
fn database(table: &mut toml::Table, found: &mut Findings) -> Option<Address> {
    let text: String = found.take(table, "database", "the configuration")?;
    let address = Address::parse(&text).map_err(|why| format!("database: {why}"));
    found.all("the configuration", address.as_ref().err().cloned());
    address.ok()
}

/// The default policy, and those for patterns of jobs, each laid over the default.
fn policies(table: &mut toml::Table, found: &mut Findings) -> PolicyBook {
    let default_table = found.table(table, "default");
    let default = policy(default_table.clone(), "*", "[default]", found);
    let entries = found.tables(table, "policy").into_iter().enumerate().map(|(index, own)| {
        let place = format!("[[policy]] {}", index + 1);
        let mut merged = default_table.clone();
        merged.extend(own);
        let jobs: Option<String> = found.take(&mut merged, "jobs", &place);
        if jobs.is_none() {
            found.problems.push(format!("{place}: say which jobs it is for, as in jobs = \"prod/*\""));
        }
        policy(merged, &jobs.unwrap_or_default(), &place, found)
    });
    let entries = entries.collect();
    PolicyBook { default, entries }
}

fn policy(mut table: toml::Table, jobs: &str, place: &str, found: &mut Findings) -> PolicyEntry {
    let mode = found.take(&mut table, "mode", place).unwrap_or_default();
    let tags = found.take(&mut table, "tags", place).unwrap_or_default();
    let policy: Policy = found.whole(table, place).unwrap_or_default();
    found.all(place, policy.problems());
    PolicyEntry { jobs: jobs.into(), mode, policy, tags }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_schemas::control::Mode;
    use weir_schemas::identity::JobKey;

    fn load(text: &str) -> Result<Config, ConfigError> {
        Config::from_written(text.parse::<toml::Table>().unwrap().into())
    }

    #[test]
    fn an_empty_configuration_is_the_default_one() {
        let config = load("").unwrap();
        assert_eq!((config.data, config.clusters.len()), (PathBuf::from("./weir-data"), 0));
        assert_eq!(config.book.default.mode, Mode::Recommend);
    }

    #[test]
    fn a_policy_is_laid_over_the_default_one() {
        let config = load(
            r#"
            [default]
            utilisation = 0.6
            [[policy]]
            jobs = "prod/*"
            mode = "auto"
            shrink_after_ms = 1000
            "#,
        )
        .unwrap();
        let entry = config.book.entry(&JobKey::new("prod", "orders"));
        assert_eq!((entry.mode, entry.policy.utilisation, entry.policy.shrink_after_ms), (Mode::Auto, 0.6, 1000));
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_with_suggestions() {
        let problems = load(
            r#"
            [[cluster]]
            name = "prod"
            ulr = "http://a"
            [[cluster]]
            name = "prod"
            url = "http://b"
            [default]
            utilisation = 7
            utilization = 0.5
            [[policy]]
            mode = "yolo"
            [colector]
            [http]
            listen = 7
            "#,
        )
        .unwrap_err()
        .problems;
        for part in [
            "did you mean url",
            "prod",
            "must lie in (0, 1]",
            "did you mean utilisation",
            "which jobs",
            "yolo",
            "did you mean collector",
            "[http]",
        ] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "{part:?} in {problems:#?}");
        }
    }

    #[test]
    fn the_environment_counts_more_than_the_file() {
        let file: toml::Table = "[default]\nutilisation = 0.5".parse().unwrap();
        let environment = [
            ("WEIR__DEFAULT__UTILISATION".to_string(), "0.8".to_string()),
            ("WEIR__DATA".to_string(), "/var/lib/weir".to_string()),
            ("HOME".to_string(), "/root".to_string()),
        ];
        let written = overlay(file, environment.into_iter());
        assert!(written.misplaced.is_empty(), "{written:?}");
        let config = Config::from_written(written).unwrap();
        assert_eq!((config.data, config.book.default.policy.utilisation), (PathBuf::from("/var/lib/weir"), 0.8));
    }

    #[test]
    fn parts_of_batches_fit_into_the_records_of_the_log() {
        let part_bytes = |text: &str| load(text).unwrap().collector.part_bytes;
        assert_eq!(part_bytes(""), weir_ingest::Options::default().part_bytes);
        assert_eq!(part_bytes("[log]\nmax_record_bytes = 65536"), 61_440);
        let kafka = "[log]\nkind = \"kafka\"\n[kafka]\nbrokers = \"a:1\"\nmax_record_bytes = 100000";
        assert_eq!(part_bytes(kafka), 95_904);
        assert_eq!(part_bytes(&format!("{kafka}\n[collector]\npart_bytes = 50000")), 50_000);
    }

    #[test]
    fn a_line_that_is_no_toml_is_named_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, "data = \"a\"\n[kafka.sasl]\npassword = hush\n").unwrap();
        let said = Config::load(Some(&file), std::iter::empty()).unwrap_err().to_string();
        assert!(said.contains("line 3") && !said.contains("hush"), "{said}");
    }

    #[test]
    fn a_variable_that_fits_nowhere_is_told() {
        let file: toml::Table = "[[cluster]]\nname = \"a\"\nurl = \"http://a\"".parse().unwrap();
        let variable = [("WEIR__CLUSTER__URL".to_string(), "http://b".to_string())];
        let misplaced = overlay(file, variable.into_iter()).misplaced;
        assert!(misplaced[0].contains("WEIR__CLUSTER__URL"), "{misplaced:?}");
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let problems = load(
            "[analyzer]\nbatch_records = 0\n[actuator]\npoll_ms = 0\n[retention]\ndecisions_ms = -1\n[[cluster]]\nname = \"a/b\"",
        )
        .unwrap_err()
        .problems;
        for part in ["batch_records", "poll_ms", "decisions_ms", "url", "a/b"] {
            assert!(problems.iter().any(|problem| problem.contains(part)), "{part:?} in {problems:#?}");
        }
    }

    #[test]
    fn clusters_of_the_command_line_have_names() {
        let mut config = Config::default();
        config.add_cluster("prod=https://flink:8081/a?b=c").unwrap();
        config.add_cluster("http://localhost:8081/?a=b").unwrap();
        let names: Vec<(&str, &str)> =
            config.clusters.iter().map(|cluster| (cluster.name.as_str(), cluster.http.url.as_str())).collect();
        assert_eq!(names, [("prod", "https://flink:8081/a?b=c"), ("flink", "http://localhost:8081/?a=b")]);
        assert!(config.add_cluster("http://other").unwrap_err().to_string().contains("prod=http://other"));
    }
}
