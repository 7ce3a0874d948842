// What a producer does: creates notifications, and looks at what became of their pushes.

const recheck = 1000; // ms, while pushes are still owed

export const reasons = {
  no_devices: "Nothing was owed: the user had no device then.",
  push_false: "Nothing was owed: it was created without an alert.",
  expired: "Nothing was owed: it had expired.",
  imported: "Nothing was owed: it was imported.",
};

const states = {
  owed: "waits for its turn", sending: "is on its way", accepted: "the provider took it",
  superseded: "read, deleted or expired before it was sent", withheld: "the app is too old for its deep link",
  gone: "the device has left",
  rejected: "the provider refused it for good", failed: "every attempt failed",
};

/** What became of a delivery, in words. */
export function fate({ state, reason }) {
  if (reason === "restored") return "it was owed when the backup was made from which the database was restored";
  const words = states[state] ?? "";
  return reason === "without_link" ? `${words}, without its deep link: the app is too old for it` : words;
}

export function makeSending(kit, { call, user, onSent }) {
  const { Problem, attempt, drawNews, element, find, follow, icon, shortToken, showFieldErrors, time } = kit;
  const form = find("compose");
  find("no-key").hidden = Boolean(call);
  form.hidden = !call;
  form.elements.to.value = user;

  // --- composing

  /** The same text is sent under the same key until it is answered: nothing is created twice when an answer is lost. */
  let pending = { text: "", key: "" };
  function idempotencyKey(body) {
    const text = JSON.stringify(body);
    if (pending.text !== text) {
      const bytes = crypto.getRandomValues(new Uint8Array(16));
      pending = { text, key: `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}` };
    }
    return pending.key;
  }

  function composed() {
    const fields = form.elements;
    const errors = [];
    const users = fields.to.value.split(",").map((text) => text.trim()).filter(Boolean);
    if (users.length === 0) errors.push({ field: "to", message: "Name a user, or several with commas between them." });
    if (!fields.title.value.trim()) errors.push({ field: "title", message: "A title is needed." });
    const body = users.length === 1 ? { user_id: users[0] } : { user_ids: users };
    for (const name of ["title", "body", "category", "deep_link"]) {
      if (fields[name].value) body[name] = fields[name].value;
    }
    if (fields.data.value.trim()) {
      try {
        body.data = JSON.parse(fields.data.value);
      } catch {
        errors.push({ field: "data", message: "This isn’t JSON." });
      }
    }
    if (!fields.push.checked) body.push = false;
    if (errors.length) throw new Problem(422, { title: "The request is invalid", detail: "See the fields.", errors });
    return body;
  }

  /** The server's names of fields are this form's, but for the recipients and what lies deeper. */
  function placed(errors) {
    return errors.map(({ field, message }) => {
      const name = field.split(/[.[]/)[0];
      return { field: name === "user_id" || name === "user_ids" ? "to" : name, message };
    });
  }

  async function send() {
    find("sent").replaceChildren();
    try {
      const body = composed();
      const created = await call("POST", "/notifications", { body, headers: { "idempotency-key": idempotencyKey(body) } });
      pending = { text: "", key: "" };
      showFieldErrors(form, []);
      for (const name of ["title", "body"]) form.elements[name].value = "";
      form.elements.title.focus();
      drawSent(body, created);
      onSent();
    } catch (problem) {
      if (!problem.errors?.length) throw problem;
      const rest = showFieldErrors(form, placed(problem.errors));
      if (rest.length) throw new Problem(problem.status, { title: problem.title, detail: rest.join(" "), request_id: problem.requestID });
    }
  }

  function drawSent(body, created) {
    const users = body.user_ids ?? [body.user_id];
    const button = element("button", { type: "button", class: "link" }, "Deliveries");
    const first = created.notifications?.[0] ?? created;
    button.addEventListener("click", () => showDeliveries({ id: first.id, title: body.title }));
    find("sent").replaceChildren(`Sent to ${users.length > 3 ? `${users.length} users` : users.join(", ")}. `, button);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form.querySelector("[type=submit]"), send);
  });

  // --- deliveries

  function drawDelivery(delivery) {
    const { token, platform, provider, environment, state, attempts, next_attempt_at, answers } = delivery;
    const where = [provider === "fcm" ? "FCM" : provider === "apns" ? "APNs" : null, environment === "sandbox" ? "sandbox" : null];
    const list = element("ol", { class: "answers" });
    for (const { at, outcome, status, reason } of answers) {
      list.append(element("li", {}, time(at), ` ${outcome}`, status ? ` · ${status}` : "", reason ? element("code", {}, reason) : ""));
    }
    return element("li", { class: "delivery" },
      icon("phone"),
      element("div", {},
        element("p", {}, element("b", {}, platform === "ios" ? "iOS" : platform === "android" ? "Android" : "A former device"), " ",
          token ? element("code", { title: token }, shortToken(token)) : "", " ",
          element("span", { class: "hint" }, where.filter(Boolean).join(", "))),
        element("p", {}, element("span", { class: `state ${state}` }, state), ` ${fate(delivery)}`,
          attempts > 1 ? `, ${attempts} attempts` : "", next_attempt_at ? ", next " : "", next_attempt_at ? time(next_attempt_at) : ""),
        answers.length ? list : null));
  }

  function draw(id, { reason, deliveries }) {
    drawNews(find("deliveries-body"), [id, reason, deliveries], () =>
      deliveries.length
        ? element("ul", { class: "delivery-list" }, ...deliveries.map(drawDelivery))
        : element("p", { class: "nothing" }, reasons[reason] ?? "No device has a part in it any more."));
    return deliveries.some(({ state }) => state === "owed" || state === "sending");
  }

  const show = follow(find("deliveries"), recheck, (id) => call("GET", `/notifications/${id}/deliveries`), draw);

  function showDeliveries({ id, title }) {
    find("deliveries-of").textContent = title;
    return attempt(null, () => show(id));
  }

  return { showDeliveries };
}
