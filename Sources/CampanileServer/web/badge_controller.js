// Tells a native app the number that an element shows, whoever changes it.

/** Calls `send` with the element's number, now and whenever it changes. Gives what ends it. */
export function watchBadge(element, send) {
  let last;
  const look = () => {
    const count = parseInt(element.dataset.count ?? element.textContent) || 0;
    if (count !== last) send((last = count));
  };
  const observer = new MutationObserver(look);
  observer.observe(element, { childList: true, characterData: true, subtree: true, attributeFilter: ["data-count"] });
  look();
  return () => observer.disconnect();
}

/** Posts to the app's handler `badge`: WKScriptMessageHandler on iOS, WebMessageListener on Android. */
export function postBadge(count) {
  window.webkit?.messageHandlers?.badge?.postMessage({ count });
  window.badge?.postMessage?.(JSON.stringify({ count }));
}

const watching = (Base, send) =>
  class extends Base {
    connect() {
      super.connect();
      this.stop = watchBadge(this.element, (count) => send(count, this));
    }
    disconnect() {
      this.stop?.();
      super.disconnect();
    }
  };

/** A Stimulus controller, for `application.register("badge", …)`. */
export const badgeController = (Controller) => watching(Controller, postBadge);

/** A bridge component `badge`, which sends `update` {count}. */
export const badgeBridge = (BridgeComponent) =>
  class extends watching(BridgeComponent, (count, component) => component.send("update", { count })) {
    static component = "badge";
  };
