// Stimulus, its bridge and Turbo can't be installed by Debian's or Python's package tools. What the badge controllers need
// of them is made again here from their documentation: the life cycle of a controller, `BridgeComponent#send` with the
// message it hands to the app, and the actions `update` and `replace` of <turbo-stream>.

import "/assets/campanile-badge.js";
import { badgeBridge, badgeController } from "/assets/badge_controller.js";

const posted = (window.posted = { ios: [], android: [], bridge: [] });
window.webkit = { messageHandlers: { badge: { postMessage: (message) => posted.ios.push(message) } } };
window.badge = { postMessage: (text) => posted.android.push(text) };

class Controller {
  constructor(element) {
    this.element = element;
  }
  connect() {}
  disconnect() {}
}

class BridgeComponent extends Controller {
  static component = "";
  send(event, data = {}) {
    data.metadata = { url: window.location.href };
    posted.bridge.push({ component: this.constructor.component, event, data });
  }
}

const kinds = [badgeController(Controller), badgeBridge(BridgeComponent)];
const connected = new Map();

function refresh() {
  for (const [element, controllers] of connected) {
    if (element.isConnected) continue;
    connected.delete(element);
    controllers.forEach((controller) => controller.disconnect());
  }
  for (const element of document.querySelectorAll("[data-controller~=badge]")) {
    if (connected.has(element)) continue;
    const controllers = kinds.map((kind) => new kind(element));
    connected.set(element, controllers);
    controllers.forEach((controller) => controller.connect());
  }
}
new MutationObserver(refresh).observe(document, { childList: true, subtree: true });
refresh();

customElements.define("turbo-stream", class extends HTMLElement {
  connectedCallback() {
    const target = document.getElementById(this.getAttribute("target"));
    const content = this.firstElementChild.content.cloneNode(true);
    if (this.getAttribute("action") === "replace") target.replaceWith(content);
    else target.replaceChildren(content);
    this.remove();
  }
});

window.renderStreamMessage = (html) => {
  const template = document.createElement("template");
  template.innerHTML = html;
  document.body.append(document.importNode(template.content, true));
};
