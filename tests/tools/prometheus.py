"""The part of `tests/tools/prometheus` that asks: its argument is the program of the example."""

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
# Of a linter that takes the word in our prefix for the type of the metric.
FALSE_ALARM = "metric name should not include type 'counter'"
# Without trouble there is nothing to see of it, and the example has no spool and no archive here.
MAY_BE_EMPTY = ("spool", "archive", "dropped_")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(url, headers=None):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=30) as answer:
        return answer.read().decode()


def until(what, condition):
    """Asks again until there is an answer, and returns it."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            if answer := condition():
                return answer
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.2)
    sys.exit(f"tests/tools/prometheus: waited {LIMIT} s in vain until {what}")


def questions():
    """The queries of the dashboard and of the alerts, with those of the latter without their comparisons."""
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
        metrics = until("the example has counted", lambda: get(
            f"http://{site}/admin/stats/metrics", {"Authorization": f"Bearer {TOKEN}"}))
        linted = subprocess.run(["promtool", "check", "metrics"], input=metrics, text=True, capture_output=True)
        remarks = [line for line in linted.stderr.splitlines() if FALSE_ALARM not in line]
        if remarks:
            sys.exit("\n".join(remarks))

        def ask(query):
            answer = json.loads(get(f"http://{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": query})))
            return answer["data"]["result"]

        asked = 0
        for title, query in questions():
            may_be_empty = any(word in query for word in MAY_BE_EMPTY)
            until(f"{title!r} has an answer to {query}", lambda: ask(query) or may_be_empty)
            asked += 1
        rules = json.loads(get(f"http://{prometheus}/api/v1/rules"))["data"]["groups"][0]["rules"]
        until("all alerts were looked at", lambda: all(
            rule["health"] == "ok"
            for rule in json.loads(get(f"http://{prometheus}/api/v1/rules"))["data"]["groups"][0]["rules"]))
        print(f"{asked} questions have an answer, and {len(rules)} alerts were looked at")
    finally:
        for process in started:
            process.terminate()
            process.wait()


with tempfile.TemporaryDirectory() as temporary:
    main(sys.argv[1], pathlib.Path(temporary))
