"""record.py adaptive|default OUT   the part of record.sh that talks to one running cluster (found by RUN_DIR).

Each answer becomes a file in OUT and an entry {file, method, path, status, body?} in OUT/index.json.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
RUN_DIR = os.environ["RUN_DIR"]
UNKNOWN_JOB = "0123456789abcdef0123456789abcdef"
UNKNOWN_VERTEX = "fedcba9876543210fedcba9876543210"
# 600 words a second for 240 of capacity: a backlog, a busy vertex and a back-pressured source in every recording.
LOAD = ["--rate", "300", "--words", "2", "--flat-cap", "400", "--count-cap", "80"]
JOB_ARGUMENTS = [*LOAD, "--flat-p", "2", "--count-p", "3", "--max-p", "120"]

VERTEX_METRICS = (
    "numRecordsIn,numRecordsOut,busyTimeMsPerSecond,idleTimeMsPerSecond,backPressuredTimeMsPerSecond,"
    "accumulateBusyTimeMs,accumulateIdleTimeMs,accumulateBackPressuredTimeMs"
)
JOB_METRICS = "numRestarts,uptime,lastCheckpointDuration,lastCheckpointSize,numberOfCompletedCheckpoints"
TM_METRICS = "Status.JVM.CPU.Load,Status.JVM.CPU.Time,Status.JVM.Memory.Heap.Used,Status.JVM.Memory.Heap.Max"
JM_METRICS = "taskSlotsTotal,taskSlotsAvailable,numRegisteredTaskManagers"


def cluster(*arguments):
    done = subprocess.run([HERE / "cluster.sh", *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def settings():
    lines = (pathlib.Path(RUN_DIR) / "settings").read_text().split()
    return dict(line.split("=", 1) for line in lines)


class Recorder:
    def __init__(self, out):
        self.out = pathlib.Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.url = cluster("url")
        self.neutral = self.replacements()

    def replacements(self):
        """What names this machine, and what stands for it in a recording."""
        known = settings()
        ports = {known["rest_port"]: "8081", known["job_port"]: "6123", known["blob_port"]: "6124"}
        pairs = [(re.escape(RUN_DIR), "/flink"), (re.escape(known["flink"]), "/flink")]
        pairs += [(rf"\b{port}\b", usual) for port, usual in ports.items()]
        pairs += [(rf"\b{re.escape(name)}\b", "127.0.0.1") for name in {socket.gethostname(), socket.getfqdn()}]
        return [(re.compile(pattern), plain) for pattern, plain in pairs]

    def call(self, method, path, body=None):
        data = None if body is None else body.encode()
        headers = {"Content-Type": "application/json"} if data else {}
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path):
        return json.loads(self.call("GET", path)[1])

    def record(self, name, path, method="GET", body=None):
        status, text = self.call(method, path, body)
        self.keep(name, path, method, body, status, text)
        return status, text

    def keep(self, name, path, method, body, status, text):
        for pattern, plain in self.neutral:
            text = pattern.sub(plain, text)
        # Tens of kilobytes in base64 that nobody but Java can read.
        text = re.sub(r'("serialized-throwable":")[^"]{32,}', r'\1rO0ABXNy...', text)
        try:
            content, ending = json.dumps(json.loads(text), indent=1) + "\n", "json"
        except ValueError:
            content, ending = text, "txt"
        file = f"{name}.{ending}"
        (self.out / file).write_text(content)
        entry = {"file": file, "method": method, "path": path, "status": status}
        if body is not None:
            entry["body"] = body
        self.add_to_index(entry)

    def add_to_index(self, entry):
        index = self.out / "index.json"
        entries = json.loads(index.read_text()) if index.exists() else []
        entries = [e for e in entries if e["file"] != entry["file"]] + [entry]
        lines = ",\n".join(" " + json.dumps(e) for e in sorted(entries, key=lambda e: e["file"]))
        index.write_text(f"[\n{lines}\n]\n")

    def wait(self, what, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        sys.exit(f"record.py: {what} did not come within {seconds} s")

    def running(self, job, parallelism=None):
        """The job's details when all its subtasks run, at these parallelisms if any are named."""

        def look():
            details = self.get(f"/jobs/{job}")
            vertices = details.get("vertices", [])
            runs = details.get("state") == "RUNNING" and all(
                v["tasks"]["RUNNING"] == v["parallelism"] for v in vertices
            )
            return runs and parallelism in (None, [v["parallelism"] for v in vertices]) and details

        return self.wait(f"job {job} running at {parallelism}", look)

    def settled(self, job):
        """Waits until the job runs and its vertices have counted something."""
        details = self.running(job)
        self.wait(
            "records",
            lambda: all(sum_of_records(v) > 0 for v in self.get(f"/jobs/{job}")["vertices"]),
        )
        return details


