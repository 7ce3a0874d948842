"""The other senders: h2load and aioapns against the same simulator, and the paced sender of POST requests."""

import asyncio
import base64
import json
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.load import HERE, BenchError
from bench.push_programs import BODY, TITLE, PushPrograms, Simulator, token


@dataclass
class Sent:
    """One round of one sender."""

    per_second: float
    cpu_us: float = 0.0   # the sender's processor time for one push
    note: str = ""


# ---- h2load ----

def provider_token(programs: PushPrograms) -> str:
    """An APNs provider token, signed (ES256) with openssl, which writes DER where a JWT wants r and s side by side."""

    def encoded(raw: bytes) -> bytes:
        return base64.urlsafe_b64encode(raw).rstrip(b"=")

    names = programs.names()
    signed = encoded(json.dumps({"alg": "ES256", "kid": names["key_id"]}).encode()) + b"." + encoded(
        json.dumps({"iss": names["team_id"], "iat": int(time.time())}).encode())
    done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(programs.key_file)], input=signed, capture_output=True)
    if done.returncode:
        raise BenchError(f"openssl can't sign: {done.stderr.decode().strip()}")
    der, position, raw = done.stdout, 2, b""
    for _ in range(2):
        length = der[position + 1]
        raw += int.from_bytes(der[position + 2:position + 2 + length], "big").to_bytes(32, "big")
        position += 2 + length
    return (signed + b"." + encoded(raw)).decode()


def h2load(programs: PushPrograms, simulator: Simulator, count: int) -> Sent:
    """One connection, 500 streams, a path of its own for each request. The simulator, as Apple, takes one stream until the
    first token was good, and h2load doesn't wait for that: its first requests are refused and not counted."""
    paths, body = programs.folder / "paths", programs.folder / "payload"
    paths.write_text("".join(f"https://127.0.0.1:{simulator.tls}/3/device/{token(n)}\n" for n in range(1, count + 1)))
    body.write_text(json.dumps(payload()))
    command = ["h2load", "-c1", "-m500", f"-n{count}", f"--input-file={paths}", f"--data={body}",
               "-H", f"authorization: bearer {provider_token(programs)}", "-H", f"apns-topic: {programs.names()['topic']}",
               "-H", "apns-push-type: alert", "-H", "apns-priority: 10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    finished = re.search(r"finished in ([\d.]+)(us|ms|s), ", done.stdout)
    succeeded = re.search(r"(\d+) 2xx", done.stdout)
    if done.returncode or not finished or not succeeded or int(succeeded[1]) < count * 0.9:
        raise BenchError(f"h2load failed: {done.stdout[-800:]} {done.stderr[-400:]}")
    seconds = float(finished[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[finished[2]]
    return Sent(int(succeeded[1]) / seconds, note=f"{count - int(succeeded[1])} refused at the start")


def payload() -> dict:
    return {"aps": {"alert": {"title": TITLE, "body": BODY}, "badge": 1, "sound": "default"},
            "id": "01900000-0000-7000-8000-000000000000", "badgeVersion": 1_800_000_000_000}


# ---- aioapns ----

def aioapns(programs: PushPrograms, simulator: Simulator, python: Path, count: int) -> Sent:
    names = programs.names()
    settings = {"port": simulator.tls, "authority": str(programs.authority), "key": programs.key_file.read_text(),
                "key_id": names["key_id"], "team_id": names["team_id"], "topic": names["topic"], "count": count,
                "payload": payload(), "concurrent": 500}
    done = subprocess.run([str(python), str(HERE / "push_aioapns.py")], input=json.dumps(settings), capture_output=True,
                          text=True, timeout=600)
    if done.returncode:
        raise BenchError(f"aioapns failed: {done.stderr.strip()[-800:]}")
    figures = json.loads(done.stdout)
    if figures["succeeded"] != count:
        raise BenchError(f"aioapns: {figures['succeeded']} of {count} succeeded")
    return Sent(count / figures["seconds"], figures["cpu_seconds"] * 1e6 / count)


# ---- POST at a fixed rate ----

@dataclass
class Posted:
    """One POST /notifications; times are seconds since 1970."""

    sent: float
    answered: float


async def post_paced(
        port: int, requests: list[bytes], rate: int, connections: int = 64, is_judged: bool = True) -> dict[str, Posted]:
    """Sends one request after the other at fixed moments, whether or not the ones before are answered. Gives the
    notifications by id. Every answer must be 201. `is_judged`: a sender that fell behind makes the times worthless."""
    free: asyncio.Queue = asyncio.Queue()
    for _ in range(connections):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    found: dict[str, Posted] = {}
    late = 0.0

    async def one(content: bytes) -> None:
        reader, writer = await free.get()
        sent = time.time()
        writer.write(content)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        answered = time.time()
        free.put_nowait((reader, writer))
        if not head.startswith(b"HTTP/1.1 201"):
            raise BenchError(f"POST /notifications: {head[:40]!r} {body[:200]!r}")
        found[json.loads(body)["id"]] = Posted(sent, answered)

    start, tasks = time.monotonic(), []
    for number, content in enumerate(requests):
        wait = start + number / rate - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        late = max(late, -wait)
        tasks.append(asyncio.create_task(one(content)))
    await asyncio.gather(*tasks)
    if is_judged and late > 0.5:
        raise BenchError(f"the sender fell behind by {late:.1f} s: the machine is too busy for {rate} requests a second")
    while not free.empty():
        free.get_nowait()[1].close()
    return found
