//! The contract: checks over any [`World`], run in order on one cluster. Each may rely on those before it.

mod answers;
mod endings;
mod refusals;
mod rescales;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use weir_flink::decode::{JobDetail, VertexDetail};
use weir_flink::{CallError, FlinkApi, FlinkClient, FlinkError, Method, Request, Response};
use weir_tests::{BoxFuture, Shape, World, until};

/// Slots of the cluster: enough for the job, with one to spare until it grows.
pub const SLOTS: u32 = 4;
/// So long, ten days, that no periodic checkpoint comes between: the first is due at any moment of an interval, or at once.
pub const CHECKPOINT_MS: u32 = 864_000_000;
/// Least time between two rescales.
pub const COOLDOWN_MS: u32 = 1_000;

/// Longest time that anything may take. Far above what it does take, for machines that are busy with something else.
const DEADLINE: Duration = Duration::from_secs(60);

/// The source cannot take in all that is offered, so that some of it waits; behind it there is room, so that checkpoints pass
/// quickly.
const SHAPE: Shape = Shape {
    lines_per_second: 200,
    words: 2,
    capacities: [150, 400, 250],
    parallelism: [1, 1, 2],
    max_parallelism: 120,
};

/// Vertices by what their names begin with, in the order of the graph.
const NAMES: [&str; 3] = ["Source: source", "flatmap", "count"];

/// A job on a cluster, to be checked.
struct Suite<'w> {
    world: &'w dyn World,
    client: FlinkClient<'w>,
    job: String,
}

/// Runs checks in order; a failure names the one that it happened in.
macro_rules! checks {
    ($suite:expr, $($check:path),+ $(,)?) => {
        $(named($suite.world, stringify!($check), $check(&$suite)).await;)+
    };
}

/// The contract of clusters whose jobs can be rescaled.
pub async fn adaptive_scheduler(world: &dyn World) {
    let suite = Suite::submit(world, &SHAPE);
    checks!(
        suite,
        answers::the_cluster_tells_its_version_slots_and_scheduler,
        answers::the_job_is_found_by_the_overview,
        answers::the_detail_shows_vertices_edges_and_sources,
        answers::requirements_are_those_of_the_graph_at_first,
        answers::what_waits_for_a_source_is_told_by_its_rest_name,
        answers::one_unknown_metric_empties_the_answer,
        refusals::bad_requirements_are_refused_and_change_nothing,
        refusals::who_is_not_there_is_told_apart,
        answers::counters_grow_within_an_attempt,
        answers::times_of_a_subtask_add_up_to_its_age,
        answers::a_checkpoint_that_is_asked_for_completes_once,
        rescales::the_job_reaches_what_was_put_in_new_attempts,
        rescales::the_same_again_restarts_nothing,
        rescales::more_than_the_slots_runs_with_what_exists,
        rescales::restarts_and_rescales_are_counted,
        rescales::timers_are_told_from_the_release_that_has_them,
        endings::a_job_that_has_finished_takes_no_requirements,
    );
    let suite = Suite::submit(world, &SHAPE);
    checks!(suite, endings::a_job_that_is_cancelled_between_two_calls_is_gone);
}

/// The contract of clusters whose jobs cannot be rescaled.
pub async fn default_scheduler(world: &dyn World) {
    let suite = Suite::submit(world, &Shape { parallelism: [1; 3], ..SHAPE });
    checks!(suite, refusals::the_default_scheduler_has_no_requirements, refusals::a_job_without_checkpoints_says_so,);
}

/// Runs a check, and says which one it was.
async fn named(world: &dyn World, check: &str, running: impl Future<Output = ()>) {
    let began = world.elapsed();
    let done = AssertUnwindSafe(running).catch_unwind().await;
    let took = (world.elapsed() - began).as_secs_f64();
    match done {
        Ok(()) => println!("{}: {check}: ok ({took:.1} s)", world.name()),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|&said| said.to_owned())).unwrap_or_default();
            let failed = format!("{}: {check}: FAILED after {took:.1} s: {said}", world.name());
            std::panic::resume_unwind(Box::new(failed));
        }
    }
}