def sum_of_records(vertex):
    return vertex["metrics"]["read-records"] + vertex["metrics"]["write-records"]


def short_name(vertex):
    return {"Source: source": "source", "count -> sink": "count"}.get(vertex["name"], vertex["name"])


def metrics_path(job, vertices, name):
    vertex = next(v for v in vertices if short_name(v) == name)
    return f"/jobs/{job}/vertices/{vertex['id']}/subtasks/metrics"


def pending_records(r, job, vertices):
    answer = r.get(metrics_path(job, vertices, "source") + "?get=Source__source.pendingRecords&agg=sum")
    return answer[0]["sum"] if answer else 0


def requirements(vertices, **changes):
    """A body for PUT: the present parallelism as upper bound, or (lower, upper) by short name."""
    return {
        v["id"]: bounds(*changes.get(short_name(v), (1, v["parallelism"])))
        for v in vertices
    }


def bounds(lower, upper):
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


def record_cluster(r, suffix=""):
    r.record(f"config{suffix}", "/config")
    r.record(f"overview{suffix}", "/overview")
    r.record(f"jobmanager-config{suffix}", "/jobmanager/config")


def record_empty_cluster(r):
    record_cluster(r)
    r.record("jobs-overview-empty", "/jobs/overview")
    r.record("taskmanagers", "/taskmanagers")
    r.record("taskmanager", "/taskmanagers/tm1")
    r.record("taskmanager-unknown", "/taskmanagers/tm99")
    r.record("unknown-path", "/no/such/path")
    r.record("job-unknown", f"/jobs/{UNKNOWN_JOB}")
    r.record("job-malformed-id", "/jobs/xyz")


def record_metrics(r, job, vertices):
    for v in vertices:
        name, path = short_name(v), f"/jobs/{job}/vertices/{v['id']}"
        r.record(f"vertex-{name}", path)
        r.record(f"vertex-{name}-metric-names", f"{path}/subtasks/metrics")
        r.record(f"vertex-{name}-metrics", f"{path}/subtasks/metrics?get={VERTEX_METRICS}&agg=min,max,sum,avg")
        r.record(f"vertex-{name}-metrics-all-aggregates", f"{path}/subtasks/metrics?get=numRecordsOut")
        one_unknown = f"{path}/subtasks/metrics?get=numRecordsIn,noSuchMetric&agg=sum"
        r.record(f"vertex-{name}-metrics-unknown-name", one_unknown)
        r.record(f"vertex-{name}-metrics-raw", f"{path}/metrics?get=0.numRecordsIn,0.noSuchMetric")
        r.record(f"vertex-{name}-backpressure", f"{path}/backpressure")
    path = metrics_path(job, vertices, "source")
    lag = "Source__source.pendingRecords,Source__source.numRecordsIn"
    r.record("vertex-source-pending-records", f"{path}?get={lag}&agg=sum,max")
    r.record("vertex-unknown", f"/jobs/{job}/vertices/{UNKNOWN_VERTEX}")
    r.record("job-metric-names", f"/jobs/{job}/metrics")
    r.record("job-metrics", f"/jobs/{job}/metrics?get={JOB_METRICS}")
    r.record("job-metrics-unknown-name", f"/jobs/{job}/metrics?get=numRestarts,noSuchMetric")
    for where, asked in (("taskmanagers", TM_METRICS), ("taskmanagers/tm1", TM_METRICS), ("jobmanager", JM_METRICS)):
        name = where.replace("taskmanagers/tm1", "taskmanager")
        r.record(f"{name}-metric-names", f"/{where}/metrics")
        r.record(f"{name}-metrics", f"/{where}/metrics?get={asked}")
    r.record("taskmanagers-metrics-aggregated", f"/taskmanagers/metrics?get={TM_METRICS}&agg=max,avg")
    r.record("taskmanagers-metrics-unknown-name", "/taskmanagers/metrics?get=Status.JVM.CPU.Load,noSuchMetric")


