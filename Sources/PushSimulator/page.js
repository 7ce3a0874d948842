// The page: fetches the phones, listens for changes, switches phones off and on.

const shownPhones = 200;
const list = document.getElementById("phones");
const known = new Map();

function show(device) {
  const node = known.get(device.token);
  if (node) return redraw(node, device);
  if (known.size < shownPhones) {
    const made = phone(device, switchPhone);
    known.set(device.token, made);
    list.append(made);
  }
  document.getElementById("empty").hidden = true;
  const more = document.getElementById("more");
  more.hidden = known.size < shownPhones;
  more.textContent = `The first ${shownPhones} phones are shown. /devices has all of them.`;
}

async function switchPhone(token, isOnline) {
  const answer = await fetch(`/devices/${encodeURIComponent(token)}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ online: isOnline }),
  });
  if (answer.ok) show(await answer.json());
}

let requests = 0;

function count(values) {
  // Fewer than before: somebody has reset the simulator.
  if (values.requests < requests) setTimeout(fetchAll);
  requests = values.requests;
  const names = { accepted: "accepted", requests: "requests", duplicates: "duplicates", connections: "open_connections" };
  for (const [id, key] of Object.entries(names)) {
    document.getElementById(id).textContent = Number(values[key]).toLocaleString("en");
  }
}

async function fetchAll() {
  const [devices, counters] = await Promise.all([
    fetch(`/devices?limit=${shownPhones}`).then((answer) => answer.json()),
    fetch("/counters").then((answer) => answer.json()),
  ]);
  list.replaceChildren();
  known.clear();
  document.getElementById("empty").hidden = false;
  devices.devices.sort((left, right) => left.token.localeCompare(right.token)).forEach(show);
  count(counters);
}

function say(text, isLive) {
  const live = document.getElementById("live");
  live.textContent = text;
  live.classList.toggle("on", isLive);
}

const events = new EventSource("/events");
events.addEventListener("open", () => { say("live", true); fetchAll(); });
events.addEventListener("error", () => say("the simulator is away", false));
events.addEventListener("device", (event) => show(JSON.parse(event.data)));
events.addEventListener("counters", (event) => count(JSON.parse(event.data)));
