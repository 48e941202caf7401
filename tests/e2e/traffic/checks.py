"""The words that cases of traffic are told in: a request, how often it is made, and what is expected of the answers.

    get("/old/1", host="web").goes_to("web-v1").upstream_sees(path="/new/1")
    get("/").repeated(60).goes_to("web-v1", "web-v2").mostly_to("web-v1")
    tcp().goes_to("tcp-v2")

Nothing is sent here. An expectation looks at all answers and returns what is not as expected, or nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

OK = 200
HTTP_PORT, TCP_PORT, TLS_PORT, PROXY_PORT = 8080, 9000, 9443, 3128
"""Where sidecars listen for their programs; the last one only in cases that say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request of the program beside the sidecar `by`."""

    by: str = "front"
    port: int = HTTP_PORT
    host: str = "web"
    path: str = "/"
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpConnection:
    """A connection that listens to what it is told."""

    by: str = "front"
    port: int = TCP_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConnection:
    """The same over TLS, asking for a server name."""

    server_name: str
    by: str = "front"
    port: int = TLS_PORT


Request = HttpRequest | TcpConnection | TlsConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `program` is who answered, "" if no program did; `path`, `method`, `seen`: what reached it."""

    program: str = ""
    status: int = OK
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    path: str = ""
    method: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


Answers = Sequence[Answer]
Expectation = Callable[[Answers], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A request, made so often, one by one or at once. `copied_to`: a program that gets a copy of it."""

    request: Request
    times: int = 1
    at_once: bool = False
    copied_to: str = ""
    statuses: frozenset[int] = frozenset({OK})
    expectations: tuple[Expectation, ...] = ()

    def complaints(self, answers: Answers) -> list[str]:
        """What is not as expected."""
        found = [_statuses(self.statuses)(answers), *(expected(answers) for expected in self.expectations)]
        return [f"{self.request}: {complaint}" for complaint in found if complaint]

    # --- how often ---------------------------------------------------------------------------------------------------
    def repeated(self, times: int) -> Check:
        """Make the request so many times, one by one."""
        return replace(self, times=times)

    def at_the_same_time(self, times: int) -> Check:
        """Make so many at once."""
        return replace(self, times=times, at_once=True)

    # --- what is expected --------------------------------------------------------------------------------------------
    def goes_to(self, *programs: str) -> Check:
        """Just these programs have answered, each at least once."""
        return self._expecting(lambda answers: _differ("went to", set(programs), {each.program for each in answers}))

    def mostly_to(self, program: str) -> Check:
        """This program has answered more often than any other."""
        return self._expecting(
            lambda answers: _differ(
                "went mostly to", program, Counter(each.program for each in answers).most_common(1)[0][0]
            )
        )

    def sticks(self) -> Check:
        """One program has answered all of them, whichever it is."""
        return self._expecting(lambda answers: _differ("programs", 1, len({each.program for each in answers})))

    def copied(self, program: str) -> Check:
        """This program gets a copy of the request, whose answer nobody sees."""
        return replace(self, copied_to=program)

    def answers(self, *statuses: int) -> Check:
        """Just these statuses have come, each at least once. Without this: 200."""
        return replace(self, statuses=frozenset(statuses))

    def says(self, text: str) -> Check:
        """The bodies are this text."""
        return self._expecting(lambda answers: _differ("body", {text}, {each.body for each in answers}))

    def upstream_sees(
        self, *, path: str = "", headers: Mapping[str, str | None] | None = None, program: str = ""
    ) -> Check:
        """What reached the programs, or just this one: the path, and headers (None: not that header)."""
        check = self._expecting(lambda answers: _paths(path, _of(program, answers))) if path else self
        return check._expecting(
            lambda answers: _headers("upstream", headers or {}, [each.seen for each in _of(program, answers)])
        )

    def client_sees(self, headers: Mapping[str, str | None], *, program: str = "") -> Check:
        """Headers of the answers, or of just this program's (None: not that header)."""
        return self._expecting(
            lambda answers: _headers("client", headers, [each.headers for each in _of(program, answers)])
        )

    def takes(self, at_least: float, less_than: float) -> Check:
        """Each answer has taken so many seconds."""
        return self._expecting(lambda answers: _durations(at_least, less_than, answers))

    def _expecting(self, expectation: Expectation) -> Check:
        return replace(self, expectations=(*self.expectations, expectation))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A feature: objects on top of the base mesh, in the words of `rules.py`, and checks.

    An object takes the place of that of the base which has its kind and name.
    """

    name: str
    shows: str
    mesh: str = ""
    checks: tuple[Check, ...]

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


# --- requests --------------------------------------------------------------------------------------------------------
def get(
    path: str = "/",
    *,
    host: str = "web",
    by: str = "front",
    port: int = HTTP_PORT,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
) -> Check:
    """An HTTP request."""
    return Check(request=HttpRequest(by=by, port=port, host=host, path=path, method=method, headers=headers or {}))


def tcp(*, by: str = "front") -> Check:
    """A TCP connection; what it is told is the body."""
    return Check(request=TcpConnection(by=by))


def tls(server_name: str, *, by: str = "front") -> Check:
    """A TLS connection."""
    return Check(request=TlsConnection(server_name=server_name, by=by))


# --- expectations ----------------------------------------------------------------------------------------------------
def _differ(what: str, expected: object, found: object) -> str | None:
    return None if expected == found else f"{what}: expected {expected}, found {found}"


def _statuses(expected: frozenset[int]) -> Expectation:
    return lambda answers: _differ("status", set(expected), {each.status for each in answers})


def _of(program: str, answers: Answers) -> Answers:
    return [each for each in answers if program in ("", each.program)]


def _paths(path: str, answers: Answers) -> str | None:
    return _differ("path", {path}, {each.path for each in answers})


def _headers(who: str, expected: Mapping[str, str | None], found: Sequence[Mapping[str, str]]) -> str | None:
    shown = [{name: headers.get(name) for name in expected} for headers in found]
    return next((f"{who}: expected {dict(expected)}, found {each}" for each in shown if each != expected), None)


def _durations(at_least: float, less_than: float, answers: Answers) -> str | None:
    found = [round(each.seconds, 3) for each in answers]
    return None if all(at_least <= each < less_than for each in found) else f"took {found} s"