def record_refusals(r, job, vertices):
    """Every way in which a PUT of requirements is refused, or accepted though it changes nothing."""
    path = f"/jobs/{job}/resource-requirements"
    now = requirements(vertices)
    one_missing = dict(list(now.items())[1:])
    put = {
        "put-empty-map": {},
        "put-unknown-vertex": {**now, UNKNOWN_VERTEX: bounds(1, 1)},
        "put-missing-vertex": one_missing,
        "put-missing-and-unknown-vertex": {**one_missing, UNKNOWN_VERTEX: bounds(1, 1)},
        "put-lower-above-upper": requirements(vertices, flatmap=(3, 2)),
        "put-zero": requirements(vertices, flatmap=(0, 0)),
        "put-above-max-parallelism": requirements(vertices, flatmap=(1, 121)),
        "put-key-not-hex": {**now, "flatmap": bounds(1, 1)},
        "put-wrapped": {"jobVertexResourceRequirements": now},
        "put-identical": now,
    }
    for name, body in put.items():
        r.record(name, path, "PUT", json.dumps(body))
    r.record("put-malformed-body", path, "PUT", "{not json")
    r.record("put-empty-body", path, "PUT", "")
    r.record("put-unknown-job", f"/jobs/{UNKNOWN_JOB}/resource-requirements", "PUT", json.dumps(now))
    r.record("put-malformed-job-id", "/jobs/xyz/resource-requirements", "PUT", json.dumps(now))
    r.record("requirements-unknown-job", f"/jobs/{UNKNOWN_JOB}/resource-requirements")


def record_conflict(r, job, vertices):
    """Several PUTs at once: those that meet another one being applied get 409."""
    path, body = f"/jobs/{job}/resource-requirements", json.dumps(requirements(vertices))
    for _ in range(20):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for answer in [pool.submit(r.call, "PUT", path, body) for _ in range(8)]:
                status, text = answer.result()
                if status == 409:
                    return r.keep("put-conflict", path, "PUT", body, status, text)
    print("record.py: no PUT met another one, so put-conflict is not recorded", file=sys.stderr)


def record_checkpoint(r, job, name, outcome):
    """Triggers a checkpoint and records its status; COMPLETED only says that there is an answer, maybe a failure."""
    _, text = r.record(name, f"/jobs/{job}/checkpoints", "POST", json.dumps({"checkpointType": "CONFIGURED"}))
    path = f"/jobs/{job}/checkpoints/{json.loads(text)['request-id']}"
    r.record(f"{name}-status-first", path)
    operation = r.wait("the triggered checkpoint", lambda: r.get(path)["operation"])
    r.record(f"{name}-status-{outcome}", path)
    if ("failureCause" in operation) != (outcome == "failed"):
        sys.exit(f"record.py: {name} was to be {outcome}: {json.dumps(operation)[:300]}")


def record_rescale(r, job, vertices):
    path = f"/jobs/{job}/resource-requirements"
    r.record("requirements", path)
    record_checkpoint(r, job, "checkpoint-trigger", "completed")
    r.record("checkpoint-trigger-status-unknown", f"/jobs/{job}/checkpoints/{UNKNOWN_JOB}")
    r.record("put-valid", path, "PUT", json.dumps(requirements(vertices, flatmap=(1, 3), count=(1, 5))))
    r.record("requirements-after-put", path)
    r.running(job, [1, 3, 5])
    r.record("job-rescaled", f"/jobs/{job}")
    r.record("job-metrics-rescaled", f"/jobs/{job}/metrics?get={JOB_METRICS}")
    r.record("checkpoints-restored", f"/jobs/{job}/checkpoints")
    r.record("rescales-config", f"/jobs/{job}/rescales/config")
    r.record("rescales-history", f"/jobs/{job}/rescales/history")
    r.record("put-above-slots", path, "PUT", json.dumps(requirements(vertices, flatmap=(1, 3), count=(1, 20))))
    r.running(job, [1, 3, 8])
    r.record("job-short-of-slots", f"/jobs/{job}")
    r.record("requirements-short-of-slots", path)


