"""How log lines look, and that every event has a meaning."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import pytest
import structlog

from actors.logs import EVENTS, configure_logs, get_logger

ROOT = Path(__file__).parents[2]
SPEAKERS = (ROOT / "actors", ROOT / "trierarch" / "cli")
"""Where something is logged."""
LEVELS = {"debug", "info", "warning", "error"}


@pytest.fixture(autouse=True)
def restored():
    """The set-up of logging is global: put it back."""
    yield
    structlog.reset_defaults()


def logged(action, **options):
    """What an action writes, given a logger that was made before logging was set up."""
    stream, log = io.StringIO(), get_logger("intake")
    configure_logs(stream=stream, **options)
    action(log)
    return stream.getvalue()


def test_a_line_is_a_json_object():
    """When not on a terminal: time in UTC, level and event first, then the keys."""
    (line,) = logged(lambda log: log.info("config_changed", count=3, keys=("a", "b"))).splitlines()
    fields = json.loads(line)
    assert list(fields) == ["timestamp", "level", "event", "actor", "count", "keys"]
    assert (fields["level"], fields["event"], fields["actor"], fields["keys"]) == (
        "info",
        "config_changed",
        "intake",
        ["a", "b"],
    )
    assert fields["timestamp"].endswith("Z")


def test_a_crash_brings_its_traceback():
    """An exception is written out as text, within the one line."""

    def crash(log):
        try:
            raise ValueError("boom")
        except ValueError as error:
            log.error("child_crashed", exc_info=error)

    (line,) = logged(crash).splitlines()
    assert "ValueError: boom" in json.loads(line)["exception"]


def test_people_get_lines_for_people():
    """On a terminal: the event, then key=value."""
    text = logged(lambda log: log.info("config_changed", count=3), console=True)
    assert "config_changed" in text
    assert not text.startswith("{")


def test_the_level_is_a_threshold():
    """What is less important is not written."""
    text = logged(lambda log: (log.info("config_changed"), log.warning("object_rejected")), level="warning")
    assert [json.loads(line)["event"] for line in text.splitlines()] == ["object_rejected"]


def test_an_unknown_level_is_refused():
    """Levels are debug, info, warning, error."""
    with pytest.raises(KeyError):
        configure_logs("loud")


def events(tree):
    """The event names in a module: the first arguments of calls of a logger's methods, and those passed on to one."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.args:
            on = ast.unparse(call.func.value)
            if (call.func.attr in LEVELS and on in {"log", "line"}) or call.func.attr == "report":
                yield call.args[0]


def test_every_event_has_a_meaning():
    """Events are literals, or pass through `report` of supervision; `EVENTS` has each of them and no other."""
    found = set()
    for path in (path for folder in SPEAKERS for path in folder.rglob("*.py")):
        for argument in events(ast.parse(path.read_text())):
            literals = [node.value for node in ast.walk(argument) if isinstance(node, ast.Constant)]
            assert literals or ast.unparse(argument) == "event", f"{path.name}:{argument.lineno} is no literal"
            found.update(name for name in literals if isinstance(name, str))
    assert found == set(EVENTS)


def test_events_are_named_alike():
    """Snake case, and each with a sentence."""
    for name, meaning in EVENTS.items():
        assert name == name.lower().replace(" ", "_")
        assert meaning.endswith(".")
