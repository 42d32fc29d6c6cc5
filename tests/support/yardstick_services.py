"""The cases of the yardstick that ask about metrics, logs, databases and addresses."""

import re
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hermes_agent.tools.sources.databases.postgresql import postgresql
from hermes_agent.tools.sources.databases.redis import redis
from hermes_agent.tools.sources.kubernetes import kubernetes
from hermes_agent.tools.sources.loki import loki
from hermes_agent.tools.sources.opensearch import opensearch
from hermes_agent.tools.sources.probe import probe
from hermes_agent.tools.sources.prometheus import prometheus
from tests.support.databases import listens
from tests.support.model_server import Raw, Received
from tests.support.quick_http import QuickHTTPServer
from tests.support.sources import answers, free_port, server
from tests.support.yardstick import Call, Case

THEN = datetime(2025, 8, 2, 13, 0, tzinfo=UTC).timestamp()

# --- Loki


PAY = {"namespace": "pay", "pod": "payment-api-7f-x1", "level": "error"}
STREAMS: tuple[tuple[dict[str, str], tuple[tuple[float, str], ...]], ...] = (
    ({**PAY, "level": "info"}, tuple((60.0 * at, f"paid order {at}") for at in range(120))),
    (PAY, tuple((2700 + 30.0 * at, f"order {at}: no connection: the pool is exhausted (20 of 20)")
                for at in range(60))),
    ({"namespace": "stock", "pod_name": "inventory-0"},
     ((0.0, "stock of ITEM-77 is 45"), (60.0, "stock of ITEM-77 is 42"))),
)  # fmt: skip
PAYMENTS: tuple[Call, ...] = (
    (loki, {"action": "labels"}),
    (loki, {"action": "patterns", "query": '{namespace="pay"}',
            "since": "2025-08-02T13:40:00Z", "until": "2025-08-02T14:45:00Z"}),
)  # fmt: skip
AROUND = {"since": "2025-08-02T12:00:00Z", "until": "2025-08-02T16:00:00Z"}
LOKI = (
    Case("100a_loki_historical_logs", "a full connection pool months ago", PAYMENTS,
         ("pool is exhausted",), 2),
    Case("101_loki_historical_logs_pod_deleted", "the same, and the pod is gone: only Loki knows",
         PAYMENTS, ("pool is exhausted",), 2),
    Case("102_loki_label_discovery", "the pod is in a label of another name",
         ((loki, {"action": "query", "query": '{pod=~"inventory.*"}', **AROUND}),
          (loki, {"action": "labels", **AROUND}),
          (loki, {"action": "query", "query": '{pod_name=~"inventory.*"}', **AROUND})),
         ("ITEM-77 is 45", "ITEM-77 is 42"), 3),
)  # fmt: skip


def loki_server(received: Received) -> Raw:
    """Selectors of labels only."""
    given = {name: values[0] for name, values in parse_qs(received.query).items()}
    if received.path.endswith("/labels"):
        found: Any = sorted({name for names, _ in STREAMS for name in names})
        return Raw.json({"status": "success", "data": found})
    start, end = int(given["start"]) / 1e9, int(given["end"]) / 1e9
    wanted = re.findall(r'(\w+)(=~?)"([^"]*)"', given["query"])
    result = []
    for names, lines in STREAMS:
        values = [[str(int((THEN + at) * 1e9)), line] for at, line in lines
                  if start <= THEN + at < end]  # fmt: skip
        if values and all(
            re.fullmatch(value if how == "=~" else re.escape(value), names.get(name, ""))
            for name, how, value in wanted
        ):
            result.append({"stream": names, "values": values[-int(given["limit"]) :]})
    found = {"resultType": "streams", "result": result}
    return Raw.json({"status": "success", "data": found})


# --- OpenSearch


def line(index: str, minutes: float, **fields: Any) -> dict[str, Any]:
    at = datetime.fromtimestamp(THEN + minutes * 60, UTC)
    return {"_index": index, "_source": {"@timestamp": f"{at:%Y-%m-%dT%H:%M:%SZ}", **fields}}


