"""The one row that makes a file of settings readable again."""

import json

from hermes_agent.models.responder.rules.mending import Row, mended

SITE = """\
server {
    listen 127.0.0.1:80;
    proxy_http_version 1.1
    proxy_read_timout 5s;
}
"""
PATH = "/etc/nginx/sites-enabled/a.conf"


def test_what_can_be_read_is_left_as_it_is() -> None:
    assert mended('{"a": 1}', "/etc/a.json") is None
    assert mended("a = 1\n", "/etc/a.toml") is None
    assert mended("anything [", "/etc/a.conf") is None


def test_a_comma_is_taken_off_or_added() -> None:
    assert mended('{\n "a": 1,\n "b": 2,\n}\n', "/etc/a.json") == Row(3, ' "b": 2', ' "b": 2,')
    row = mended('{\n "a": 1\n "b": 2\n}\n', "/etc/a.json")
    assert row == Row(2, ' "a": 1,', ' "a": 1')
    assert json.loads('{\n "a": 1,\n "b": 2\n}\n')


def test_an_end_is_added() -> None:
    assert mended('{\n "a": {\n "b": 2\n }\n', "/etc/a.json") == Row(0, "}")
    row = mended('a = "x\nb = 2\n', "/etc/a.toml")
    assert row is not None
    assert row.new == 'a = "x"'


def test_a_value_that_stands_twice_is_put_out_once() -> None:
    row = mended("[s]\na = 1\nb = 2\na = 3\n", "/etc/a.ini")
    assert row is not None
    assert row.new == "# a = 3"


def test_a_tab_becomes_spaces() -> None:
    row = mended("a:\n\tb: 1\n", "/etc/a.yaml")
    assert row is not None
    assert row.new == "  b: 1"


def test_what_nginx_complains_of_is_mended() -> None:
    said = f'[emerg] invalid number of arguments in "proxy_http_version" directive in {PATH}:4'
    assert mended(SITE, PATH, said) == Row(
        3, "    proxy_http_version 1.1;", "    proxy_http_version 1.1"
    )
    row = mended(SITE, PATH, f'[emerg] unknown directive "proxy_read_timout" in {PATH}:4')
    assert row is not None
    assert row.new == "    proxy_read_timeout 5s;"
    assert mended(SITE, PATH, f'[emerg] unknown directive "xyzzy" in {PATH}:4') is None
    end = f'[emerg] unexpected end of file, expecting "}}" in {PATH}:5'
    assert mended(SITE, PATH, end) == Row(0, "}")


def test_a_row_is_written_in_its_place() -> None:
    assert Row(3, "a|b & c").command("/etc/x") == r"sed -i '3s|.*|a\|b \& c|' /etc/x"
    assert Row(0, "}").command("/etc/x") == "printf '%s\\n' '}' >> /etc/x"
