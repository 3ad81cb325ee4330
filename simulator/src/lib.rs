//! A fluid model of Flink clusters that speaks Flink's REST API.
//!
//! [`Cluster`] is the model: a plain value whose state follows from its [specification](ClusterSpec), the times and the
//! requests that it is given, and nothing else. Tests drive it in virtual time through [`Cluster::handle`]; [`serve`] puts
//! it behind a socket; [`FaultPlan`] spoils answers on the way; [`scenario`] has clusters that are ready to run.
//!
//! ```
//! use weir_simulator::{Cluster, Request, scenario::scenario};
//!
//! let found = scenario("wordcount").ok_or("no such scenario")?;
//! let mut cluster = Cluster::new(found.spec, 0)?;
//! let answer = cluster.handle(60_000, &Request::get("/overview"));
//! assert_eq!(answer.status, 200);
//! assert!(cluster.truth().jobs[0].backlog > 20_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod faults;
mod model;
mod num;
mod rest;
mod rng;
pub mod scenario;
mod server;
mod spec;

pub use faults::{Fault, FaultPlan, Outcome};
pub use model::{
    Cause, Cluster, EdgeTruth, HookError, JobStatus, JobTruth, RescaleRecord, SubtaskTruth, Truth, VertexTruth,
    vertex_names,
};
pub use rest::{Request, Response};
pub use rng::hex_id;
pub use server::{serve, serve_with_faults};
pub use spec::{
    ClusterSpec, EdgeSpec, FlinkVersion, JobSpec, LoadTrace, Scheduler, Ship, SourceKind, SourceSpec, SpecError,
    VertexKind, VertexSpec,
};
