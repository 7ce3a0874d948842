// The user's devices, and the phones that show what pushes did to them.

const settleTimes = [150, 700, 2600]; // ms after a change: pushes go out at once, badges for the others after 2 s
const shownPhones = 200;

/** Applies one recorded push to a phone, as iOS and Android do (docs/simulator.md). */
function apply(phone, push, seen) {
  const { alert, badge, replaces, app } = seen(push);
  phone.received += 1;
  phone.app = app ?? phone.app;
  if (badge !== undefined) phone.badge = badge;
  if (badge === 0) phone.notifications = [];
  if (!alert) return;
  const id = push.headers["apns-id"] ?? push.notification_id;
  const place = replaces ?? id;
  phone.notifications = phone.notifications.filter((one) => one.place !== place);
  // The id is the push's own: what takes another's place is drawn anew.
  phone.notifications.push({ ...alert, apns_id: id, place });
}

/** Phones in the shape of the simulator's /devices, from what the sandbox recorded (newest first). */
function phonesOfSandbox(devices, pushes, app, seen) {
  const phones = new Map();
  for (const { token, platform, environment } of devices) {
    phones.set(token, { token, platform, environment, app, online: true, state: "known", badge: 0, notifications: [], waiting: 0, received: 0, older_badges: 0 });
  }
  for (const push of [...pushes].reverse()) {
    const phone = phones.get(push.token);
    if (phone) apply(phone, push, seen);
  }
  return [...phones.values()];
}

export function makeDevices(kit, { call, produce, user, app, simulator, phone, redraw, seen, onDevices = () => {} }) {
  const { attempt, element, find, icon, shortToken, time } = kit;
  let devices = [];

  // --- devices

  function row(device) {
    const remove = element("button", { type: "button", class: "icon-button", "aria-label": `Delete ${shortToken(device.token)}`, title: "Delete" }, icon("trash"));
    remove.addEventListener("click", () => attempt(remove, async () => {
      await call("DELETE", `/device_tokens/${encodeURIComponent(device.token)}`);
      await load();
      find("devices").focus();
    }));
    const kind = device.platform === "ios" ? "iOS" : "Android";
    return element("li", {}, icon("phone"),
      element("div", {},
        element("p", {}, element("b", {}, kind), " ", element("code", { title: device.token }, shortToken(device.token))),
        element("p", { class: "hint" }, device.provider === "fcm" ? "FCM" : "APNs", device.environment === "sandbox" ? ", sandbox" : "", ", seen ", time(device.last_registered_at))),
      remove);
  }

  async function load() {
    devices = (await call("GET", "/device_tokens")).device_tokens;
    find("device-list").replaceChildren(...devices.map(row));
    find("no-devices").hidden = devices.length > 0;
    onDevices();
    await loadPhones();
  }

  for (const button of document.querySelectorAll("[data-add]")) {
    button.addEventListener("click", () => attempt(button, async () => {
      const platform = button.dataset.add;
      const bytes = crypto.getRandomValues(new Uint8Array(32));
      const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      const token = platform === "ios" ? hex : `demo-${hex.slice(0, 24)}`;
      await call("POST", "/device_tokens", { body: { token, platform, app_version: "console" } });
      await load();
    }));
  }

  // --- phones

  const list = find("phone-list");
  const drawn = new Map();
  let asked = 0;
  let answered = 0;

  function draw(phones) {
    const wanted = new Set(phones.map((one) => one.token));
    for (const [token, node] of drawn) {
      if (wanted.has(token)) continue;
      node.remove();
      drawn.delete(token);
    }
    phones.forEach((one, index) => {
      let node = drawn.get(one.token);
      if (node) redraw(node, one);
      else drawn.set(one.token, (node = phone(one)));
      node.dataset.token = one.token;
      if (list.children[index] !== node) list.insertBefore(node, list.children[index] ?? null);
    });
  }

  function say(text) {
    find("phones-note").textContent = text;
    find("phones-note").hidden = !text;
  }

  async function loadPhones() {
    const mine = (asked += 1);
    const { phones, note } = await (simulator ? simulated() : recorded());
    if (mine < answered) return; // a later look is drawn already
    answered = mine;
    // In an order of their own: the devices' order changes with every registration.
    draw(phones.sort((left, right) => right.platform.localeCompare(left.platform) || left.token.localeCompare(right.token)));
    say(note || (phones.length ? "" : "Register a demo device to see its phone."));
  }

  async function recorded() {
    if (!produce) return { phones: phonesOfSandbox(devices, [], app, seen), note: "Sign in with an API key to see what was pushed to them." };
    try {
      const { pushes } = await produce("GET", `/sandbox/pushes?user_id=${encodeURIComponent(user)}`);
      return { phones: phonesOfSandbox(devices, pushes, app, seen) };
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      return { phones: [], note: "This app’s pushes go to Apple and Google, so there is nothing to draw here." };
    }
  }

  async function simulated() {
    try {
      const answer = await fetch(new URL(`/devices?limit=${shownPhones}`, simulator));
      const known = new Map((await answer.json()).devices.map((one) => [one.token, one]));
      const phones = devices.map((one) => known.get(one.token)).filter(Boolean);
      return { phones, note: phones.length ? "" : "The simulator knows a phone from the first push to it." };
    } catch {
      return { phones: [], note: `The simulator at ${simulator} can’t be read.` };
    }
  }

  if (simulator) {
    const events = new EventSource(new URL("/events", simulator));
    events.addEventListener("device", () => look(settleTimes.slice(0, 1)));
  }

  const waiting = new Map(); // delay -> whether something changed while it ran
  /** Looks at the phones after something has changed, and again when what follows from it has been pushed. */
  function look(times = settleTimes) {
    times.forEach(lookAfter);
  }

  /** Steady changes don't put a look off: what comes during a delay is looked at by the next. */
  function lookAfter(delay) {
    if (waiting.has(delay)) return waiting.set(delay, true);
    waiting.set(delay, false);
    setTimeout(() => {
      const hasChanged = waiting.get(delay);
      waiting.delete(delay);
      if (hasChanged) lookAfter(delay);
      loadPhones().catch(() => {});
    }, delay);
  }

  return { load, look };
}
