"""When a silent peer is asked, and when it is dead."""

from actors.grpc.liveness import Liveness, Verdict


def liveness():
    """A peer heard at 0, asked after 30 s, dead 10 s later."""
    return Liveness(interval=30, timeout=10, now=0)


def test_silence_is_asked_about_once_and_then_fatal():
    """One PING after the interval, death after the timeout."""
    peer = liveness()
    verdicts = [peer.check(now) for now in (29.9, 30, 35, 39.9, 40)]
    assert verdicts == [Verdict.LEAVE, Verdict.ASK, Verdict.LEAVE, Verdict.LEAVE, Verdict.BURY]


def test_any_sign_of_life_starts_over():
    """Bytes before the PING postpone it; bytes after it answer it."""
    peer = liveness()
    peer.heard(20)
    assert peer.check(49) is Verdict.LEAVE
    assert peer.check(50) is Verdict.ASK
    peer.heard(59)
    assert peer.check(60) is Verdict.LEAVE
    assert peer.check(89) is Verdict.ASK
