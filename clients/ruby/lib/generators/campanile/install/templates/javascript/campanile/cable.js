// <turbo-cable-stream-source>: turbo-rails' element, on Campanile's cable. Import it before turbo-rails. See docs/realtime-pages.md.

const extended = "actioncable-v1-ext-json";
const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content;
const snake = (key) => key.replace(/[A-Z]+/g, (letters) => `_${letters.toLowerCase()}`);

// The name that a server signed, as Rails writes it.
function nameIn(signed) {
	try {
		const bytes = Uint8Array.from(atob(signed.split("--")[0]), (letter) => letter.charCodeAt());
		return JSON.parse(new TextDecoder().decode(bytes));
	} catch {}
}

// identifier → the elements that it is for
const wanted = new Map();
let socket, isWelcome, heardAt, failures = 0, timer, watch, mayReturn = true;

const say = (message) => isWelcome && socket.send(JSON.stringify(message));

function subscribe(identifier) {
	const message = { command: "subscribe", identifier };
	const streams = {};
	if (socket.protocol === extended) {
		for (const { place, streamName } of wanted.get(identifier)) {
			if (!place || streamName === undefined) continue;
			// Two elements of one stream: the older page's place; the other passes over what it has.
			const known = streams[streamName];
			if (!known || place.offset < known.offset) streams[streamName] = place;
		}
		if (Object.keys(streams).length) message.history = { streams };
	}
	say(message);
}

function open() {
	clearTimeout(timer);
	if (socket || !wanted.size || !mayReturn) return;
	const url = new URL(meta("action-cable-url") ?? "/cable", document.baseURI);
	url.protocol = url.protocol.replace("http", "ws");
	const mine = (socket = new WebSocket(url, [extended, "actioncable-v1-json"]));
	heardAt = Date.now();
	mine.onmessage = ({ data }) => {
		if (mine === socket) hear(JSON.parse(data));
	};
	mine.onclose = () => {
		if (mine === socket) lost();
	};
	// A connection that says nothing for two pings is gone, whatever the browser thinks.
	watch = setInterval(() => Date.now() - heardAt > 6_500 && lost(), 1_000);
}

function lost() {
	clearInterval(watch);
	const former = socket;
	socket = isWelcome = null;
	former?.close();
	for (const elements of wanted.values()) for (const element of elements) element.removeAttribute("connected");
	const delay = Math.min(30_000, 500 * 1.6 ** failures++) * (0.5 + Math.random());
	timer = setTimeout(open, delay);
}

function hear({ type, identifier, message, reconnect, ...more }) {
	heardAt = Date.now();
	if (type === "welcome") {
		[isWelcome, failures] = [true, 0];
		for (const each of wanted.keys()) subscribe(each);
	} else if (type === "ping") {
		if (socket.protocol === extended) say({ command: "pong" });
	} else if (type === "disconnect") {
		mayReturn = reconnect !== false;
	} else {
		for (const element of wanted.get(identifier) ?? []) element.hear(type, message, more);
	}
}

class TurboCableStreamSourceElement extends HTMLElement {
	static observedAttributes = ["channel", "signed-stream-name"];

	async connectedCallback() {
		this.isThere = true;
		await turbo();
		if (!this.isThere || this.identifier) return;
		window.Turbo.connectStreamSource(this);
		const data = Object.entries(this.dataset).map(([key, value]) => [snake(key), value]);
		const signed = this.getAttribute("signed-stream-name");
		this.streamName = nameIn(signed);
		this.identifier = JSON.stringify({
			channel: this.getAttribute("channel"), signed_stream_name: signed, ...Object.fromEntries(data),
		});
		const others = wanted.get(this.identifier);
		wanted.set(this.identifier, new Set([...(others ?? []), this]));
		// Asked again, the server says again what this page may have missed.
		if (socket) subscribe(this.identifier);
		else open();
	}

	disconnectedCallback() {
		this.isThere = false;
		const { identifier } = this;
		if (!identifier) return;
		this.identifier = null;
		window.Turbo.disconnectStreamSource(this);
		this.removeAttribute("connected");
		const others = wanted.get(identifier);
		others.delete(this);
		if (others.size) return;
		wanted.delete(identifier);
		say({ command: "unsubscribe", identifier });
	}

	attributeChangedCallback() {
		if (!this.identifier) return;
		this.disconnectedCallback();
		this.connectedCallback();
	}

	// Up to where the page has what was broadcast: the server wrote it when it rendered the page, and a copy in Turbo's cache keeps it.
	get place() {
		const [, epoch, offset] = this.getAttribute("position")?.match(/^(.*):(\d+)$/) ?? [];
		return epoch && { epoch, offset: Number(offset) };
	}

	hear(type, message, { epoch, offset }) {
		if (type === "confirm_subscription") return this.setAttribute("connected", "");
		if (type === "reject_subscription") return this.removeAttribute("connected");
		if (type === "reject_history") {
			this.dispatchEvent(new CustomEvent("campanile:missed", { bubbles: true }));
		} else if (message !== undefined) {
			const { place } = this;
			if (place && epoch === place.epoch && offset <= place.offset) return;
			this.dispatchEvent(new MessageEvent("message", { data: message }));
			if (epoch) this.setAttribute("position", `${epoch}:${offset}`);
		}
	}
}

// turbo-rails may come later than the elements.
async function turbo() {
	while (!window.Turbo) await new Promise((then) => setTimeout(then, 10));
}

addEventListener("online", () => socket || open());
addEventListener("pageshow", () => socket || open());
document.addEventListener("visibilitychange", () => document.hidden || socket || open());
if (!customElements.get("turbo-cable-stream-source")) {
	customElements.define("turbo-cable-stream-source", TurboCableStreamSourceElement);
}
