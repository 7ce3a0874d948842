"use strict";
// A page's part with stock clients, called by stock_clients.py. `ActionCable` is Rails' own script and `Turbo` is Turbo 7.1.0, both
// untouched. Two elements are made again from their documentation, around Turbo's own connectStreamSource: <turbo-stream-source>, which
// came with Turbo 7.2, and <turbo-cable-stream-source>, which is turbo-rails'.

const heard = [];
// Each message that Turbo renders.
const rendered = [];
addEventListener("turbo:before-stream-render", ({ target }) => rendered.push(target.outerHTML));

customElements.define("turbo-stream-source", class extends HTMLElement {
  connectedCallback() {
    const src = this.getAttribute("src");
    this.source = /^wss?:/.test(src) ? new WebSocket(src) : new EventSource(src);
    this.source.addEventListener("message", ({ data }) => heard.push(data));
    Turbo.connectStreamSource(this.source);
  }
  disconnectedCallback() {
    Turbo.disconnectStreamSource(this.source);
    this.source.close();
  }
});

let consumer;

customElements.define("turbo-cable-stream-source", class extends HTMLElement {
  connectedCallback() {
    Turbo.connectStreamSource(this);
    // Its address stands in what action_cable_meta_tag renders.
    consumer ??= ActionCable.createConsumer();
    const channel = { channel: this.getAttribute("channel"), signed_stream_name: this.getAttribute("signed-stream-name") };
    this.subscription = consumer.subscriptions.create(channel, {
      received: (data) => this.dispatchEvent(new MessageEvent("message", { data })),
    });
  }
  disconnectedCallback() {
    Turbo.disconnectStreamSource(this);
    this.subscription.unsubscribe();
  }
});

let visits = 0;

// A visit of Turbo's to the page of a user. Gives the number that is shown when the page has loaded.
function visit(signedName) {
  const loaded = new Promise((done) => addEventListener("turbo:load", done, { once: true }));
  Turbo.visit(`/page.html?${new URLSearchParams({ name: signedName, visit: visits += 1 })}`);
  return loaded.then(() => document.getElementById("notification-badge-count").textContent);
}

// Subscribes with Rails' own consumer, without an element.
function subscribe(url, channel) {
  consumer ??= ActionCable.createConsumer(url);
  const state = { confirmed: 0, rejected: false, lost: 0, messages: [] };
  state.subscription = consumer.subscriptions.create(channel, {
    connected() { state.confirmed += 1; },
    rejected() { state.rejected = true; },
    disconnected() { state.lost += 1; },
    received(message) {
      state.messages.push(message);
      if (typeof message === "string") Turbo.renderStreamMessage(message);
    },
  });
  return state;
}

function listen(url, ...names) {
  const state = { opened: 0, events: [] };
  state.source = new EventSource(url);
  state.source.addEventListener("open", () => { state.opened += 1; });
  for (const name of names)
    state.source.addEventListener(name, ({ type, data, lastEventId }) =>
      state.events.push({ type, data: JSON.parse(data), lastEventId }));
  return state;
}
