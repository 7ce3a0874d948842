"""Sends pushes with aioapns; runs in the virtual environment of push_requirements.txt. Settings as JSON on standard input,
figures as JSON on standard output. The first push isn't measured: only after it may there be more than one stream."""

import asyncio
import json
import ssl
import sys
import time
import uuid

from aioapns import APNs, NotificationRequest
from aioapns.connection import APNsProductionClientProtocol


async def send_all(settings: dict) -> dict:
    APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
    APNsProductionClientProtocol.APNS_PORT = settings["port"]
    client = APNs(key=settings["key"], key_id=settings["key_id"], team_id=settings["team_id"], topic=settings["topic"],
                  max_connections=1, ssl_context=ssl.create_default_context(cafile=settings["authority"]))
    succeeded, numbers = 0, iter(range(1, settings["count"] + 1))

    async def one(number: int) -> bool:
        request = NotificationRequest(device_token=f"{number:064x}", message=settings["payload"],
                                      notification_id=str(uuid.uuid4()), priority=10)
        return (await client.send_notification(request)).is_successful

    async def sender() -> None:
        nonlocal succeeded
        for number in numbers:
            is_good = await one(number)
            succeeded += is_good

    if not await one(0):
        raise SystemExit("the first push was refused")
    await asyncio.sleep(0.2)  # the new stream limit arrives
    start, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(sender() for _ in range(settings["concurrent"])))
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - used, "succeeded": succeeded}


print(json.dumps(asyncio.run(send_all(json.load(sys.stdin)))))