DOCUMENTS = [
    *(line("app-logs", 5 * at, level="ERROR", service=service, message=f"{code}: {what}")
      for at, (service, code, what) in enumerate((
          ("payments", "ERR-1142", "no answer of the bank"),
          ("orders", "ERR-2791", "no such card"), ("stock", "ERR-8406", "not in step")))),
    *(line("app-logs", 7 * at, level="INFO", service="orders", message="done") for at in range(9)),
    *(line("app-events", at, service=service)
      for at, service in enumerate(["payments"] * 5 + ["orders"] * 3 + ["stock"] * 2)),
    *(line(f"fleet-{team}-{service}-{day:02}", 1440.0 * day, level="INFO", message="healthy")
      for team in ("web", "data", "platform") for service in ("api", "billing")
      for day in range(30)),
    line("fleet-platform-billing-17", 90, level="ERROR", service="billing",
         message="payment gateway timeout, transaction failed, ERR-7KX29"),
    line("geo-eu-west-auth-05", 30, level="ERROR", service="auth", region="eu-west",
         message="REQ-EU-4410 took 15847 ms, the LDAP pool is exhausted"),
    *(line("metrics-hourly", 60.0 * at, request=f"REQ-{at:04}", value=at % 7)
      for at in range(48) if not 38 <= at < 44),
]  # fmt: skip
INDEXES = {  # size, shards
    "app-logs": (30_000, 1), "app-events": (20_000, 3), "metrics-analytics": (96_000_000, 7),
    "eval-k3x9q7zt": (4_000, 1), "metrics-hourly": (50_000, 1),
}  # fmt: skip
FIELDS = {"transaction": "keyword", "amount": "double", "about.region": "keyword",
          "about.priority": "integer", "processed_at": "date"}  # fmt: skip
SERVICE = {"service": "keyword"}
LONG = {"since": "2000d ago"}


def matches(document: Mapping[str, Any], index: str, body: Mapping[str, Any]) -> bool:
    """`field:word` and plain words, joined by AND."""
    if not re.fullmatch(index.replace("*", ".*"), document["_index"]):
        return False
    wanted = {key: one for part in body["query"]["bool"]["filter"] for key, one in part.items()}
    times = wanted["range"]["@timestamp"]
    if not times["gte"] <= time_of(document) < times["lte"]:
        return False
    fields = {key: str(value).lower() for key, value in document["_source"].items()}
    for word in wanted.get("query_string", {}).get("query", "*").lower().split(" and "):
        name, _, value = word.strip('"').rpartition(":")
        among = [fields.get(name, "")] if name else list(fields.values())
        if word != "*" and not any(value in one for one in among):
            return False
    return True


def time_of(document: Mapping[str, Any]) -> int:
    return int(datetime.fromisoformat(document["_source"]["@timestamp"]).timestamp() * 1000)


def opensearch_server(received: Received) -> Raw:
    index, _, action = received.path.strip("/").partition("/")
    if received.path == "/_cluster/health":
        return Raw.json({"cluster_name": "logs-7", "status": "yellow", "number_of_nodes": 3,
                         "unassigned_shards": 4})  # fmt: skip
    if index == "_cat":
        kind, _, pattern = action.partition("/")
        chosen = {name: INDEXES[name] for name in INDEXES
                  if re.fullmatch(pattern.replace("*", ".*"), name)}  # fmt: skip
        if kind == "shards":
            return Raw.json([{"prirep": "p", "state": "STARTED"}
                             for _, count in chosen.values() for _ in range(count)])  # fmt: skip
        return Raw.json([
            {"health": "green", "index": name, "docs.count": "5", "store.size": str(taken),
             "pri": str(count), "rep": "0"}
            for name, (taken, count) in sorted(chosen.items(), key=lambda one: -one[1][0])
        ])  # fmt: skip
    if action == "_field_caps":
        many = {f"metric_{number}": "float" for number in range(522)}
        kinds = FIELDS if index == "app-schema" else many if index.startswith("events") else SERVICE
        known = {"@timestamp": "date", **kinds}
        return Raw.json({"fields": {name: {kind: {}} for name, kind in known.items()}})
    found = [one for one in DOCUMENTS if matches(one, index, received.json)]
    found.sort(key=time_of, reverse=True)
    hits = {"total": {"value": len(found)}, "hits": found[: received.json["size"]]}
    return Raw.json({"hits": hits, "aggregations": aggregated(found, received.json)})


