// The console: signs a user in, and puts the parts together. The parts' addresses stand in the page.
import { listen } from "./campanile-badge.js"; // by the address from which the list imports it: one copy

const load = (name) => import(document.querySelector(`link[data-module="${name}"]`).href);
const [{ phone, redraw }, kit, { makeInbox }, { fate, makeSending, reasons }, { makePreview, seen }, { makeDevices }, { makeOperator }, { makePicture }] =
  await Promise.all(["phones", "kit", "inbox", "sending", "preview", "devices", "operate", "pictures"].map(load));
const { attempt, caller, complain, element, find, redrawTimes, showFieldErrors } = kit;

// In this tab's sessionStorage: who is signed in, and why somebody no longer is.
const place = "campanile-console";
const farewell = "campanile-console-farewell";
const streamed = ["badge", "notification.created", "notification.updated", "notification.deleted", "notifications.read_all", "reset"];

/** What a user token says; it is the server that checks it. */
function claimsOf(token) {
  try {
    const text = atob(token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  } catch {
    return {};
  }
}

// --- signing in and out

const form = find("sign-in-form");

function showSignIn({ field = "token", message } = {}) {
  find("sign-in").hidden = false;
  showFieldErrors(form, message ? [{ field, message }] : []);
  form.elements[field].focus();
}

const isKey = (text) => text.startsWith("cmp_");
const onlyForOperators = "This key was made with --operate: it opens the operator’s side, without a user token.";

/** Asks the server about what was entered; gives what to say at which field. */
async function refusals({ token, key, simulator }) {
  const errors = [];
  if (!token && !key) return [{ field: "token", message: "A user token is needed, or a key made with --operate alone." }];
  const ask = async (field, call, path, words) => {
    try {
      await call("GET", path);
    } catch (problem) {
      if (problem.status === 401) errors.push({ field, message: problem.message });
      else if (problem.status === 403) errors.push({ field, message: words });
      else if (problem.status !== 404) throw problem;
    }
  };
  if (!token) {
    const needed = isKey(key) ? "This is a producer’s key: a user token is needed beside it." : "This is a user’s token. Here belongs an API key.";
    await ask("key", caller(key), "/operate/overview", needed);
    return errors;
  }
  await ask("token", caller(token), "/badge", "This is an API key. Here belongs a user’s token.");
  const user = encodeURIComponent(claimsOf(token).sub ?? "nobody");
  if (key) await ask("key", caller(key), `/sandbox/pushes?user_id=${user}`, isKey(key) ? onlyForOperators : "This is a user’s token. Here belongs an API key.");
  if (simulator && !/^https?:\/\/[^/]/.test(simulator)) {
    errors.push({ field: "simulator", message: "An address begins with http:// or https://." });
  }
  return errors;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(form.querySelector("[type=submit]"), async () => {
    const session = Object.fromEntries(["token", "key", "simulator"].map((name) => [name, form.elements[name].value.trim()]));
    const errors = await refusals(session);
    showFieldErrors(form, errors);
    if (errors.length) return;
    sessionStorage.setItem(place, JSON.stringify(session));
    begin(session);
  });
});

/** The next user's page begins from nothing: it is loaded anew. */
function leave(message = "", field = "token") {
  sessionStorage.removeItem(place);
  sessionStorage.setItem(farewell, JSON.stringify({ field, message }));
  location.reload();
}

for (const id of ["sign-out", "operator-sign-out"]) find(id).addEventListener("click", () => leave());

// --- a session

/** A key alone is an operator's. */
function beginOperating(key) {
  find("sign-in").hidden = true;
  find("operator").hidden = false;
  makeOperator(kit, { call: caller(key, (problem) => leave(problem.message, "key")), makePicture, fate, reasons });
}

function begin(session) {
  const { token, key, simulator } = session;
  if (!token) return beginOperating(key);
  const { sub: user = "?", app = "App" } = claimsOf(token);
  find("sign-in").hidden = true;
  find("console").hidden = false;
  find("user").textContent = user;
  find("user-initial").textContent = user.slice(0, 1).toUpperCase();

  const call = caller(token, (problem) => leave(problem.message));
  const produce = key ? caller(key, complain) : null;
  const preview = makePreview(kit, { ask: caller(key), app, phone, redraw });
  const devices = makeDevices(kit, { call, produce, user, app, simulator, phone, redraw, seen, onDevices: preview.refresh });
  const sending = makeSending(kit, { call: produce, user, preview, onSent: () => devices.look() });
  const inbox = makeInbox(kit, { call, token, onDeliveries: produce && sending.showDeliveries });

  const src = "/notifications/stream";
  find("list").addEventListener("campanile:token", () => leave("The user token has expired or was refused."));
  document.querySelector(".bell").append(element("campanile-badge", { id: "badge", src, token, "document-title": true }));
  const live = find("live");
  listen(src, { token }, streamed, (name, data) => {
    if (name === "open" || name === "wait") {
      live.textContent = name === "open" ? "live" : "connecting";
      live.classList.toggle("on", name === "open");
      if (name === "open") preview.refresh();
    }
    if (!streamed.includes(name)) return;
    inbox.hear(name, data);
    devices.look();
    preview.refresh();
  });
  load("list"); // joins the stream last, so that what arrives is known here when it draws it
  attempt(null, devices.load);
  setInterval(redrawTimes, 20_000);
}

// What an earlier version of this page left behind is no JSON.
function parsed(text) {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

const kept = sessionStorage.getItem(place);
const words = sessionStorage.getItem(farewell);
sessionStorage.removeItem(farewell);
if (kept) begin(JSON.parse(kept));
else showSignIn(parsed(words));
