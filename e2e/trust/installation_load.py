"""Android installations whose apps change the kind of their identifier at Firebase, and the clients of installations.py: they register
each change and create notifications meanwhile, and ask again whatever gets no answer, with the same Idempotency-Key, until it does."""
import asyncio
import json
import string
import time
from dataclasses import dataclass, field

from e2e import harness
from e2e.trust.cluster_load import ClusterLoad

CHARACTERS = string.ascii_letters + string.digits + "-_"
FID_CHARACTERS = 22
TOKEN_CHARACTERS = 140     # of a registration token, behind the FID and the colon
AT_ONCE = 200              # requests, after a restart
PATIENCE_SECONDS = 120     # until a request that is asked again and again is acknowledged
PAUSE_SECONDS = (0.1, 0.4)
NEAR_SHARE = 1 / 3         # of the notifications that go to users whose installation changes about now
NEAR_SECONDS = 0.25


@dataclass(slots=True)
class Change:
    """A registration. `asked` and `acknowledged` are seconds since 1970: some time between them the server took it in."""
    kind: str
    identifier: str
    asked: float
    acknowledged: float = float("inf")


@dataclass(slots=True)
class Installation:
    """One app on one phone. `changes`: its registrations at the server; the first is the import's."""
    fid: str
    token: str
    user: str
    changes: list
    row: int = 0               # the id of its row after the import
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def identifier(self, kind):
        return self.fid if kind == "fid" else self.token

    @property
    def sent_to(self):
        """What a push to it has to name at the end (push_record.py)."""
        return self.changes[-1].kind, self.changes[-1].identifier


def installation_of(identifier):
    """The FID, with which a registration token of Firebase's begins."""
    return identifier.partition(":")[0]


def new_installation(rng, user):
    """All begin alike, so that most FIDs stand beside others in the order of identifiers; the judge of pushes takes the first two
    characters for a number."""
    fid = "ff" + "".join(rng.choices(CHARACTERS, k=FID_CHARACTERS - 2))
    token = f"{fid}:{''.join(rng.choices(CHARACTERS, k=TOKEN_CHARACTERS))}"
    return Installation(fid, token, user, [Change("token", token, 0, 0)])


def plan(installations, share, rng):
    """(installation, kind) in the order in which the apps register: each its FID, that share of them its token again afterwards, and
    half of these the FID once more; next to each other or later."""
    last, steps = len(installations), []
    for place, one in enumerate(rng.sample(installations, last)):
        steps.append((place, one, "fid"))
        kind = "token"
        while rng.random() < (share if kind == "token" else 0.5):
            place = rng.choice((place + 1, rng.uniform(place, last)))
            steps.append((place, one, kind))
            if kind == "fid":
                break
            kind = "fid"
    steps.sort(key=lambda step: step[0])
    return [(one, kind) for _, one, kind in steps]


class InstallationLoad(ClusterLoad):
    """So many notifications and so many registrations a second, until the last of the steps is acknowledged."""

    def __init__(self, port, key, installations, steps, rate, pace, seed):
        super().__init__(lambda: [("127.0.0.1", port)], key, {}, rate, seed)
        self.installations, self.steps, self.pace = installations, steps, pace
        self.position, self.places = 0, asyncio.Semaphore(AT_ONCE)
        self.seconds = 0.0

    def run(self):
        super().run()
        while isinstance(self.trouble, ExceptionGroup):
            self.trouble = self.trouble.exceptions[0]

    async def _load(self):
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._paced(self.rate, self._creations()))
            await self._paced(self.pace, self._registrations())
            self.over.set()
        self.seconds = time.monotonic() - started

    async def _paced(self, rate, calls):
        """Begins so many a second, however long each takes."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, call in enumerate(calls):
                group.create_task(call)
                await asyncio.sleep(max(0.0, started + (number + 1) / rate - time.monotonic()))

    async def _until(self, is_done, attempt):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            async with self.places:
                await attempt()
            if is_done():
                return
            if time.monotonic() > deadline:
                raise harness.HarnessError(f"a request was not acknowledged within {PATIENCE_SECONDS} s: {self.ledger.wrong[-1:]} {self.ledger.failures[-1:]}")
            await asyncio.sleep(self.rng.uniform(*PAUSE_SECONDS))

    # --- notifications

    def _creations(self):
        number = 0
        while not self.over.is_set():
            user, key = self._receiver(), f"{self.prefix}-{number}"
            yield self._until(lambda key=key: key in self.ledger.created, lambda user=user, key=key: self._create(user, key))
            number += 1

    def _receiver(self):
        reach = max(1, int(self.pace * NEAR_SECONDS))
        place = self.position + self.rng.randint(-reach, reach)
        # When the last change has begun, nothing is near any more.
        if self.rng.random() < NEAR_SHARE and 0 <= place < len(self.steps) and self.position + 1 < len(self.steps):
            return self.steps[place][0].user
        return self.rng.choice(self.installations).user

    # --- registrations

    def _registrations(self):
        for place, (one, kind) in enumerate(self.steps):
            self.position = place
            yield self._change(one, kind)

    async def _change(self, one, kind):
        """An app registers one identifier after the other."""
        async with one.turn:
            change = Change(kind, one.identifier(kind), time.time())
            one.changes.append(change)
            await self._until(lambda: change.acknowledged < float("inf"), lambda: self._register(one, change))

    async def _register(self, one, change):
        body = {"token": change.identifier, "kind": change.kind, "platform": "android"}
        # 201 would say that there is another row now.
        answer = await self._ask("register", "POST", "/device_tokens", harness.user_token(harness.JWT_SECRET, one.user), body)
        if answer is None:
            return
        change.acknowledged = time.time()
        said = json.loads(answer.body)
        if (said["token"], said["kind"]) != (change.identifier, change.kind):
            self.ledger.wrong.append(f"{change} was answered {said}")