def aggregated(found: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name, wanted in body.get("aggs", {}).items():
        if "terms" in wanted:
            values = Counter(one["_source"].get(wanted["terms"]["field"]) for one in found)
            rows = [{"key": one, "doc_count": count} for one, count in values.most_common()]
            said[name] = {"buckets": rows}
        elif "date_histogram" in wanted:
            step = int(wanted["date_histogram"]["fixed_interval"][:-1]) * 1000
            counts: dict[int, int] = {}
            for one in found:
                at = time_of(one) // step * step
                counts[at] = counts.get(at, 0) + 1
            said[name] = {"buckets": [{"key": at, "doc_count": counts.get(at, 0)}
                                      for at in range(min(counts), max(counts) + 1, step)]
                          if counts else []}  # fmt: skip
        else:
            times = [time_of(one) for one in found]
            least = "min" in wanted
            said[name] = {"value": (min if least else max)(times) if times else None}
    return said


def searched(query: str, **more: str) -> tuple[Call, ...]:
    """Nobody knows when it was: first the last hour, as is usual, then any time."""
    asked = {"action": "search", "query": query, **more}
    return (opensearch, asked), (opensearch, {**asked, **LONG})


def seen(index: str) -> tuple[Call, ...]:
    return ((opensearch, {"action": "overview", "index": index}),)


GAP = {"index": "metrics-hourly", "since": "2025-08-02T12:00:00Z"}
OPENSEARCH = (
    Case("183a_elasticsearch_cluster_health", "the state of a cluster", seen("*"),
         ("logs-7", "yellow", "3 nodes"), 1),
    Case("183b_elasticsearch_index_discovery", "an index by the start of its name", seen("eval-*"),
         (r"eval-k3x9q7zt +green +5",), 1),
    Case("183c_elasticsearch_log_search", "codes of errors",
         searched("level:ERROR", index="app-logs"), ("ERR-1142", "ERR-2791", "ERR-8406"), 2),
    Case("183d_elasticsearch_aggregation", "how many events of which service",
         tuple((opensearch, {"action": "values", "field": "service", "index": "app-events", **more})
               for more in ({}, LONG)),
         ("payments +5", "orders +3", "stock +2"), 2),
    Case("183e_elasticsearch_field_mappings", "types of fields, some within others",
         ((opensearch, {"action": "fields", "index": "app-schema"}),),
         ("transaction +keyword", "amount +double", r"about\.region +keyword",
          r"about\.priority +integer", "processed_at +date"), 1),
    Case("183f_elasticsearch_shard_filtering", "shards of one index", seen("app-events"),
         ("3 primary shards STARTED",), 1),
    Case("184_elasticsearch_index_explosion", "one line in one of many indexes",
         searched("ERR-7KX29"), ("billing", "payment gateway timeout"), 2),
    Case("185_elasticsearch_cross_region_search", "one request in one of many regions",
         searched("REQ-EU-4410"), ("auth", "15847 ms"), 2),
    Case("186_elasticsearch_shard_explosion", "shards of one index among many",
         seen("metrics-analytics"), ("7 primary shards STARTED",), 1),
    Case("187_elasticsearch_disk_space", "the index that takes most of the disk", seen("*"),
         (r"metrics-analytics .*96 MB",), 1),
    Case("188_elasticsearch_mapping_explosion", "how many fields each of four indexes has",
         ((opensearch, {"action": "fields", "index": "events-*"}),), ("events-odd.*523",), 0,
         why_not="fields are listed for all indexes of a pattern together"),
    Case("189_elasticsearch_timeseries_gap", "hours without data, and the last line before them",
         ((opensearch, {"action": "histogram", "index": "metrics-hourly"}),
          (opensearch, {"action": "histogram", **GAP, "until": "2025-08-04T13:00:00Z"}),
          (opensearch, {"action": "search", **GAP, "until": "2025-08-04T08:00:00Z"})),
         ("none from 2025-08-04", "REQ-0037"), 3),
)  # fmt: skip

# --- Prometheus

CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - {{job_name: shop, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}
"""
TIME = "request_duration_seconds"
CPU = "container_cpu_usage_seconds_total"
PROMETHEUS = (
    Case("124_checkout_latency_prometheus", "slow only with a coupon; no other sign",
         ((prometheus, {"action": "metrics", "query": "duration"}),
          (prometheus, {"action": "query", "query":
              f"rate({TIME}_sum[9s]) / rate({TIME}_count[9s])"})),
         (r"coupon=yes.* 4", r"coupon=no.* 0\.1"), 2),
    Case("159_prometheus_high_cardinality_cpu", "who uses most, of 120 pods",
         ((prometheus, {"action": "range", "since": "1m", "query":
             f"topk(5, sum by (pod) (rate({CPU}{{namespace='shop'}}[10s])))"}),),
         ("pod=z-heavy-0", "pod=z-heavy-1", "[▁▂▃▄▅▆▇█]"), 1),
    Case("160a_cpu_per_namespace_graph", "a plot for each namespace",
         ((prometheus, {"action": "range", "since": "1m", "query":
             f"sum by (namespace) (rate({CPU}[10s]))"}),),
         ("namespace=shop.*[▁▂▃▄▅▆▇█]", "namespace=bank.*[▁▂▃▄▅▆▇█]"), 1),
)  # fmt: skip


class Exporter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        now = time.time() % 1e6
        rates = {("shop", f"pod-{number}"): 0.01 for number in range(120)}
        rates |= {("shop", "z-heavy-0"): 1.5, ("shop", "z-heavy-1"): 1.2, ("bank", "vault"): 0.2}
        lines = [f'{CPU}{{namespace="{space}",pod="{pod}"}} {rate * now}'
                 for (space, pod), rate in rates.items()]  # fmt: skip
        for coupon, seconds in (("yes", 4.0), ("no", 0.1)):
            names = f'{{path="/checkout",coupon="{coupon}"}}'
            lines += [f"{TIME}_sum{names} {now * seconds}",
                      f"{TIME}_count{names} {now}"]  # fmt: skip
        self.send_response(200)
        self.end_headers()
        self.wfile.write("\n".join([*lines, ""]).encode())

    def log_message(self, *_: object) -> None: ...


@contextmanager
def served(
    handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    one = QuickHTTPServer(("127.0.0.1", 0), handler)
    if tls:
        one.socket = tls.wrap_socket(one.socket, server_side=True)
    threading.Thread(target=one.serve_forever, daemon=True).start()
    try:
        yield one.server_port
    finally:
        one.shutdown()
        one.server_close()


@contextmanager
def metrics(folder: Path) -> Iterator[str]:
    folder.mkdir(exist_ok=True)
    with served(Exporter) as exporter:
        port = free_port()
        (folder / "prometheus.yml").write_text(CONFIG.format(port=exporter))
        command = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                   f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        enough = f"{url}/api/v1/query?query=count_over_time(up[1m])>=6"
        with server(folder, command, lambda: answers(enough, b'"value"')):
            yield url


# --- databases

USERS = (
    "create extension pg_stat_statements",
    "create table users (id int primary key, email text)",
    "insert into users select n, 'user' || n || '@shop.example' from generate_series(1, 100000) n",
    *("select * from users where email = 'ann@shop.example'" for _ in range(20)),
)
POSTGRESQL = (
    Case("104b_postgres_missing_index_pgstat", "no index for what is searched",
         tuple((postgresql, {"action": action}) for action in ("overview", "slow", "sizes")),
         (r"20 .*where email = \$1", r"public\.users .*100000"), 3),
    Case("postgres_lock_contention_product_catalog", "one session holds what others want",
         tuple((postgresql, {"action": action}) for action in ("overview", "locks")),
         ("lock table users", "idle in transaction", "where id = 7"), 2),
)  # fmt: skip
REDIS = (
    Case("105_redis_wrong_data_structure", "KEYS instead of a set",
         tuple((redis, {"action": action}) for action in ("overview", "slow")),
         (r"KEYS session:user:\*", "keys=50000"), 2),
    Case("valkey_memory_disruption", "memory is full and nothing may be evicted",
         tuple((redis, {"action": action}) for action in ("overview", "sizes")),
         ("noeviction", "maxmemory", "junk"), 2),
)  # fmt: skip


FILL = "for n = 1, 50000 do redis.call('SET', 'session:user:' .. n, 'x') end"
JUNK = "for n = 1, 6 do redis.call('SET', 'junk:' .. n, string.rep('j', 4000000)) end"
KEYS = {
    "105_redis_wrong_data_structure": (["EVAL", FILL, "0"], ["KEYS", "session:user:*"]),
    "valkey_memory_disruption": (["EVAL", JUNK, "0"],),
}


@contextmanager
def cache(folder: Path, case: Case) -> Iterator[str]:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
               "--slowlog-log-slower-than", "1000", "--maxmemory", "24mb"]  # fmt: skip
    with server(folder, command, lambda: listens(port)):
        for words in KEYS[case.name]:
            cli = ["redis-cli", "-p", str(port), *words]
            subprocess.run(cli, check=True, capture_output=True)
        yield f"redis://127.0.0.1:{port}"


# --- addresses


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404 if self.path.endswith(".webp") else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def expired(folder: Path) -> ssl.SSLContext:
    """With a certificate that ended yesterday."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name(
        [x509.NameAttribute(x509.NameOID.COMMON_NAME, "shop")]
    )  # fmt: skip
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(7).not_valid_before(now - timedelta(90)).not_valid_after(now - timedelta(1))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "both.pem").write_bytes(pem + made.public_bytes(Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "both.pem")
    return context


ADDRESSES = (
    Case("180_connectivity_check", "one address answers, the other does not exist",
         ((probe, {"target": "http://127.0.0.1:{http}/"}), (probe, {"target": "shop.invalid"})),
         (r"\b200\b", "shop.invalid"), 2),
    Case("182_connectivity_check_http_url", "one page is there, the other is not",
         ((probe, {"target": "http://127.0.0.1:{http}/icon.ico"}),
          (probe, {"target": "http://127.0.0.1:{http}/icon.webp"})), (r"\b200\b", r"\b404\b"), 2),
    Case("expired_tls_hotel_reservation", "a certificate that has ended",
         ((probe, {"target": "127.0.0.1:{https}", "action": "tls"}),), ("expired|ended",), 1),
)  # fmt: skip

# --- Flux

FLUX = (
    Case("176_flux_sync_failure", "Git refuses the key of a source",
         ((kubernetes, {"action": "flux"}),), ("fleet-infra", "unable to authenticate"), 1),
)  # fmt: skip


def flux_object(name: str, kind: str, spec: Mapping[str, Any], message: str) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "False", "reason": "Failed", "message": message,
             "lastTransitionTime": "2026-11-19T03:00:00Z"}  # fmt: skip
    return {"metadata": {"name": name, "namespace": "flux-system"}, "kind": kind, "spec": spec,
            "status": {"conditions": [ready]}}  # fmt: skip


