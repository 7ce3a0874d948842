// A native app around the documented layout: it keeps what it hears in `posted`.
import { badgeController } from "/assets/campanile/badge_controller.js";
import { Controller, start } from "/pages/stimulus.js";

window.posted = [];
window.webkit = { messageHandlers: { badge: { postMessage: ({ count }) => posted.push(count) } } };
start({ badge: [badgeController(Controller)] });
