// <campanile-badge> and [data-notification-badge]: the number of a user's notifications, live.

const longestWait = 60_000; // ms between two attempts
const longestSleep = 30_000; // ms hidden, after which no connection is trusted
const feeds = new Map(); // address -> Feed

class Feed {
  listeners = new Set();
  names = new Set();
  failures = 0;

  async open() {
    this.close();
    const attempt = (this.attempt = {});
    const url = new URL(this.address);
    const { token, tokenSrc } = this;
    if (token || tokenSrc) {
      // A user's token must not stand in an address, where logs find it.
      const request = { method: "POST", headers: token ? { authorization: `Bearer ${token}` } : {} };
      const answer = await fetch(tokenSrc || new URL("/stream_tokens", url), request).catch(() => {});
      const grant = answer?.ok && (await answer.json().catch(() => {}));
      if (attempt !== this.attempt) return;
      if (!grant) return this.wait(answer?.status ?? 0);
      url.searchParams.set("access_token", grant.token);
    }
    let isResumed = false;
    const withCredentials = !url.searchParams.has("access_token");
    const source = (this.source = new EventSource(url, { withCredentials }));
    source.onopen = () => {
      this.tell("open", isResumed);
      isResumed = true;
    };
    source.onerror = () => this.wait(0);
    this.names.forEach((name) => source.addEventListener(name, this));
  }

  wait(status) {
    this.tell("wait", status);
    // When a connection broke, the browser makes another by itself; when it was refused, not.
    if (this.source && this.source.readyState !== 2) return;
    clearTimeout(this.timer);
    const longest = Math.min(longestWait, 1000 * 2 ** this.failures++);
    this.timer = setTimeout(() => this.open(), Math.random() * longest);
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.attempt = this.source = undefined;
  }

  handleEvent({ type, data }) {
    this.failures = 0;
    const value = JSON.parse(data);
    if (type === "badge") {
      // What comes late must not put an older number over a newer one.
      if (value.version <= this.badge?.version) return;
      this.badge = value;
      const done = value.count ? navigator.setAppBadge?.(value.count) : navigator.clearAppBadge?.();
      done?.catch(() => {});
    }
    this.tell(type, value);
  }

  tell(name, data) {
    [...this.listeners].forEach((listener) => listener(name, data));
  }
}

// `listener(name, data)` gets the events in `names`, "open" (true: nothing was missed) and "wait" (the status of a
// refused stream token, or 0). All that name one address share its connection. Gives what ends it.
export function listen(src, { token = "", tokenSrc }, names, listener) {
  const address = new URL(src, document.baseURI).href;
  const feed = feeds.get(address) ?? Object.assign(new Feed(), { address });
  feeds.set(address, feed);
  feed.listeners.add(listener);
  for (const name of names) {
    feed.names.add(name);
    feed.source?.addEventListener(name, feed);
  }
  if (feed.token === undefined || (token && token !== feed.token)) {
    Object.assign(feed, { token, tokenSrc, badge: undefined }).open();
  }
  if (feed.badge) listener("badge", feed.badge);
  return () => {
    feed.listeners.delete(listener);
    // Turbo takes elements out and puts others in: the connection outlives that.
    setTimeout(() => {
      if (feed.listeners.size) return;
      feed.close();
      if (feeds.get(address) === feed) feeds.delete(address);
    }, 1000);
  };
}

const openAll = (isDoubted) => feeds.forEach((feed) => (!isDoubted && feed.source?.readyState === 1) || feed.open());
let hiddenAt = 0;
document.addEventListener("visibilitychange", () => {
  if (document.hidden) hiddenAt = Date.now();
  else openAll(Date.now() - hiddenAt > longestSleep);
});
addEventListener("online", openAll);
addEventListener("pagehide", () => feeds.forEach((feed) => feed.close()));
addEventListener("pageshow", (event) => event.persisted && openAll());

const attributes = ["src", "token", "token-src"];
const followed = new Map(); // element -> what ends it
const option = (element, name) => element.getAttribute(name) ?? element.getAttribute(`data-${name}`) ?? "";

function show(element, badge) {
  const { count } = badge;
  const most = +option(element, "max") || 9;
  element.textContent = count > most ? `${most}+` : count || "";
  element.hidden = !count;
  element.dataset.count = count;
  const label = option(element, "label") || `{count} unread notification${count === 1 ? "" : "s"}`;
  element.role = "img";
  element.ariaLabel = label.replace("{count}", count);
  element.dispatchEvent(new CustomEvent("campanile:badge", { bubbles: true, detail: badge }));
  showTitle();
}

function showTitle() {
  const element = document.querySelector("campanile-badge[document-title]");
  if (!element) return;
  const title = (element.hidden ? "" : `(${element.textContent}) `) + document.title.replace(/^\(\d+\+?\) /, "");
  if (title !== document.title) document.title = title;
}

function follow(element) {
  element.hidden = !parseInt(element.textContent);
  const [src, token, tokenSrc] = attributes.map((name) => option(element, name));
  const address = src || element.dataset.notificationBadge || "/badge/stream";
  const react = (name, data) => name === "badge" && show(element, data);
  followed.set(element, listen(address, { token, tokenSrc }, ["badge"], react));
}

function leave(element) {
  followed.get(element)?.();
  followed.delete(element);
}

const sheet = new CSSStyleSheet();
sheet.replaceSync(`:host{display:inline-block;min-width:1.5em;padding:0 .4em;border-radius:1em;background:#d92d20;color:#fff;
font:600 .8em/1.5 system-ui;text-align:center}:host([hidden]){display:none!important}`);

customElements.define("campanile-badge", class extends HTMLElement {
  static observedAttributes = attributes;
  root = Object.assign(this.attachShadow({ mode: "open" }), { innerHTML: "<slot>", adoptedStyleSheets: [sheet] });
  connectedCallback() {
    follow(this);
  }
  disconnectedCallback() {
    leave(this);
  }
  attributeChangedCallback() {
    if (!followed.has(this)) return;
    leave(this);
    this.textContent = ""; // perhaps another user's
    follow(this);
  }
});

function scan() {
  for (const element of followed.keys()) if (!element.isConnected) leave(element);
  for (const element of document.querySelectorAll("[data-notification-badge]")) {
    if (!followed.has(element)) follow(element);
  }
  showTitle();
}
new MutationObserver(scan).observe(document, { childList: true, subtree: true });
scan();
