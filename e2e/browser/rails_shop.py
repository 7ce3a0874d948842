"""For rails_pages.py and rails_inbox.py: an app that `rails new` and the gem's generator made, with Turbo 7.1 itself, and a real server beside it.

Debian's Rails is 6.1, and neither Debian nor PyPI has importmap-rails, turbo-rails, Stimulus and the bridge: rails/ has what stands for them, and
what an app has of its own. What the generator makes runs unchanged.
"""
import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import subprocess
import time

from e2e import ROOT
from e2e.browser.world import Pages
from e2e.harness import JWT_SECRET, HarnessError, children, die_with_parent, free_port, serving, temporary_folder, user_token
from e2e.harness.documents import documented
from e2e.harness.hotwire import action_cable_file, turbo_file

HERE = pathlib.Path(__file__).resolve().parent
GEM = ROOT / "clients/ruby"
TEMPLATES = GEM / "lib/generators/campanile/install/templates"
SKIPPED = "bundle git javascript turbolinks spring bootsnap listen sprockets action-mailbox action-text active-storage system-test test".split()
CABLE = ROOT / "e2e/contract/stock_clients/page.js"   # turbo-rails' element, made again
SIGNING_KEY = "a signing key that is shared with Rails"
START_SECONDS = 120
AT_ONCE = "Math.random = () => 0;"
NATIVE = "Mozilla/5.0 Shop/1.0; Hotwire Native iOS; Turbo Native iOS; bridge-components: [badge notification-token]"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120 Safari/537.36"
BADGE = "document.querySelector('campanile-badge')"


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, env={**environment_of(folder), "RAILS_ENV": "development"}, capture_output=True, text=True)
    if done.returncode:
        raise HarnessError(f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def environment_of(folder):
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", "BUNDLE_SILENCE_ROOT_WARNING": "1"}


def assemble(folder):
    """A new Rails app with the gem and what browser/rails has of an app's own, and what the gem's generator makes of it."""
    run(folder, "rails", "new", ".", "--name", "shop", *(f"--skip-{part}" for part in SKIPPED))
    (folder / "Gemfile").write_text(f'gem "rails"\ngem "sqlite3"\ngem "puma"\ngem "campanile", path: "{GEM}"\n')
    run(folder, "bundle", "install", "--local")
    for part in ("app", "config"):
        shutil.copytree(HERE / "rails" / part, folder / part, dirs_exist_ok=True)
    run(folder, "bin/rails", "generate", "campanile:install")
    assets, pages = folder / "public/assets", folder / "public/pages"
    shutil.copytree(folder / "app/javascript", assets)
    shutil.copytree(folder / "vendor/javascript", assets, dirs_exist_ok=True)
    shutil.copy(HERE / "rails/controllers.js", assets / "controllers.js")
    shutil.copy(HERE / "pages/bridge.js", assets / "@hotwired--hotwire-native-bridge.js")
    shutil.copy(turbo_file(), assets / "turbo.js")
    pages.mkdir()
    for script in (HERE / "pages/stimulus.js", HERE / "rails/documented.js", CABLE):
        shutil.copy(script, pages)
    shutil.copy(action_cable_file(), pages / "action_cable.js")
    layouts = folder / "app/views/layouts"
    (layouts / "documented.html.erb").write_text(documented_layout())
    (layouts / "cabled.html.erb").write_text(cabled_layout((layouts / "application.html.erb").read_text()))
    # A browser asks for it by itself, and an answer of the app's would bring the session's cookie as it was before a sign-in.
    shutil.copy(HERE / "pages/icon.svg", folder / "public/favicon.ico")
    (folder / "public/stylesheets").mkdir()
    (folder / "public/stylesheets/app.css").write_text("body { font-family: system-ui }\n")


def documented_layout():
    """The layout of docs/realtime-pages.md, with the scripts of a page and a badge controller."""
    scripts = "".join(f'<script src="{path}"></script>' for path in ("/assets/turbo.js", "/pages/action_cable.js", "/pages/page.js"))
    text, span = documented("erb", "Rails with Turbo"), '<span id="notification-badge-count">'
    assert text.count("<head>") == text.count(span) == 1
    text = text.replace("<head>", f'<!doctype html>\n<head>{scripts}<script type="module" src="/pages/documented.js"></script>')
    return text.replace(span, f'{span[:-1]} data-controller="badge">') + "<%= yield %>\n</body>\n"


def cabled_layout(text):
    """The layout with the subscription in the place of the element."""
    scripts = "".join(f'<script src="/pages/{name}" defer></script>' for name in ("action_cable.js", "page.js"))
    tags, number = "<%= javascript_importmap_tags %>", 'render "notifications/number"'
    assert text.count(tags) == text.count(number) == 1
    return text.replace(tags, f"{tags}<%= action_cable_meta_tag %>{scripts}").replace(number, 'render "notifications/badge"')


@contextlib.contextmanager
def rails(folder, port, campanile, environment):
    """The app, served by Puma."""
    wanted = {
        **environment_of(folder), "RAILS_ENV": "production", "RAILS_SERVE_STATIC_FILES": "yes", "RAILS_LOG_TO_STDOUT": "yes",
        "SECRET_KEY_BASE": "0123456789abcdef" * 8, "CAMPANILE_URL": campanile, "CAMPANILE_JWT_SECRET": JWT_SECRET,
        "CAMPANILE_CABLE_SIGNED_STREAM_KEY": SIGNING_KEY, **environment}
    log = folder / "puma.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            ["puma", "--config", "-", "--threads", "5:5", "--bind", f"tcp://127.0.0.1:{port}", "config.ru"],
            cwd=folder, env=wanted, stdin=subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=die_with_parent)
    children.append(process)
    try:
        wait_for_answer(process, port, log)
        yield
    finally:
        process.terminate()
        process.wait(30)
        children.remove(process)


