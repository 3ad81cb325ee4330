//! The scenario that autoscalers are compared by: a word count under a load that starts at 800 lines a second, doubles, and falls
//! to a quarter. What it needs is known: one flatmap takes 500 lines/s, one count 500 words/s, and a line has two words.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use weir_flink::{FlinkClient, HttpApi};

use crate::wait::pause;
use crate::{FlinkCluster, FlinkJob, Load, Weir, wait_until};

/// Lines a second of the phases.
pub const RATES: [u32; 3] = [800, 1600, 400];
/// What one subtask of flatmap and of count can do, in records a second.
const CAPACITY: f64 = 500.0;
const WORDS: f64 = 2.0;
const SPLITS: u32 = 4;

/// The job and the cluster that it runs on.
pub struct Scenario<'a> {
    cluster: &'a FlinkCluster,
    api: HttpApi,
    /// The job.
    pub job: FlinkJob,
    truth: PathBuf,
}

/// What happened in a phase.
#[derive(Debug, Clone)]
pub struct Phase {
    /// Lines a second that were offered.
    pub rate: u32,
    /// How long it was watched.
    pub length: Duration,
    /// Sizes (source, flatmap, count) that it ran at, and since when; the first from the start of the phase.
    pub path: Vec<(Duration, [u32; 3])>,
    /// When it first ran with enough for the load.
    pub enough_at: Option<Duration>,
    /// Most lines that waited.
    pub max_lag: f64,
    /// Since when less than a second's load has waited, for good.
    pub drained_at: Option<Duration>,
    /// Lines that waited at the end.
    pub end_lag: f64,
    /// Mean slots: the largest parallelism, averaged over time.
    pub mean_slots: f64,
}

impl<'a> Scenario<'a> {
    /// Submits the job at 1/1/1 under the first load.
    #[must_use]
    pub fn submit(cluster: &'a FlinkCluster) -> Self {
        let truth = cluster.folder().join("truth");
        let load = Load { lines_per_second: RATES[0], keys: 997, ..Load::default() };
        let (splits, truth_dir) = (SPLITS.to_string(), truth.display().to_string());
        let capacity = CAPACITY.to_string();
        let job = cluster.submit(
            &load,
            &["--splits", &splits, "--flat-cap", &capacity, "--count-cap", &capacity, "--truth-dir", &truth_dir],
        );
        Self { cluster, api: cluster.api(), job, truth }
    }

    /// Waits until all of the job runs for the first time.
    pub async fn running(&self) {
        wait_until("the job to run", Duration::from_secs(60), async || self.sizes().await).await;
    }

    /// Sizes of source, flatmap and count, if all of the job runs.
    pub async fn sizes(&self) -> Option<[u32; 3]> {
        let detail = FlinkClient::new(&self.api).job(&self.job.id).await.ok()?.value;
        if !detail.all_running() {
            return None;
        }
        let size = |name: &str| detail.vertices.iter().find(|vertex| vertex.name.starts_with(name))?.parallelism;
        Some([size("Source")?, size("flatmap")?, size("count")?])
    }

    /// Restarts of the job so far, by Flink's count.
    ///
    /// # Panics
    /// If Flink does not tell.
    pub async fn restarts(&self) -> f64 {
        let metrics =
            FlinkClient::new(&self.api).job_metrics(&self.job.id, &["numRestarts"]).await.expect("metrics of the job");
        metrics.value.first().and_then(weir_flink::decode::MetricValue::number).expect("numRestarts")
    }

    /// Watches the job for `length` under the present load; `meanwhile` is called at every look.
    pub async fn watch(
        &self,
        rate: u32,
        length: Duration,
        mut meanwhile: impl FnMut(Duration, Option<[u32; 3]>),
    ) -> Phase {
        let began = Instant::now();
        let mut phase = Phase::new(rate, length);
        let (mut looks, mut slots) = (0.0, 0.0);
        let mut drained = None;
        while began.elapsed() < length {
            let (sizes, lag) = (self.sizes().await, lag(&self.truth));
            let at = began.elapsed();
            meanwhile(at, sizes);
            if let Some(sizes) = sizes {
                if phase.path.last().is_none_or(|(_, last)| *last != sizes) {
                    phase.path.push((at, sizes));
                }
                if phase.enough_at.is_none() && carries(sizes, rate) {
                    phase.enough_at = Some(at);
                }
                slots += f64::from(sizes.into_iter().max().unwrap_or(0));
                looks += 1.0;
            }
            if let Some(lag) = lag {
                phase.max_lag = phase.max_lag.max(lag);
                phase.end_lag = lag;
                drained = if lag < f64::from(rate) { drained.or(Some(at)) } else { None };
            }
            pause().await;
        }
        phase.drained_at = drained;
        phase.mean_slots = slots / f64::max(looks, 1.0);
        phase
    }