impl<'w> Suite<'w> {
    fn submit(world: &'w dyn World, shape: &Shape) -> Self {
        Self { world, client: FlinkClient::new(world.api()), job: world.submit(shape) }
    }

    /// Waits for `condition`, as long as anything may take.
    async fn until<T>(&self, what: &str, condition: impl AsyncFnMut() -> Option<T>) -> T {
        until(self.world, what, DEADLINE, condition).await
    }

    async fn detail(&self) -> JobDetail {
        self.client.job(&self.job).await.unwrap().value
    }

    /// The job, once it and all its subtasks run.
    async fn running(&self) -> JobDetail {
        self.until("the job with all its subtasks running", async || {
            Some(self.detail().await).filter(JobDetail::all_running)
        })
        .await
    }

    /// The job, once it runs like this; checkpoints are asked for on the way where a rescale waits for one.
    async fn running_at(&self, parallelism: [u32; 3]) -> JobDetail {
        let mut asked_at = None;
        self.until(&format!("the job running at {parallelism:?}"), async || {
            let detail = self.detail().await;
            if detail.all_running() && parallelism_of(&detail) == parallelism {
                return Some(detail);
            }
            // A checkpoint that completes before the scheduler waits for one is in vain, so there have to be more.
            let due = asked_at.is_none_or(|at: Duration| self.world.elapsed() - at > Duration::from_secs(2));
            if due && self.waits_for_checkpoints() {
                let _ = self.client.trigger_checkpoint(&self.job, None).await;
                asked_at = Some(self.world.elapsed());
            }
            None
        })
        .await
    }

    fn waits_for_checkpoints(&self) -> bool {
        self.world.version() >= weir_flink::Version::RESCALE_WAITS_FOR_CHECKPOINT
    }

    /// A vertex, once all its subtasks have counters.
    async fn counted(&self, id: &str) -> VertexDetail {
        self.until("counters of all subtasks", async || {
            let vertex = self.client.vertex(&self.job, id).await.unwrap().value;
            let counted = vertex.subtasks.iter().all(|subtask| {
                let times = subtask.metrics.busy_ms.zip(subtask.metrics.idle_ms).zip(subtask.metrics.backpressured_ms);
                subtask.running() && subtask.metrics.records_in.is_some() && times.is_some()
            });
            (counted && !vertex.subtasks.is_empty()).then_some(vertex)
        })
        .await
    }

    /// What was asked for, as upper bounds in the order of the graph.
    async fn asked(&self) -> [u32; 3] {
        let requirements = self.client.requirements(&self.job).await.unwrap().value;
        let detail = self.detail().await;
        by_name(&detail, |id| requirements.0[id].upper.unwrap())
    }

    async fn put(&self, uppers: [u32; 3]) -> Result<(), FlinkError> {
        let detail = self.detail().await;
        let ids = by_name(&detail, str::to_owned);
        let bounds: BTreeMap<String, (u32, u32)> =
            ids.into_iter().zip(uppers).map(|(id, upper)| (id, (1, upper))).collect();
        self.client.put_requirements(&detail, &bounds).await
    }

    async fn send(&self, method: Method, path: String, body: Option<String>) -> Response {
        self.world.api().call(Request { method, path, body }).await.unwrap()
    }
}

/// Something of each vertex, in the order of the graph.
fn by_name<T: std::fmt::Debug>(detail: &JobDetail, mut of: impl FnMut(&str) -> T) -> [T; 3] {
    let values: Vec<T> = NAMES
        .iter()
        .map(|name| {
            let vertex = detail.vertices.iter().find(|vertex| vertex.name.starts_with(name));
            of(&vertex.unwrap_or_else(|| panic!("no vertex {name} in {:?}", detail.vertices)).id)
        })
        .collect();
    values.try_into().unwrap()
}

fn parallelism_of(detail: &JobDetail) -> [u32; 3] {
    by_name(detail, |id| detail.vertex(id).unwrap().parallelism.unwrap_or(0))
}

/// What the client makes of an answer.
async fn error_of(answer: Response) -> FlinkError {
    FlinkClient::new(&Fixed(answer)).overview().await.unwrap_err()
}

/// Gives one answer to everything.
struct Fixed(Response);

impl FlinkApi for Fixed {
    fn call<'a>(&'a self, _: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}
