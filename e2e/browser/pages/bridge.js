// PyPI and Debian don't have @hotwired/hotwire-native-bridge: what its components need is made again from its documentation.
import { Controller } from "/pages/stimulus.js";

window.sent = [];
// What the app answers to an event; nothing: it doesn't.
window.replies = {};

export class BridgeComponent extends Controller {
  send(event, data = {}, callback) {
    data.metadata = { url: window.location.href };
    sent.push({ component: this.constructor.component, event, data });
    if (replies[event]) callback?.({ data: replies[event] });
  }
}
