//! A simulated cluster as the rest of Weir sees one: it answers Flink's REST calls, in the process and in virtual time.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use weir_flink::{CallError, FlinkApi, Request, Response};
use weir_runtime::VirtualClock;
use weir_simulator::{Cluster, FaultPlan, Outcome};

/// Answers Flink's REST calls from a simulated cluster.
#[derive(Clone)]
pub struct SimApi {
    cluster: Arc<Mutex<Cluster>>,
    faults: Arc<Mutex<FaultPlan>>,
    clock: VirtualClock,
}

impl SimApi {
    /// The cluster lives in the time of `clock`.
    #[must_use]
    pub fn new(cluster: Cluster, clock: VirtualClock) -> Self {
        Self { cluster: Arc::new(Mutex::new(cluster)), faults: Arc::new(Mutex::new(FaultPlan::none())), clock }
    }

    /// Does something with the cluster as it is now.
    pub fn with<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        cluster.advance_to(self.clock.now_ms());
        act(&mut cluster)
    }

    /// From now on answers are spoilt by `plan`.
    pub fn spoil(&self, plan: FaultPlan) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    fn answer(&self, request: &Request) -> Outcome {
        let asked = weir_simulator::Request {
            method: request.method.as_str().into(),
            path_and_query: request.path.clone(),
            body: request.body.clone().unwrap_or_default(),
        };
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.handle(&mut cluster, self.clock.now_ms(), &asked)
    }
}

impl FlinkApi for SimApi {
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        Box::pin(async move {
            match self.answer(&request) {
                Outcome::Answer { response, .. } if !response.is_dropped() => {
                    Ok(Response { status: response.status, body: response.body.into() })
                }
                Outcome::Hang => pending().await,
                _ => Err(CallError::Unreachable("the simulated JobManager closed the connection".into())),
            }
        })
    }
}