def wait_for_answer(process, port, log):
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.05)
    raise HarnessError(f"the Rails app didn't answer 200:\n{log.read_text(errors='replace')[-3000:]}")


class Shop(Pages):
    """The Rails app, Campanile beside it, and the pages that are open."""

    def __init__(self, folder, address, campanile, browser):
        super().__init__()
        self.folder, self.address, self.campanile, self.browser = folder, address, campanile, browser
        self.key = campanile.producer_key("shop")
        self.users, self.is_stopped = 0, False

    def new_user(self, unread=0):
        self.users += 1
        self.user = f"user-{self.users}"
        for _ in range(unread):
            self.post()

    def signed_in(self, unread=0, agent=NATIVE, layout=""):
        """A new user with so many notifications, and a page, of a native app by default, where they are signed in, before the first visit."""
        self.new_user(unread)
        page = self.browser.page()
        self.pages.append(page)
        page.call("Network.setUserAgentOverride", userAgent=agent)
        page.call("Network.clearBrowserCookies")
        page.before_load(AT_ONCE)
        page.go(f"{self.address}/signed_out")
        self.sign_in(page, layout)
        return page

    def sign_in(self, page, layout=""):
        form = f"{{ user_id: '{self.user}', layout: '{layout}' }}"
        page.evaluate(f"fetch('/session', {{ method: 'POST', body: new URLSearchParams({form}) }}).then(() => 0)")

    def post(self, **notification):
        body = {"user_id": self.user, "title": "Hello", "push": False, **notification}
        answer = self.campanile.connection().request("POST", "/notifications", credential=self.key, body=body)
        assert answer.status == 201, answer
        return answer.json()["id"]

    def as_user(self, method, path):
        """Campanile's answer to the user."""
        token = user_token(JWT_SECRET, self.user)
        answer = self.campanile.connection().request(method, path, credential=token)
        assert answer.status == 200, answer
        return answer.json()

    def read_all(self):
        self.as_user("POST", "/notifications/mark_all_read")

    def hang(self):
        self.campanile.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True
        # Each thread stops when it next runs.
        tasks, deadline = pathlib.Path(f"/proc/{self.campanile.process.pid}/task"), time.monotonic() + 20
        while any((task / "stat").read_text().rpartition(")")[2].split()[0] != "T" for task in tasks.iterdir()):
            assert time.monotonic() < deadline, "the server doesn't stop"
            time.sleep(0.01)

    def go_on(self):
        if self.is_stopped:
            self.campanile.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def restore(self, complaints):
        """For the next test: Campanile runs, and no page is open."""
        self.go_on()
        if self.campanile.process.poll() is not None:
            self.campanile.start()
        self.close(complaints)


@contextlib.contextmanager
def shop_with(binary, browser, **environment):
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    settings = {
        "CAMPANILE_ALLOWED_ORIGINS": address,
        "CAMPANILE_CABLE_SIGNED_STREAM_KEY": SIGNING_KEY, "CAMPANILE_CABLE_SIGNED_STREAMS_ONLY": "true"}
    with temporary_folder("campanile-rails-") as name, serving(binary, settings) as campanile:
        folder = pathlib.Path(name)
        assemble(folder)
        with rails(folder, port, f"http://127.0.0.1:{campanile.port}", environment):
            shop = Shop(folder, address, campanile, browser)
            try:
                yield shop
            finally:
                shop.go_on()


def shows(text):
    return f"{BADGE}.textContent === '{text}' && {BADGE}.hidden === {str(text in ('', '0')).lower()}"


def is_live(text):
    """The element has heard the number from the stream, and shows it."""
    return f"{BADGE}.getAttribute('role') === 'img' && {shows(text)}"


def visit(page, path):
    page.evaluate(f"""new Promise((done) => {{ addEventListener("turbo:load", done, {{ once: true }}); Turbo.visit("{path}"); }}).then(() => 0)""")
