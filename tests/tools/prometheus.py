"""Runs the queries for `tests/tools/prometheus`. The argument is the path to the example program."""

import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

TOKEN = "a-token-of-this-test"
LIMIT = 120
DEPLOY = pathlib.Path("example-app/deploy")
# The linter mistakes our prefix for the type of the metric.
FALSE_ALARM = "metric name should not include type 'counter'"
# These metrics don't exist without failures, and because we run the example without a spool and an archive.
MAY_BE_EMPTY = ("spool", "archive", "dropped_")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(url, headers=None):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=30) as response:
        return response.read().decode()


def until(what, condition):
    """Polls until the condition returns a value, and returns this value."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            if value := condition():
                return value
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.2)
    sys.exit(f"tests/tools/prometheus: timed out after {LIMIT} s: {what}")


def queries():
    """Yields the queries of the dashboard, and the metrics used by the alerts."""
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "10s")
            yield panel["title"], query
    for name in sorted(set(re.findall(r"\b(?:access_counter|http_server)_\w+", (DEPLOY / "alerts.yml").read_text()))):
        yield "alerts.yml", name


def main(example, folder):
    site, prometheus = (f"127.0.0.1:{free_port()}" for _ in range(2))
    flags = ["--store", "memory:", "--distributions", "--demo-traffic", "--listen", site, "--admin-token", TOKEN]
    (folder / "prometheus.yml").write_text(json.dumps({
        "scrape_configs": [{
            "job_name": "site",
            "scrape_interval": "1s",
            "metrics_path": "/admin/stats/metrics",
            "authorization": {"credentials": TOKEN},
            "static_configs": [{"targets": [site]}],
        }],
        "rule_files": [str((DEPLOY / "alerts.yml").resolve())],
    }))
    started = []
    try:
        log = open(folder / "log", "w")
        started.append(subprocess.Popen([example, *flags], cwd=folder, stdout=log, stderr=log))
        started.append(subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={prometheus}"], stdout=log, stderr=log))
        metrics = until("the example serves metrics", lambda: get(
            f"http://{site}/admin/stats/metrics", {"Authorization": f"Bearer {TOKEN}"}))
        linted = subprocess.run(["promtool", "check", "metrics"], input=metrics, text=True, capture_output=True)
        remarks = [line for line in linted.stderr.splitlines() if FALSE_ALARM not in line]
        if remarks:
            sys.exit("\n".join(remarks))

        def run_query(query):
            response = json.loads(get(f"http://{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": query})))
            return response["data"]["result"]

        count = 0
        for title, query in queries():
            may_be_empty = any(word in query for word in MAY_BE_EMPTY)
            until(f"{title!r} has a result for {query}", lambda: run_query(query) or may_be_empty)
            count += 1
        rules = json.loads(get(f"http://{prometheus}/api/v1/rules"))["data"]["groups"][0]["rules"]
        until("all alerts are evaluated", lambda: all(
            rule["health"] == "ok"
            for rule in json.loads(get(f"http://{prometheus}/api/v1/rules"))["data"]["groups"][0]["rules"]))
        print(f"{count} queries have a result, and {len(rules)} alerts are evaluated")
    finally:
        for process in started:
            process.terminate()
            process.wait()


with tempfile.TemporaryDirectory() as temporary:
    main(sys.argv[1], pathlib.Path(temporary))
