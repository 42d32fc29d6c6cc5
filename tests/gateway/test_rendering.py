"""Markdown as each platform shows it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.gateway.delivery.rendering import SLACK, TELEGRAM, render, tables_fenced
from tests.support.platforms.telegram import _Markup

TABLE = "| host | load |\n|---|---|\n| `db-1` | 0.9 |\n| web | 12 |"


@pytest.mark.parametrize(
    ("text", "telegram", "slack"),
    [
        ("**a** *b* ~~c~~ `d<`", "<b>a</b> <i>b</i> <s>c</s> <code>d&lt;</code>",
         "*a* _b_ ~c~ `d&lt;`"),
        ("# A **b**", "<b>A b</b>", "*A b*"),
        ("1 < 2 & 3", "1 &lt; 2 &amp; 3", "1 &lt; 2 &amp; 3"),
        ("<b>raw</b>", "&lt;b&gt;raw&lt;/b&gt;", "&lt;b&gt;raw&lt;/b&gt;"),
        ('[x](https://e.org/?a="1"&b)', '<a href="https://e.org/?a=%221%22&amp;b">x</a>',
         "<https://e.org/?a=%221%22&amp;b|x>"),
        ("[x](javascript:alert)", "[x](javascript:alert)", "[x](javascript:alert)"),
        ("- a\n- b\n  1. c", "• a\n• b\n  1. c", "• a\n• b\n  1. c"),
        ("```py\nx < 1\n```", '<pre><code class="language-py">x &lt; 1</code></pre>',
         "```\nx &lt; 1\n```"),
        ("> a\n> > b", "<blockquote>a\n\nb</blockquote>", "> a\n> \n> > b"),
    ],
)  # fmt: skip
def test_markdown_is_written_as_the_platform_reads_it(text: str, telegram: str, slack: str) -> None:
    assert render(text, TELEGRAM) == telegram
    assert render(text, SLACK) == slack


def test_a_table_is_text_of_fixed_width_where_there_are_none() -> None:
    shown = "host  load\n----  ----\ndb-1  0.9\nweb   12"
    assert render(TABLE, TELEGRAM) == f"<pre>{shown}</pre>"
    assert tables_fenced(f"See:\n\n{TABLE}\n\nend") == f"See:\n\n```\n{shown}\n```\n\nend"


@given(st.text("ab*_~`[]()<>&\"'#->|!\\ \n1.", max_size=60))
def test_whatever_is_written_telegram_takes_the_markup(text: str) -> None:
    markup = render(text, TELEGRAM)
    assert isinstance(_Markup.read(markup), str)
    assert render(text, SLACK).count("\n```") % 2 in {0, 1}
