"""What sounds secret is not shown, however it is written; all else is."""

import pytest

from hermes_agent.tools.sources.redaction import text_without_secrets, without_secrets

KEY = "-----BEGIN PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        "db_password = hunter2",
        "+db_password = hunter2",
        "- DB_PASSWORD: hunter2",
        "2026-11-19T03:12:01.5Z DB_PASSWORD: hunter2 hunter2",
        "connects with user=ann password=hunter2 to db",
        "run --db-password hunter2 --verbose",
        '{"user": "ann", "password": "hunter2", "port": 1}',
        '{"log": "{\\"password\\": \\"hunter2 hunter2\\"}"}',
        '{"port": 1, "password": "hunter2',
        '{"port": 1, "password": "a\\"hunter2", "user": "ann"}',
        "db.password: |\n  hunter2\n  hunter2\nport: 1",
        "env:\n- name: DB_PASSWORD\n  value: hunter2\n- name: MODE\n  value: fast",
        '[{"name":"DB_PASSWORD","value":"hunter2"}]',
        "postgres://ann:hun@hunter2@db/shop",
        "-----BEGIN EC PRIVATE KEY-----\nhunter2",
        f"{KEY}\nProc-Type: 4,ENCRYPTED\n\nhunter2=\n-----END PRIVATE KEY-----",
        "create role ann login password 'hunter2'",
        "ALTER ROLE ann PASSWORD E'a\\'hunter2' VALID UNTIL '2027-01-01'",
        "ALTER ROLE ann PASSWORD 'a''hunter2'",
        "ALTER USER ann IDENTIFIED WITH sha256_password BY 'hunter2'",
        '{"sql": "ALTER USER ann IDENTIFIED BY \\"hunter2\\" ACCOUNT UNLOCK"}',
        "SET PASSWORD FOR 'ann'@'%' = 'hunter2'",
        "update staff set db_password = 'hunter2'",
    ],
)
def test_a_secret_in_a_text_is_not_shown(text: str) -> None:
    shown = text_without_secrets(text)
    assert "hunter2" not in shown
    assert "(not shown)" in shown


def test_words_of_a_command_are_not_shown_after_an_option_for_them() -> None:
    command = ["run", "--db-password", "hunter2", "--token-ttl", "5m", "-v"]
    shown = ["run", "--db-password", "(not shown)", "--token-ttl", "5m", "-v"]
    assert without_secrets({"args": command}) == {"args": shown}


@pytest.mark.parametrize(
    "text",
    [
        "failed to get a token: timeout",
        "secretName: db\ntokenPath: /x\n",
        "volumes:\n- name: token\n  secret:\n    secretName: db\n",
        "GET /cart?page=2 http://web:8080/a 5 ms",
        'level=info msg="no secret at all"',
        "wrong password for user 'ann' of 'shop'; identified as 'typo'",
        "select password from staff where name = 'ann'",
        "password:\n  from: vault\n",
    ],
)
def test_what_is_no_secret_is_shown(text: str) -> None:
    assert text_without_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://shop:hunter2@db/x", "postgres://shop:(not shown)@db/x"),
        ("  export DB_PASSWORD=hunter2", "  export DB_PASSWORD=(not shown)"),
        ("'api_key' : 'x'", "'api_key' : (not shown)"),
        ("password:\n  hunter2", "password:\n  (not shown)"),
        ("token:\n\nnext", "token:\n\n(not shown)"),
        ("secretName: shop", "secretName: shop"),
        (f"{KEY}\nabc=\n-----END PRIVATE KEY-----\nok", "(not shown)\nok"),
        (f"{KEY}\nabc=\n", "(not shown)"),
        (f"found {KEY}: it is no file", "found (not shown): it is no file"),
    ],
)
def test_secrets_are_taken_out_of_texts(text: str, shown: str) -> None:
    assert text_without_secrets(text) == shown


MANY = 300_000


@pytest.mark.parametrize(
    "text",
    [
        *(part * (MANY // len(part)) for part in (
            "\n", " ", "-", "a", "a.", "a=", '"', "://", "a://", "- ", "-----BEGIN ", KEY,
            "name: a", "a: |\n", "--a ", "token=", "token: |\n", '"token":"', "2026-11-19T0",
            "password '", "password 'a", "password for a", "identified with ", 'password \\"',
        )),
        "x://" + "b" * MANY, f"a:{' ' * MANY}", f"a{' ' * MANY}b", f"{KEY}{'-' * MANY}",
        f"a:\n{' ' * MANY}{{", "x://a:" + "b" * MANY,
    ],
    ids=lambda text: repr(text[:12]),
)  # fmt: skip
def test_a_long_text_takes_no_time(text: str) -> None:
    """A time that grows with the square of the length would be minutes."""
    assert text_without_secrets(text)
