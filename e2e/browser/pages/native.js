// A page inside a native app: Turbo itself (/turbo.js), the pieces, and an app that keeps what it hears in `posted` and `sent`.
import "/assets/campanile-badge.js";
import { badgeBridge, badgeController } from "/assets/badge_controller.js";
import { BridgeComponent } from "/pages/bridge.js";
import { Controller, start } from "/pages/stimulus.js";

const posted = (window.posted = { ios: [], android: [] });
window.webkit = { messageHandlers: { badge: { postMessage: ({ count }) => posted.ios.push(count) } } };
window.badge = { postMessage: (text) => posted.android.push(text) };
window.bridged = () => sent.map(({ data }) => data.count);

window.connected = start({ badge: [badgeController(Controller), badgeBridge(BridgeComponent)], unread: [badgeController(Controller)] });
