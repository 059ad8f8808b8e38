"""The parser of rocminfo's output."""

from __future__ import annotations

from rooflens.tools.profiles.rocprof.read import agent_of, parse_agents


def test_an_mi300a_has_six_xcds():
    text = "*******\nAgent 3\n*******\n  Name:  gfx942\n  Device Type:  GPU\n  Node:  2\n  Compute Unit:  228\n"
    (agent,) = parse_agents(text)
    assert agent.facts == {"cu_per_gpu": 228, "num_xcd": 6} and agent.node == 2


def test_other_text_names_no_gpu():
    for text in ("", "rocminfo: command not found", "*******\nAgent 1\n*******\n", "\x00\x1b[31m" * 50):
        assert parse_agents(text) == []
    assert agent_of([], [0]) is None


def test_colour_codes_and_hostile_names_do_no_harm():
    text = (
        "\x1b[37m*******\n\x1b[0m*******\nAgent 2\n*******\n  Name: gfx90a\x1b[0m\n  Marketing Name: A\x1b[2J\u202eB\n"
    )
    (agent,) = parse_agents(text + "  Device Type: GPU\n  Max Clock Freq. (MHz): 99999999999999\n")
    assert agent.device == "AB" and agent.facts["max_sclk"] == 999_999_999
