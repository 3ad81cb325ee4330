"""rescale.py URL JOB NAME=PARALLELISM...   sets the upper bounds of a job's vertices and waits until they run like that
   rescale.py URL JOB --wait STATE           waits until the job is in this state

NAME is the start of a vertex's name; "source" stands for "Source: source". All vertices must be named. It takes the
safe way: a checkpoint first, then the PUT, then another checkpoint, which Flink 2 waits for.
"""

import json
import sys
import time
import urllib.error
import urllib.request

SECONDS = 120
CHECKPOINT_SECONDS = 10


def call(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if data else {}
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def poll(seconds, condition):
    """What the condition returned when it came true, or None."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    return None


def wait(what, condition):
    return poll(SECONDS, condition) or sys.exit(f"rescale.py: {what} did not come within {SECONDS} s")


def running(job_url):
    """The vertices, when the job and all its subtasks run."""
    job = call("GET", job_url)
    if job["state"] in ("FAILED", "CANCELED"):
        sys.exit(f"rescale.py: the job is {job['state']}")
    everything_runs = job["state"] == "RUNNING" and all(
        v["tasks"]["RUNNING"] == v["parallelism"] for v in job["vertices"]
    )
    return everything_runs and job["vertices"]


def checkpoint(job_url):
    """Whether a checkpoint triggered now succeeds. While the job restarts it fails, or stays IN_PROGRESS for ever."""
    trigger = call("POST", f"{job_url}/checkpoints", {})["request-id"]
    operation = poll(CHECKPOINT_SECONDS, lambda: call("GET", f"{job_url}/checkpoints/{trigger}")["operation"])
    return operation is not None and "failureCause" not in operation


def parallelism_of(vertex, wanted):
    name = vertex["name"].removeprefix("Source: ")
    fitting = [p for start, p in wanted.items() if name.startswith(start)]
    if len(fitting) != 1:
        sys.exit(f"rescale.py: {len(fitting)} of the arguments fit the vertex '{vertex['name']}'")
    return int(fitting[0])


def rescale(job_url, wanted):
    vertices = wait("the job", lambda: running(job_url))
    target = {v["id"]: parallelism_of(v, wanted) for v in vertices}
    wait("a checkpoint before the rescale", lambda: checkpoint(job_url))
    bounds = {v: {"parallelism": {"lowerBound": 1, "upperBound": p}} for v, p in target.items()}
    start = time.monotonic()
    call("PUT", f"{job_url}/resource-requirements", bounds)
    checkpoint(job_url)

    def done():
        return {v["id"]: v["parallelism"] for v in running(job_url) or []} == target

    wait(f"the job at {wanted}", done)
    print(f"{wanted} after {time.monotonic() - start:.1f} s")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    job_url = f"{sys.argv[1]}/jobs/{sys.argv[2]}"
    try:
        if sys.argv[3] == "--wait":
            wait(sys.argv[4], lambda: call("GET", job_url)["state"] == sys.argv[4])
        else:
            rescale(job_url, dict(argument.split("=") for argument in sys.argv[3:]))
    except urllib.error.HTTPError as error:
        sys.exit(f"rescale.py: {error.url} answered {error.code}: {error.read().decode(errors='replace')[:1000]}")


if __name__ == "__main__":
    main()
