// The console's phones without a server: a test answers their calls, when and in the order that it likes.

import * as kit from "/assets/console-kit.js";
import { makeDevices } from "/assets/console-devices.js";

const asked = (window.asked = []);
const call = (method, path) => new Promise((resolve) => asked.push({ method, path, resolve }));

/** Answers the first call that waits and begins like this, and lets what follows from it happen. */
window.answer = async (start, value) => {
  const index = asked.findIndex(({ method, path }) => `${method} ${path}`.startsWith(start));
  asked.splice(index, 1)[0].resolve(value);
  await new Promise((resolve) => setTimeout(resolve));
};
window.makePhones = () => makeDevices(kit, {
  call, produce: call, user: "alice", app: "shop", phone: ({ token }) => kit.element("li", {}, token), redraw: () => {},
});
