"""Serves index.html at every address of http://localhost:3000, so that each tab and each link of examples/ios has a page."""
import http.server
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
FILES = {"/native-app.js": ("native-app.js", "text/javascript")}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name, kind = FILES.get(self.path.partition("?")[0], ("index.html", "text/html"))
        body = (HERE / name).read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
