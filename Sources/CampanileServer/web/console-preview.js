// What a notification's pushes would look like, while it is being written: the server is asked, and stores nothing.

const pause = 400; // ms without a change until the server is asked
const narrow = matchMedia("(max-width: 76rem)"); // as in the style sheet

const withheld = {
  push_false: "it is created without an alert.",
  expired: "it would have expired by then.",
  app_version: "the app there is too old for the deep link.",
};

// --- what a phone shows of one push, as the simulator's phones do (docs/simulator.md)

const text = (value) => (typeof value === "string" && value) || undefined;

/** A text; without one, the app's own text by its key. */
function words(value, key, values) {
  if (text(value) || !text(key)) return text(value);
  return Array.isArray(values) && values.length ? `${key}(${values.join(", ")})` : key;
}

function ofApple(headers, { aps = {}, ...own }) {
  const given = typeof aps.alert === "string" ? { body: aps.alert } : aps.alert;
  const alert = given && {
    title: words(given.title, given["title-loc-key"], given["title-loc-args"]),
    subtitle: words(given.subtitle, given["subtitle-loc-key"], given["subtitle-loc-args"]),
    body: words(given.body, given["loc-key"], given["loc-args"]),
    image_url: aps["mutable-content"] === 1 ? text(own.imageURL) : undefined, // the service extension loads it
    buttons: text(aps.category),
    interruption_level: text(aps["interruption-level"]),
    thread_id: text(aps["thread-id"]),
  };
  return { alert, badge: aps.badge, replaces: headers["apns-collapse-id"], app: headers["apns-topic"] };
}

/** An app that draws by itself finds in the data what to draw. */
function ofApp(data) {
  let parts;
  try {
    parts = JSON.parse(data.alert);
  } catch {
    return {};
  }
  const { title_key, title_args, body_key, body_args } = parts.loc ?? {};
  const alert = {
    title: words(parts.title, title_key, title_args), subtitle: text(parts.subtitle), body: words(parts.body, body_key, body_args),
    image_url: text(parts.image_url), buttons: text(parts.buttons), thread_id: text(parts.thread_id), channel_id: text(parts.channel_id),
    drawn_by: "app",
  };
  return { alert, badge: parts.count, replaces: text(parts.collapse_key) };
}

function ofFirebase({ notification, data = {}, android = {}, apns }) {
  if (apns) return ofApple(apns.headers ?? {}, apns.payload ?? {});
  if (data.type === "badge") return { badge: Number(data.count) };
  const own = android.notification ?? {};
  if (!notification && !android.notification) return ofApp(data);
  const alert = {
    title: words(own.title ?? notification?.title, own.title_loc_key, own.title_loc_args),
    body: words(own.body ?? notification?.body, own.body_loc_key, own.body_loc_args),
    image_url: text(own.image ?? notification?.image),
    channel_id: text(own.channel_id),
  };
  return { alert, badge: own.notification_count, replaces: text(own.tag) };
}

/** What a phone makes of one push: the alert, if there is one, the number for the icon, what it takes the place of, and the app. */
export function seen({ provider, headers, payload }) {
  return provider === "apns" ? ofApple(headers, payload) : ofFirebase(payload.message ?? {});
}

// --- the preview

/**
 * Shows beside the form what the user's devices would show.
 * @param ask a call of the producer's, without complaints: what goes wrong is said here
 */
