//! Errors as Flink words them.

use serde_json::json;

use super::Response;

const HANDLER: &str = "org.apache.flink.runtime.rest.handler.RestHandlerException";
const TRACE: &str = "\n\tat org.apache.flink.runtime.rest.handler.AbstractHandler.respondAsLeader(AbstractHandler.java:196)\
                     \n\tat java.base/java.lang.Thread.run(Thread.java:840)\n";

/// The path leads nowhere.
pub(crate) fn not_found(path_and_query: &str) -> Response {
    let path = path_and_query.split('?').next().unwrap_or_default();
    Response::json(404, &json!({ "errors": [format!("Unable to load requested file {path}.")] }))
}

/// A handler refused the request.
pub(crate) fn refused(status: u16, message: &str) -> Response {
    Response::json(status, &json!({ "errors": [format!("{HANDLER}: {message}{TRACE}")] }))
}

/// A handler refused the request because of another exception.
pub(crate) fn refused_because(status: u16, message: &str, causes: &[&str]) -> Response {
    let causes: String = causes.iter().map(|cause| format!("Caused by: {cause}{TRACE}")).collect();
    Response::json(status, &json!({ "errors": [format!("{HANDLER}: {message}{TRACE}{causes}")] }))
}

/// A handler failed: `exception` is the class with its message.
pub(crate) fn internal(exception: &str) -> Response {
    let detail = format!("<Exception on server side:\n{exception}{TRACE}\nEnd of exception on server side>");
    Response::json(500, &json!({ "errors": ["Internal server error.", detail] }))
}

/// A part of the path has the wrong form.
pub(crate) fn bad_path_parameter(name: &str, value: &str) -> Response {
    let reason = format!("Cannot resolve path parameter ({name}) from value \"{value}\".");
    let cause = format!("org.apache.flink.runtime.rest.handler.HandlerRequestException: {reason}");
    refused_because(400, &format!("Bad request, could not parse parameters: {reason}"), &[&cause])
}

/// No such job, for handlers that look at its structure.
pub(crate) fn job_not_found(id: &str) -> Response {
    let first = format!("org.apache.flink.runtime.rest.NotFoundException: Job {id} not found{TRACE}");
    let cause = format!("Caused by: {}{TRACE}", no_such_job(id));
    Response::json(404, &json!({ "errors": [format!("{first}{cause}")] }))
}

/// No such vertex.
pub(crate) fn vertex_not_found(id: &str) -> Response {
    let first = format!("org.apache.flink.runtime.rest.NotFoundException: JobVertex {id} not found{TRACE}");
    Response::json(404, &json!({ "errors": [first] }))
}

/// The exception behind a job that is unknown or over.
pub(crate) fn no_such_job(id: &str) -> String {
    format!("org.apache.flink.runtime.messages.FlinkJobNotFoundException: Could not find Flink job ({id})")
}