def flux_wire() -> dict[str, Any]:
    wire: dict[str, Any] = {"GET /apis": [200, {"groups": []}]}
    for group, plural, one in (
        ("kustomize", "kustomizations", flux_object(
            "shop", "Kustomization", {"sourceRef": {"name": "fleet-infra"}, "path": "./shop"},
            "Source artifact not found, retrying in 30s")),
        ("source", "gitrepositories", flux_object(
            "fleet-infra", "GitRepository", {"url": "ssh://git@git.example/infra"},
            "failed to checkout: ssh: handshake failed: unable to authenticate [none publickey]")),
    ):  # fmt: skip
        name, version = f"{group}.toolkit.fluxcd.io", f"{group}.toolkit.fluxcd.io/v1"
        wire["GET /apis"][1]["groups"].append(
            {"name": name, "preferredVersion": {"groupVersion": version}}
        )
        wire[f"GET /apis/{version}"] = [200, {"resources": [{
            "name": plural, "namespaced": True, "kind": one["kind"], "verbs": ["get", "list"],
        }]}]  # fmt: skip
        wire[f"GET /apis/{version}/{plural}?limit=500"] = [200, {"items": [one]}]
    return wire


SERVICES = (*LOKI, *OPENSEARCH, *PROMETHEUS, *POSTGRESQL, *REDIS, *ADDRESSES, *FLUX)