export function makePreview({ Problem, drawNews, element, find }, { ask, app, phone, redraw }) {
  const section = find("preview");
  const list = find("preview-list");
  let composed = null; // what is being written
  let waiting = null;
  let asked = null; // aborts the question that isn't answered yet

  /** Beside the form, or after it where there is no place beside it: in this order for the keyboard too. */
  const place = () => (narrow.matches ? find("sending").after(section) : find("phones").before(section));
  narrow.addEventListener("change", place);
  place();

  function say(sentence, ...items) {
    drawNews(find("preview-note"), [sentence, items], () =>
      element("div", {}, element("p", { class: "hint" }, sentence),
        items.length ? element("ul", { class: "preview-rest" }, ...items.map((item) => element("li", {}, item))) : null));
  }

  /** The server tells the end of a token, and nothing of a short one. */
  const end = (token) => (token ? `…${token}` : "");
  const named = ({ platform, token }) => [platform === "ios" ? "iOS" : "Android", end(token)].filter(Boolean).join(" ");

  /** A push as a phone in the shape of the simulator's /devices. */
  function phoneOf(push) {
    const { alert, badge, app: topic } = seen(push);
    const provider = push.provider === "apns" ? "APNs" : "FCM";
    return {
      token: end(push.token), platform: push.platform, app: topic ?? app, online: true, badge: badge ?? 0,
      // A phone draws a banner again when its id is another.
      notifications: alert ? [{ ...alert, apns_id: JSON.stringify(alert) }] : [],
      note: `${provider}, ${badge === undefined ? "no number" : `number ${badge}`}`,
    };
  }

  /** A phone stays, and so does what is unfolded there, as long as the device at its place is the same. */
  function draw(pushes) {
    pushes.forEach((push, index) => {
      const one = phoneOf(push);
      const place = `${push.platform} ${push.token}`;
      let node = list.children[index];
      if (node?.dataset.device === place) {
        redraw(node, one);
      } else {
        const made = phone(one);
        made.dataset.device = place;
        made.append(element("details", {},
          element("summary", {}, "What is sent", element("span", { class: "unseen" }, ` to ${named(push)}`)), element("pre", {})));
        if (node) node.replaceWith(made);
        else list.append(made);
        node = made;
      }
      node.querySelector("pre").textContent = JSON.stringify({ headers: push.headers, payload: push.payload }, null, 2);
    });
    while (list.children.length > pushes.length) list.lastChild.remove();
  }

  function drawAnswer({ pushes, withheld: others }, [user, ...more]) {
    // In an order of their own, as the phones.
    draw(pushes.sort((left, right) => right.platform.localeCompare(left.platform) || left.token.localeCompare(right.token)));
    const whose = more.length ? `${user}, the first of ${more.length + 1} users` : user;
    const rest = others.map((one) => `${named(one)} gets nothing: ${withheld[one.reason] ?? one.reason}`);
    if (pushes.length) say(`As it would arrive on ${pushes.length === 1 ? "the device" : `${pushes.length} devices`} of ${whose}.`, ...rest);
    else if (rest.length) say(`Nothing would be pushed to ${whose}.`, ...rest);
    else say(`No device is registered for ${whose}: it would stand in the inbox alone.`);
  }

  function drawProblem({ status, message, errors }) {
    if (status === 422 && errors.length) return say("The server would refuse this:", ...errors.map((one) => one.message));
    draw([]);
    if (status === 0) say("No preview now: the server can’t be reached.");
    else if (status === 401 || status === 403) say(`No preview: the key isn’t allowed to ask for it. ${message}`);
    else say(`No preview now. ${message}`);
  }

  async function look() {
    waiting = null;
    section.hidden = false;
    const { body: { user_ids: _, ...body }, users, errors } = composed;
    list.classList.toggle("stale", errors.length > 0);
    if (errors.length) return say("Before this can be shown:", ...errors.map((one) => one.message));
    const mine = (asked = new AbortController());
    try {
      const answer = await ask("POST", "/notifications?dry_run=true", { body: { ...body, user_id: users[0] }, signal: mine.signal });
      if (asked === mine) drawAnswer(answer, users);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (asked !== mine) return;
      list.classList.toggle("stale", problem.status === 422);
      drawProblem(problem);
    }
  }

  function stop() {
    clearTimeout(waiting);
    waiting = null;
    asked?.abort();
    asked = null;
  }

  /** Shows another state of the form, soon; nothing while there is no title. */
  function compose(next) {
    stop();
    composed = next.body.title?.trim() ? next : null;
    if (composed) waiting = setTimeout(look, pause);
    else clear();
  }

  function clear() {
    section.hidden = true;
    draw([]);
    say("");
  }

  /** Asks again, because something else than the form has changed. */
  function refresh() {
    if (!composed || waiting) return;
    stop();
    waiting = setTimeout(look, pause);
  }

  return { compose, refresh };
}
