"""A room in uWebSockets, by way of socketify; runs in the virtual environment of uwebsockets_requirements.txt. Everybody who opens /sub gets
what is posted to /pub. The argument is the port."""

import sys

from socketify import App, CompressOptions, OpCode

ROOM = "room"
app = App()


async def publish(response, request) -> None:
    content = await response.get_data()
    app.publish(ROOM, content.getvalue(), OpCode.TEXT)
    response.write_status(201).end("")


app.ws("/sub", {"open": lambda socket: socket.subscribe(ROOM), "compression": CompressOptions.DISABLED, "idle_timeout": 0})
app.post("/pub", publish)
app.get("/healthz", lambda response, request: response.end(""))
app.listen(int(sys.argv[1]), lambda _: None)
app.run()
