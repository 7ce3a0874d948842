"""The measures of neighbours.py in which one client's cables have many subscriptions, also to an app's own streams, and never rest:
they unsubscribe, subscribe anew and ask for histories, as often as the limit of frames lets them."""

from bench.broadcast_programs import signed_identifier
from bench.load import BenchError
from bench.neighbour_measures import Bench
from bench.neighbour_scene import OTHERS_ROWS, STREAM_KEY, App
from bench.stream_programs import cable_request

PROTOCOLS = "actioncable-v1-ext-json, actioncable-v1-json"
FRAMES_PER_SECOND = 180      # of a connection; beyond 600 between two pings, which may be late, it is closed
RESTLESS_SHARE = 0.25        # of those frames, which a crowd says at least: the program is late where the processors are busy
KEPT, KEPT_BYTES = 20, 4_000  # messages that each of the app's streams has for whoever asks, and their size


def pages(bench: Bench) -> None:
    _restless(bench, f"{bench.options.cables} cables of one user, each with %d subscriptions and restless", bench.options.cables)


def slow_pages(bench: Bench) -> None:
    _restless(bench, f"{bench.options.cables} cables of one user, each with %d subscriptions, restless and slow to read", bench.options.cables,
              dawdles=True)


def visitors_pages(bench: Bench) -> None:
    _restless(bench, f"{bench.options.visitors} visitors' cables, each with %d subscriptions and restless", bench.options.visitors,
              is_visitor=True)


def _restless(bench: Bench, title: str, count: int, dawdles: bool = False, is_visitor: bool = False) -> None:
    subscriptions = bench.options.subscriptions
    settings = {"CAMPANILE_CABLE_SIGNED_STREAM_KEY": STREAM_KEY} | ({"CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true"} if is_visitor else {})
    with bench.scene({"owner": (OTHERS_ROWS, OTHERS_ROWS)}, **settings) as scene:
        # All but one are the app's own, and that is the badge.
        app = App(scene, [f"room:{number}" for number in range(subscriptions - 1)])
        app.fill(KEPT, KEPT_BYTES)
        order = {"request": cable_request(None if is_visitor else scene.token(scene.owner), PROTOCOLS).decode(),
                 "identifiers": [signed_identifier(STREAM_KEY, stream) for stream in [*app.streams, "notifications:owner"]],
                 "frames": FRAMES_PER_SECOND, "dawdles": dawdles}
        crowds = bench.listened(title % subscriptions, scene, count, order, app)
        if not all(opened["confirmed"] for opened, _, _ in crowds):
            raise BenchError(f"{title % subscriptions}: the cables got no subscription")
        least = RESTLESS_SHARE * count * FRAMES_PER_SECOND * bench.options.listen
        if any(ended["commands"] < least for _, ended, _ in crowds):
            raise BenchError(f"{title % subscriptions}: the cables rested, and said {[ended['commands'] for _, ended, _ in crowds]} times something: "
                             f"{least:.0f} at least shows what the others feel")


MEASURES = {"pages": pages, "pages-slow": slow_pages, "pages-visitors": visitors_pages}
