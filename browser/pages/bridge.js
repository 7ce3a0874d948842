// @hotwired/hotwire-native-bridge can't be installed here: what the token component needs of it, made again from its documentation.
window.sent = [];
// What the app answers to an event; nothing: it doesn't.
window.replies = {};

export class BridgeComponent {
  constructor(element) {
    this.element = element;
  }
  connect() {}
  disconnect() {}
  send(event, data = {}, callback) {
    sent.push({ component: this.constructor.component, event, data });
    if (replies[event]) callback?.({ data: replies[event] });
  }
}