    /// Ends the load, waits for the job to finish, and proves that it counted exactly; the sentence that says so.
    pub async fn finish(&self) -> String {
        self.job.end();
        wait_until("the job to finish", Duration::from_secs(60), async || {
            let detail = FlinkClient::new(&self.api).job(&self.job.id).await.ok()?.value;
            (detail.state == "FINISHED").then_some(())
        })
        .await;
        self.job.check_counts()
    }

    /// Configuration of a Weir that may act on the cluster.
    #[must_use]
    pub fn configuration(&self, more: &str) -> String {
        format!(
            "[[cluster]]\nname = \"test\"\nurl = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n[default]\nmode = \"auto\"\n{more}\n",
            self.cluster.url()
        )
    }

    /// A Weir for the cluster, not started yet. A shrink waits for 12 s.
    #[must_use]
    pub fn weir(&self) -> Weir {
        Weir::prepare(&self.cluster.folder().join("weir"), &self.configuration("shrink_after_ms = 12000"))
    }
}

impl Phase {
    fn new(rate: u32, length: Duration) -> Self {
        Self {
            rate,
            length,
            path: Vec::new(),
            enough_at: None,
            max_lag: 0.0,
            drained_at: None,
            end_lag: f64::NAN,
            mean_slots: 0.0,
        }
    }

    /// Sizes at the end.
    ///
    /// # Panics
    /// If the job never ran.
    #[must_use]
    pub fn end(&self) -> [u32; 3] {
        self.path.last().expect("the job ran").1
    }

    /// Changes of size.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.path.len().saturating_sub(1)
    }

    /// When the size last changed.
    #[must_use]
    pub fn last_change(&self) -> Duration {
        if self.changes() == 0 { Duration::ZERO } else { self.path.last().map_or(Duration::ZERO, |(at, _)| *at) }
    }
}

/// Exact need of flatmap and of count at a utilisation.
#[must_use]
pub fn exact(rate: u32, utilisation: f64) -> [f64; 2] {
    let flatmap = f64::from(rate) / CAPACITY / utilisation;
    [flatmap, flatmap * WORDS]
}

/// DS2's answer at 70 % for flatmap and count.
#[must_use]
pub fn right_sizes(rate: u32) -> [u32; 2] {
    exact(rate, 0.7).map(whole)
}

/// Whether sizes carry the load at 100 %.
#[must_use]
pub fn carries([_, flatmap, count]: [u32; 3], rate: u32) -> bool {
    let [needs_flatmap, needs_count] = exact(rate, 1.0);
    f64::from(flatmap) >= needs_flatmap && f64::from(count) >= needs_count
}

/// Whether `size` is DS2's answer, or one subtask beside it where the exact answer lies within 3 % of a whole number.
#[must_use]
pub fn is_right(size: u32, exact: f64) -> bool {
    let right = whole(exact);
    let near_whole = (exact - exact.round()).abs() <= 0.03 * exact;
    size == right || (near_whole && size.abs_diff(right) == 1)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn whole(exact: f64) -> u32 {
    exact.ceil() as u32
}

/// Lines that wait in all splits, as the source itself wrote it down.
fn lag(truth: &Path) -> Option<f64> {
    let splits = (0..SPLITS).map(|split| {
        let text = std::fs::read_to_string(truth.join(format!("split-{split}"))).ok()?;
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [_, read, due] = numbers[..] else { return None };
        Some(due - read)
    });
    splits.sum()
}

impl fmt::Display for Phase {
    /// A row of the table by which autoscalers are compared.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |at: Option<Duration>| at.map_or("never".into(), |at| format!("{:.1}", at.as_secs_f64()));
        let path: Vec<String> = self
            .path
            .iter()
            .enumerate()
            .map(|(index, (at, [source, flatmap, count]))| {
                let sizes = format!("{source}/{flatmap}/{count}");
                if index == 0 { sizes } else { format!("{sizes}@{:.0}", at.as_secs_f64()) }
            })
            .collect();
        write!(
            f,
            "| {} | {} | {:.1} | {} | {} | {:.0} | {} | {:.2} ({}) |",
            self.rate,
            seconds(self.enough_at),
            self.last_change().as_secs_f64(),
            self.changes(),
            path.join(" > "),
            self.max_lag,
            seconds(self.drained_at),
            self.mean_slots,
            right_sizes(self.rate)[1],
        )
    }
}

/// The head of the table whose rows phases are.
pub const TABLE_HEAD: &str = "| lines/s | enough at s | last change s | restarts | path (source/flatmap/count) | max lag lines | lag < 1 s of load at s | mean slots (right at 70 %) |\n|---|---|---|---|---|---|---|---|";
