"""submit.py URL JAR CLASS [JOB ARGS...]   uploads the jar unless it is there, runs the class, prints the job id."""

import json
import pathlib
import sys
import urllib.error
import urllib.request
import uuid


def call(url, data=None, content_type="application/json"):
    request = urllib.request.Request(url, data=data, headers={"Content-Type": content_type} if data else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        sys.exit(f"submit.py: {url} answered {error.code}: {error.read().decode(errors='replace')}")
    except urllib.error.URLError as error:
        sys.exit(f"submit.py: {url} cannot be reached: {error.reason}")


def uploaded(url, name):
    """The id of the newest upload of this file name, or None."""
    files = [f for f in call(f"{url}/jars")["files"] if f["name"] == name]
    return max(files, key=lambda f: f["uploaded"])["id"] if files else None


def upload(url, jar):
    boundary = uuid.uuid4().hex
    head = (
        f"--{boundary}\r\nContent-Disposition: form-data; name=\"jarfile\"; filename=\"{jar.name}\"\r\n"
        "Content-Type: application/x-java-archive\r\n\r\n"
    )
    body = head.encode() + jar.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    answer = call(f"{url}/jars/upload", body, f"multipart/form-data; boundary={boundary}")
    return answer["filename"].rsplit("/", 1)[-1]


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    url, jar, entry_class, *arguments = sys.argv[1:]
    jar = pathlib.Path(jar)
    jar_id = uploaded(url, jar.name) or upload(url, jar)
    run = json.dumps({"entryClass": entry_class, "programArgsList": arguments}).encode()
    print(call(f"{url}/jars/{jar_id}/run", run)["jobid"])


if __name__ == "__main__":
    main()
