import pytest

from hermes_agent.policy.redaction.redactor import Redactor

redact = Redactor({})


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("DB_PASSWORD=hunter2!x\n", "DB_PASSWORD=[redacted:password]\n"),
        ("export PGPASSWORD=sunflower", "export PGPASSWORD=[redacted:password]"),
        ("password=swordfish\n", "password=[redacted:password]\n"),
        ("password = hunter2\n", "password = [redacted:password]\n"),
        ("  password: hunter2\n", "  password: [redacted:password]\n"),
        ('  password: "two words 4 you"\n', '  password: "[redacted:password]"\n'),
        ("POSTGRES_PASSWORD=mysecretpassword\n", "POSTGRES_PASSWORD=[redacted:password]\n"),
        ('"MYSQL_PASSWORD=user_pass",', '"MYSQL_PASSWORD=[redacted:password]",'),
        ("PGPASSWORD:  mysecretpassword\n", "PGPASSWORD:  [redacted:password]\n"),
        ("JWT_SECRET=mysupersecretjwt\n", "JWT_SECRET=[redacted:secret]\n"),
        (
            "- name: POSTGRES_PASSWORD\n    value: hunter2\n",
            "- name: POSTGRES_PASSWORD\n    value: [redacted:password]\n",
        ),
        (
            '"name": "DB_PASSWORD",\n      "value": "mysecretpassword"\n',
            '"name": "DB_PASSWORD",\n      "value": "[redacted:password]"\n',
        ),
        (
            '\\"name\\":\\"API_TOKEN\\",\\"value\\":\\"k3x9q0zz7w1v5u2t\\"',
            '\\"name\\":\\"API_TOKEN\\",\\"value\\":\\"[redacted:token]\\"',
        ),
        (
            'name = "DB_PASSWORD"\nvalue = "two words 4 you"\n',
            'name = "DB_PASSWORD"\nvalue = "[redacted:password]"\n',
        ),
        ('{"password": "hunter2"}', '{"password": "[redacted:password]"}'),
        ('{"password":"letmein"}', '{"password":"[redacted:password]"}'),
        (
            '{"a": "{\\"password\\": \\"hunter2\\"}"}',
            '{"a": "{\\"password\\": \\"[redacted:password]\\"}"}',
        ),
        ("<password>hunter2</password>", "<password>[redacted:password]</password>"),
        ("deploy --password hunter2 now", "deploy --password [redacted:password] now"),
        ("deploy --db-password=hunter2 now", "deploy --db-password=[redacted:password] now"),
        ("POST /?user=a&password=swordfish&x=1", "POST /?user=a&password=[redacted:password]&x=1"),
        ("smtp_pass: k33p-0ut\n", "smtp_pass: [redacted:password]\n"),
        ("mysql -u root -phunter2 db", "mysql -u root -p[redacted:password] db"),
        ("sshpass -p hunter2 ssh a", "sshpass -p [redacted:sshpass] ssh a"),
        ("curl -u me:hunter2 http://a/", "curl -u me:[redacted:password] http://a/"),
        ("api_key: 3f786850e387550fdab836ed7e6dc881\n", "api_key: [redacted:key]\n"),
        ('"apiKey": "k3x9q0zz7w1v5u2t"', '"apiKey": "[redacted:key]"'),
        ("client_secret=q8Zr0x71LmPw", "client_secret=[redacted:secret]"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY",
            "aws_secret_access_key = [redacted:key]",
        ),
        ("token: 550e8400-e29b-41d4-a716-446655440000", "token: [redacted:token]"),
        ('"auth": "dXNlcjpodW50ZXIyMjIy"', '"auth": "[redacted:credential]"'),
        ("_authToken=k3x9q0zz7w1v5u2t", "_authToken=[redacted:token]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:authorization]"),
        ("authorization: q8Zr0x71LmPw", "authorization: [redacted:authorization]"),
        ("Cookie: sid=abcd1234; theme=x\n", "Cookie: sid=[redacted:cookie]; theme=x\n"),
        (
            "Set-Cookie: sid=abcd1234; Path=/app/x; HttpOnly",
            "Set-Cookie: sid=[redacted:cookie]; Path=/app/x; HttpOnly",
        ),
        ("postgres://app:hunter2@db:5432/x", "postgres://app:[redacted:url-password]@db:5432/x"),
        ("redis://:hunter2@cache:6379/0", "redis://:[redacted:url-password]@cache:6379/0"),
    ],
)
def test_what_stands_behind_a_name_of_secrets_is_redacted(text: str, safe: str) -> None:
    assert redact(text) == safe
    assert redact(safe) == safe


@pytest.mark.parametrize(
    "text",
    [
        "def login(user: str, password: str, token: bytes32 = None) -> None: ...",
        "password = getpass()  # ask",
        "client = Client(password=password, token=settings.token, secret=secret)",
        "password=os.environ['DB_PASSWORD']",
        "token = tokens[0]; token = self.next_token(); token == other",
        "password: ${{ secrets.DB_PASSWORD }}",
        'password: "{{ vault_password }}"',
        "PASSWORD=$DB_PASSWORD TOKEN=${TOKEN} SECRET=$(cat /run/secret)",
        "password: <your password>  api_key: YOUR_API_KEY",
        '{"password": "string", "token": "string", "label": "Password"}',
        '{"password": "Passwort", "token_type": "Bearer"}',
        '{"max_tokens": 4096, "total_tokens": 128000, "token_count": 12}',
        "secretName: app-tls-2\nsecret: db-creds-v2\nserviceAccountToken: default\n",
        "password_file: /run/secrets/db_password\ntoken: /var/run/token\n",
        "key: value, keyboard: qwerty123, monkey=banana42, author: someone99",
        "--token TOKEN  the token to use\n--password  ask for it\n",
        "The password: it must have 8 characters. Token: see below.",
        "docker run -u 1000:1000 -p8080:80 image",
        "Authorization: required for all of these",
        "cookie: a small biscuit",
        "https://user:password@host and https://example.com:8080/a@b",
        "password= username= token= \n",
        "PASSWORD_FILE=/run/secrets/x\nTOKEN_COUNT=5\nmax_tokens=4096\n",
        "DB_PASSWORD=your-password-here\nPASSWORD=DB_PASSWORD\nPASSWORD: required\n",
        "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: db, key: password}\n",
        "- name: DB_PASSWORD\n  value: $(OTHER)\n- name: TOKEN_TTL\n  value: 3600\n",
        '<input name="password" value="Log in"> <b>the token value: seebelow</b>',
        "PASSWORD: passwordField,\n",
    ],
)
def test_code_templates_and_prose_about_secrets_are_left_alone(text: str) -> None:
    assert redact(text) == text