def record_restart(r, job):
    cluster("kill-tm", "tm2", "KILL")
    r.wait("a restart", lambda: r.get(f"/jobs/{job}")["state"] != "RUNNING")
    r.record("job-restarting", f"/jobs/{job}")
    r.record("jobs-overview-restarting", "/jobs/overview")
    r.record("overview-restarting", "/overview")
    record_checkpoint(r, job, "checkpoint-trigger-restarting", "failed")
    cluster("add-tm")
    r.wait("all slots", lambda: r.get("/overview")["slots-total"] == 8)
    r.running(job, [1, 3, 8])
    r.record("job-restarted", f"/jobs/{job}")
    r.record("job-metrics-restarted", f"/jobs/{job}/metrics?get={JOB_METRICS}")


def change_rate(rate_file, rate):
    with rate_file.open("a") as rates:
        rates.write(f"{int(time.time() * 1000) + 500} {rate}\n")


def adaptive(r):
    record_empty_cluster(r)
    rate_file = pathlib.Path(RUN_DIR) / "rate"
    job = cluster("submit", *JOB_ARGUMENTS, "--rate-file", str(rate_file))
    r.running(job)
    r.record("job-just-running", f"/jobs/{job}")
    vertices = r.settled(job)["vertices"]
    r.wait("a backlog", lambda: pending_records(r, job, vertices) > 100)
    r.wait("a checkpoint", lambda: r.get(f"/jobs/{job}/checkpoints")["counts"]["completed"] > 0)
    r.record("jobs-overview", "/jobs/overview")
    r.record("job", f"/jobs/{job}")
    r.record("job-config", f"/jobs/{job}/config")
    r.record("job-plan", f"/jobs/{job}/plan")
    r.record("job-exceptions-none", f"/jobs/{job}/exceptions")
    r.record("checkpoints", f"/jobs/{job}/checkpoints")
    r.record("checkpoints-config", f"/jobs/{job}/checkpoints/config")
    r.record("overview-busy", "/overview")
    r.record("taskmanagers-busy", "/taskmanagers")
    record_metrics(r, job, vertices)
    change_rate(rate_file, "50")
    record_refusals(r, job, vertices)
    record_conflict(r, job, vertices)
    record_rescale(r, job, vertices)
    record_restart(r, job)
    r.record("job-exceptions", f"/jobs/{job}/exceptions")
    change_rate(rate_file, "end")
    r.wait("the end", lambda: r.get(f"/jobs/{job}")["state"] == "FINISHED")
    r.record("job-finished", f"/jobs/{job}")
    r.record("jobs-overview-finished", "/jobs/overview")
    r.record("put-finished-job", f"/jobs/{job}/resource-requirements", "PUT", json.dumps(requirements(vertices)))
    r.record("requirements-finished-job", f"/jobs/{job}/resource-requirements")
    r.record("checkpoint-trigger-finished-job", f"/jobs/{job}/checkpoints", "POST", "{}")


def default(r):
    job = cluster("submit", *JOB_ARGUMENTS)
    vertices = r.settled(job)["vertices"]
    record_cluster(r, "-default-scheduler")
    path = f"/jobs/{job}/resource-requirements"
    r.record("job-default-scheduler", f"/jobs/{job}")
    r.record("checkpoints-none", f"/jobs/{job}/checkpoints")
    r.record("checkpoints-config-without-interval", f"/jobs/{job}/checkpoints/config")
    record_checkpoint(r, job, "checkpoint-trigger-without-interval", "completed")
    r.record("requirements-default-scheduler", path)
    r.record("put-default-scheduler", path, "PUT", json.dumps(requirements(vertices)))
    r.record("rescales-config-default-scheduler", f"/jobs/{job}/rescales/config")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("adaptive", "default"):
        sys.exit(__doc__)
    {"adaptive": adaptive, "default": default}[sys.argv[1]](Recorder(sys.argv[2]))
