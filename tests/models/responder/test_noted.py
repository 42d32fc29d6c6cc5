"""Figures that somebody noted in words when they were changed."""

from hermes_agent.models.responder.rules.noted import noted, set_back


def test_figures_are_read_by_the_names_of_keys_and_beside_them() -> None:
    lanes = "# 2 lanes and a rest of 0.8 until the sale; now we catch up\nlanes = 50\nrest = 0\n"
    assert noted(lanes) == [("lanes = 50", "lanes = 2"), ("rest = 0", "rest = 0.8")]
    assert noted("POOL=90  # was 5 before the sale\nWAIT=3\n") == [
        ("POOL=90  # was 5 before the sale", "POOL=5  # was 5 before the sale")
    ]
    assert noted("limits:\n  # normally max-conns 70\n  max_conns: 7\n") == [
        ("  max_conns: 7", "  max_conns: 70")
    ]


def test_what_only_explains_or_is_so_already_or_is_told_twice_stays() -> None:
    for text in (
        "# at most 8 lanes\nlanes = 9\n",
        "# was 9 before\nlanes = 9\n",
        "# 4 lanes before the sale, 6 lanes before that\nlanes = 9\n",
        "# changed on 2026-11-02, was 4\nlanes = 9\n",
        "lanes = 9\nlanes = 9\n# 4 lanes before\n",
    ):
        assert not noted(text)


def test_a_file_is_kept_once_before_its_figures_are_set_back() -> None:
    fix = set_back("/etc/a.toml", [("lanes = 50", "lanes = 2"), ("rest = 0", "rest = 0.8")])
    assert [one.split()[0] for one in fix] == ["cp", "sed", "sed"]
    assert not set_back("/etc/a.toml", [])
