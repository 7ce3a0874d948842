"use strict";
// What a page does with stock clients, called by stock_clients.py. `ActionCable` is Rails' own script, untouched.
// Turbo isn't there: `renderStream` and `<turbo-stream-source>` are made after its documented behaviour.

const heard = [];

function renderStream(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  for (const stream of holder.content.querySelectorAll("turbo-stream")) {
    if (stream.getAttribute("action") !== "update") throw new Error(`unknown action in ${html}`);
    const template = stream.firstElementChild;
    if (!(template instanceof HTMLTemplateElement)) throw new Error(`no template first in ${html}`);
    // A missing target is passed over in silence.
    document.getElementById(stream.getAttribute("target"))?.replaceChildren(template.content.cloneNode(true));
  }
}

customElements.define("turbo-stream-source", class extends HTMLElement {
  connectedCallback() {
    const src = this.getAttribute("src");
    this.source = /^wss?:/.test(src) ? new WebSocket(src) : new EventSource(src);
    // Only messages without a name are listened to, and only text counts.
    this.source.addEventListener("message", ({ data }) => {
      heard.push(data);
      if (typeof data === "string") renderStream(data);
    });
  }
  disconnectedCallback() {
    this.source.close();
  }
});

// A visit as Turbo Drive makes one: the head is merged, the body is another one, and an event says so. Gives the number that
// is shown in that moment.
function visit(signedName) {
  document.querySelector("meta[name=badge-stream]")?.remove();
  if (signedName) document.head.insertAdjacentHTML("beforeend", `<meta name="badge-stream" content="${signedName}">`);
  const body = document.createElement("body");
  body.innerHTML = '<span id="notification-badge-count"></span>';
  document.body.replaceWith(body);
  document.documentElement.dispatchEvent(new CustomEvent("turbo:load", { bubbles: true }));
  return document.getElementById("notification-badge-count").textContent;
}

let consumer;

// What turbo-rails' <turbo-cable-stream-source> does, with Rails' own consumer.
function subscribe(url, channel) {
  consumer ??= ActionCable.createConsumer(url);
  const state = { confirmed: 0, rejected: false, lost: 0, messages: [] };
  state.subscription = consumer.subscriptions.create(channel, {
    connected() { state.confirmed += 1; },
    rejected() { state.rejected = true; },
    disconnected() { state.lost += 1; },
    received(message) {
      state.messages.push(message);
      if (typeof message === "string") renderStream(message);
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
