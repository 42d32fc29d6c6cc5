import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.models.responder.view.settings import (
    environment,
    filled,
    flags,
    is_config,
    read,
    script,
    whole,
)

INI = """\
; of the shop
[server]
port = 8080  ; the front
data = /var/lib/shop
"""
TOML = (
    'title = "shop"\n[server]\nport = 8080\nhosts = ["a", "b"]\n[server.log]\nfile = "log/a.log"\n'
)
JSON = '{"server": {"port": 8080, "tls": true, "peers": [{"url": "http://a:1"}]}}'
YAML = "server:\n  port: 8080\n  log:\n    file: /var/log/shop/a.log\n  names: [a, b]\n"
ENV = "# of the shop\nexport PORT=8080\nSTORE='/srv/shop/data'\nURL=http://127.0.0.1:9/x#y\n"
PROPERTIES = "! of the shop\nserver.port=8080\nserver.store: /srv/shop/data\n"
WORDS = "# as redis has it\nport 8080\ndir /var/lib/cache\nappendonly yes\nsave 900 1\n"
NGINX = """\
worker_processes 1;
http {
    include /etc/nginx/conf.d/*.conf;  # all sites
    server {
        listen 127.0.0.1:8080;
        location / { proxy_pass http://127.0.0.1:9090; }
    }
    server {
        listen 8081;
    }
}
"""


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (INI, "server.port"),
        (TOML, "server.port"),
        (JSON, "server.port"),
        (YAML, "server.port"),
        (ENV, "PORT"),
        (PROPERTIES, "server.port"),
        (WORDS, "port"),
    ],
    ids=["ini", "toml", "json", "yaml", "env", "properties", "words"],
)
def test_settings_are_read_in_any_form(text: str, key: str) -> None:
    found = read(text)
    assert found[key] == "8080"
    assert found.last("PORT") == "8080"
    assert found.ports == [8080]


def test_what_is_nested_is_flat_and_quotes_and_remarks_are_gone() -> None:
    assert read(TOML)["server.hosts"] == "a, b"
    assert read(TOML)["server.log.file"] == "log/a.log"
    assert read(JSON)["server.tls"] == "true"
    assert read(JSON)["server.peers.0.url"] == "http://a:1"
    assert read(ENV)["STORE"] == "/srv/shop/data"
    assert read(ENV)["URL"] == "http://127.0.0.1:9/x#y"
    assert read(INI)["server.port"] == "8080"


def test_blocks_are_read_as_nginx_has_them() -> None:
    found = read(NGINX)
    assert found["http.server.location.proxy_pass"] == "http://127.0.0.1:9090"
    assert found["http.include"] == "/etc/nginx/conf.d/*.conf"
    assert found.ports == [8080, 8081]


def test_places_are_known_by_what_they_look_like() -> None:
    assert read(YAML).paths == ["/var/log/shop/a.log"]
    assert read(TOML).paths == ["log/a.log"]
    assert read("ratio = 1/2\nzone = Europe/Rome\nurl = http://a/b\n").paths == ["Europe/Rome"]
    assert read('db = "sqlite:///srv/a/b.db"').paths == ["/srv/a/b.db"]
    assert whole("../etc/a.toml", "/opt/shop/bin") == "/opt/shop/etc/a.toml"
    assert whole("/etc/a", "/opt") == "/etc/a"
    assert whole("a.toml", "") == ""


def test_what_is_no_port_is_none() -> None:
    found = read(
        "listen_timeout = 3000\nmax_port_retries = 9000\nport = 81\nserver = http://a:90\n"
    )
    assert found.ports == [81]


def test_a_command_line_sets_things_too() -> None:
    found = flags(["python3", "app.py", "--port=8080", "-c", "/etc/a.toml", "--debug", "-v"])
    assert found == {"port": "8080", "c": "/etc/a.toml", "debug": "true", "v": "true"}
    assert flags(["gunicorn", "-b", "0.0.0.0:8080", "app:main"]).ports == [8080]
    assert flags(["PORT=81", "python3", "-m", "http.server", "8080"]).ports == [81, 8080]
    told = environment('PORT="8080",STORE=/srv/a,LEVEL="a, b"')
    assert told == {"PORT": "8080", "STORE": "/srv/a", "LEVEL": "a, b"}


def test_a_wrapper_is_followed_to_what_it_runs() -> None:
    values, last = script(
        "#!/bin/sh\nset -eu\n# of the shop\nBASE=/opt/shop\nPORT=${PORT:-8080}\n"
        'exec "$BASE/bin/run" --conf "$BASE/etc/a.toml" \\\n  --port "$PORT"\n'
    )
    assert values == {"BASE": "/opt/shop", "PORT": "8080"}
    assert last == ["/opt/shop/bin/run", "--conf", "/opt/shop/etc/a.toml", "--port", "8080"]
    assert filled("$A/${B}/${C:-d}/$E", {"A": "a", "B": "b"}) == "a/b/d/$E"


def test_files_of_settings_are_known_by_their_names() -> None:
    named = ("/etc/a.conf", "/opt/a/.env", "/srv/a/config", "/etc/a/app.properties", "/x/a.yml")
    assert all(is_config(path) for path in named)
    assert not any(is_config(path) for path in ("/srv/a.py", "/var/lib/a.db", "/etc/hosts"))


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from(list('ab=:{}[]";#\n \t-1./$,')), max_size=80))
def test_whatever_is_written_is_read_without_trouble(text: str) -> None:
    found = read(text)
    assert all(isinstance(value, str) for value in found.values())
    assert isinstance(found.paths, list)
    assert isinstance(found.ports, list)
    script(text)
    flags(text.split())
