"""A stage for scenarios about one ADS session: the commands by which a story plays its client and its server.

    connect sotw|delta [by-name]    a new stream; what the client held is remembered for declarations; by-name: it asks
                                    for clusters and listeners by name, as a client without a proxy does
    world TYPE name=content ...     these resources exist from now on; "/" begins another part of the set
    push [TYPE name=content ...]    the same, and everything watched is offered
    ask TYPE [name ...]             a request; delta: +name subscribes, -name unsubscribes, =name declares the version
                                    that the client was given, =name@version another one
                                    nonce=last|before|none|... (default: last in the state of the world, none in delta)
                                    error=text makes it a NACK
    ack TYPE [name ...]             ask with nonce=last, in the state of the world with the names of the request before
    nack TYPE text                  the same with an error
    resume                          the server's actor is restarted with the session that it had kept
    watches                         what the session knows

A response is shown as `TYPE nonce: name=content ... -removed ...`. Endpoints and routes that do not exist have a
placeholder without content, `name=`.
"""

from collections.abc import Sequence

from protocol.errors import RemoteError
from protocol.xds import delta
from protocol.xds.events import Acked, Asked, Event, Nacked, NotServed, StaleNonce, Unsubscribed
from protocol.xds.requests import DeltaRequest, Nack, Request, SotwRequest
from protocol.xds.resources import ResourceSet
from protocol.xds.session import AdsSession
from tests.protocol.xds.conversation import Conversation, Seen
from tests.protocol.xds.tables import BY_NAME, SHORT, TYPES, URL, build_part


class SessionStage:
    """The state of a story: a server's world, and its conversation with one client."""

    def __init__(self) -> None:
        self.world: dict[str, ResourceSet] = {}
        self.talk = Conversation(AdsSession.sotw(TYPES, "s0"), self.world)
        self.streams = 0
        self.nonces: dict[str, list[str]] = {}
        self.names: dict[str, tuple[str, ...]] = {}
        self.versions: dict[tuple[str, str], str] = {}

    def run(self, verb: str, arguments: Sequence[str]) -> list[str]:
        """Carry out a command. Raises `AttributeError` for one that there is not."""
        return getattr(self, f"do_{verb}")(*arguments) or ["nothing"]

    # --- the server ---------------------------------------------------------------------------------------------------
    def do_world(self, short: str, *contents: str) -> list[str]:
        """Say what exists of a type."""
        parts: list[dict[str, str]] = [{}]
        for text in contents:
            if text == "/":
                parts.append({})
            else:
                name, _, content = text.partition("=")
                parts[-1][name] = content
        self.world[URL[short]] = ResourceSet(*map(build_part, parts))
        return ["ok"]

    def do_push(self, *arguments: str) -> list[str]:
        """Offer everything that is watched, perhaps after a change."""
        if arguments:
            self.do_world(*arguments)
        return self._show(self.talk.offer(*self.talk.session.watched))

    def do_resume(self) -> list[str]:
        """Go on from the session that was kept, and offer everything."""
        self.talk.session = self.talk.session.resumed()
        return self.do_push()

    def do_watches(self) -> list[str]:
        """Show each watch: its names, the last nonce, whether it was accepted or rejected."""
        session = self.talk.session
        return [self._describe(url) for url in session.due(session.watched)]

    def _describe(self, url: str) -> str:
        watch = self.talk.session.watches[url]
        words = [SHORT[url], *sorted(watch.names), f"sent={watch.nonce or 'never'}", f"acked={watch.acked or 'never'}"]
        return " ".join([*words, f"rejected={watch.rejection.nonce}"] if watch.rejection else words)

    # --- the client ---------------------------------------------------------------------------------------------------
    def do_connect(self, dialect: str, kind: str = "") -> list[str]:
        """Begin a stream."""
        self.streams += 1
        session = {"sotw": AdsSession.sotw, "delta": AdsSession.delta}[dialect](TYPES, f"s{self.streams}")
        self.talk = Conversation(session.under({"": TYPES, "by-name": BY_NAME}[kind]), self.world)
        self.names.clear()
        return [f"stream s{self.streams}"]

    def do_ack(self, short: str, *words: str) -> list[str]:
        """Accept the last response."""
        return self.do_ask(short, *(words or self.names.get(short, ())), "nonce=last")

    def do_nack(self, short: str, error: str) -> list[str]:
        """Reject the last response."""
        return self.do_ack(short, *self.names.get(short, ()), f"error={error}")

    def do_ask(self, short: str, *words: str) -> list[str]:
        """Send a request and show what the session makes of it."""
        options = {key: value for key, _, value in (word.partition("=") for word in words) if key in ("nonce", "error")}
        names = tuple(word for word in words if word.partition("=")[0] not in ("nonce", "error"))
        request = self._build_request(short, names, options)
        try:
            seen = self.talk.answer(request)
        except RemoteError as error:
            return [f"stream ended: {error.code} {error.message}"]
        return [*map(show_event, self.talk.events), *self._show(seen)]

    def _build_request(self, short: str, names: tuple[str, ...], options: dict[str, str]) -> Request:
        url = URL.get(short, short)
        nack = Nack(code=13, message=options["error"]) if "error" in options else None
        if self.talk.session.dialect is not delta:
            self.names[short] = names
            nonce = self._find_nonce(url, options.get("nonce", "last"))
            return SotwRequest(type_url=url, names=names, nonce=nonce, nack=nack)
        nonce = self._find_nonce(url, options.get("nonce", "none"))
        return DeltaRequest(
            type_url=url,
            subscribe=_of(names, "+"),
            unsubscribe=_of(names, "-"),
            initial=dict(self._declare(url, name) for name in _of(names, "=")),
            nonce=nonce,
            nack=nack,
        )

    def _declare(self, url: str, text: str) -> tuple[str, str]:
        name, _, version = text.partition("@")
        return name, version or self.versions[url, name]

    def _find_nonce(self, url: str, word: str) -> str:
        given = self.nonces.get(url, [])
        return {"none": "", "last": "".join(given[-1:]), "before": "".join(given[-2:-1])}.get(word, word)

    def _show(self, seen: list[Seen]) -> list[str]:
        for one in seen:
            self.nonces.setdefault(one.type_url, []).append(one.nonce)
            self.versions |= {(one.type_url, name): version for name, version in one.versions.items()}
        return [show_response(one) for one in seen]


def _of(names: Sequence[str], sign: str) -> tuple[str, ...]:
    return tuple(name[1:] for name in names if name[0] == sign)


def show_response(seen: Seen) -> str:
    """A response in one line."""
    resources = [body.decode() for body in seen.bodies.values()] + [f"-{name}" for name in seen.removed]
    return " ".join([f"{SHORT[seen.type_url]} {seen.nonce}:", *(resources or ["(empty)"])])


def show_event(event: Event) -> str:
    """An event in one line."""
    short = SHORT.get(event.type_url, event.type_url)
    match event:
        case Asked(first=first):
            return f"asked {short}" + (" for the first time" if first else "")
        case Acked(nonce=nonce):
            return f"acked {short} {nonce}"
        case Nacked(nonce=nonce, message=message):
            return f"nacked {short} {nonce or 'without nonce'}: {message}"
        case StaleNonce(nonce=nonce):
            return f"stale {short} {nonce}"
        case Unsubscribed():
            return f"unsubscribed {short}"
        case NotServed():
            return f"not served {short}"
