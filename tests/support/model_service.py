"""A Hermes home whose model is a server on this machine: the service `mine`, with a price."""

import json
from typing import Any

from hermes_agent.core.messages import Reply, Usage
from tests.support.cli import Hermes
from tests.support.openai_server import OpenAIServer

ANSWER = Reply("Good day.", usage=Usage(input=2000, output=125, cached=1500))
COST = (500 * 1.0 + 1500 * 0.1 + 125 * 2.0) / 1_000_000
"""What `ANSWER` costs with `mine/x`."""
PRICE = {"input": 1.0, "output": 2.0, "cached": 0.1}


def served(hermes: Hermes, server: OpenAIServer, **models: Any) -> None:
    """Write `config.yaml`: `mine/x` answers for new sessions; `models` are further settings."""
    hermes.environ.pop("HERMES_MODEL", None)
    hermes.home.mkdir(exist_ok=True)
    service = {"url": server.url, "needs_key": False, **models.pop("service", {})}
    settings = {
        "model": "mine/x",
        "models": {
            "services": {"mine": service},
            "prices": {"mine/x": PRICE},
            "retries": 0,
            **models,
        },
    }
    (hermes.home / "config.yaml").write_text(json.dumps(settings))
